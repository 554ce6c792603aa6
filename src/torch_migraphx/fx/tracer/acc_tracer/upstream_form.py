"""Graphs of acc operators as Torch-MIGraphX's own tracer gives them.

The engine has operators that upstream takes apart (log1p is exact for small numbers, log(1 + x) is not), and takes the
leaves of containers. So the parts are written last, for who asks for that graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten_with_path

from torch_migraphx.fx.graph_info import copy_origin, set_value

from . import acc_ops
from .acc_normalizer import NodeBuilder, is_acc_op
from .acc_utils import build_raw_tensor_meta

Parts = Callable[..., Any]


def addmm(b: NodeBuilder, input: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * mat1 @ mat2"""
    product = b(acc_ops.matmul, input=mat1, other=mat2)
    if alpha != 1:
        product = b(acc_ops.mul, input=product, other=alpha)
    if beta != 1:
        input = b(acc_ops.mul, input=input, other=beta)
    return b(acc_ops.add, input=product, other=input)


def hardswish(b: NodeBuilder, input: Any, inplace: bool = False) -> Any:
    """hardsigmoid(input) * input"""
    return b(acc_ops.mul, input=b(acc_ops.hardsigmoid, input=input), other=input)


def log1p(b: NodeBuilder, input: Any) -> Any:
    """log(input + 1)"""
    return b(acc_ops.log, input=b(acc_ops.add, input=input, other=1))


def square(b: NodeBuilder, input: Any) -> Any:
    """input * input, but of bool, whose square is a number."""
    return None if b.dtype(input) == torch.bool else b(acc_ops.mul, input=input, other=input)


def stack(b: NodeBuilder, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Joined along a new axis."""
    return b(acc_ops.cat, tensors=[b(acc_ops.unsqueeze, input=t, dim=dim) for t in tensors], dim=dim)


def split(b: NodeBuilder, input: Any, split_size: Any, dim: int = 0) -> Any:
    """Parts of given sizes; parts of one size stay as they are."""
    if isinstance(split_size, int):
        return None
    starts = [sum(split_size[:k]) for k in range(len(split_size))]
    return _slices(b, input, dim, [(start, start + n) for start, n in zip(starts, split_size, strict=True)])


def tensor_split(b: NodeBuilder, input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Nearly equal parts, or parts that end at given places."""
    total = b.shape(input)[dim]
    if isinstance(indices_or_sections, int):
        least, more = divmod(total, indices_or_sections)
        ends = [least * k + min(k, more) for k in range(1, indices_or_sections)]
    else:
        ends = [range(total)[slice(None, k)].stop for k in indices_or_sections]
    cuts = zip([0, *ends], [*ends, total], strict=True)
    return _slices(b, input, dim, [(start, max(start, stop)) for start, stop in cuts])


def to_dtype(b: NodeBuilder, input: Any, dtype: torch.dtype) -> Any:
    """The type among other things that upstream says of a result."""
    return b(acc_ops.to_dtype, input=input, acc_out_ty=build_raw_tensor_meta(dtype=dtype))


def _slices(b: NodeBuilder, input: Any, dim: int, cuts: Sequence[tuple[int, int]]) -> fx.Node:
    parts = [b(acc_ops.slice_tensor, input=input, dim=dim, start=i, stop=j, step=1) for i, j in cuts]
    return b(acc_ops.tuple_construct, tensors=tuple(parts))


PARTS: dict[Callable[..., Any], Parts] = {
    acc_ops.addmm: addmm, acc_ops.hardswish: hardswish, acc_ops.log1p: log1p, acc_ops.square: square,
    acc_ops.stack: stack, acc_ops.split: split, acc_ops.tensor_split: tensor_split,
}  # fmt: skip
"""What becomes of an acc operator; None where it stays."""


def with_upstreams_operators(graph: fx.Graph, fake_mode: FakeTensorMode) -> None:
    """Write operators in upstream's parts, and let the output read nodes of several values as they are."""
    for n in list(graph.nodes):
        if n.op != "call_function" or not is_acc_op(n.target):
            continue
        if n.target in PARTS:
            new = PARTS[n.target](NodeBuilder(n, fake_mode), **n.kwargs)
        elif n.target is acc_ops.to_dtype and "acc_out_ty" not in n.kwargs:
            new = to_dtype(NodeBuilder(n, fake_mode), **n.kwargs)
        else:
            continue
        if new is not None:
            n.replace_all_uses_with(new)
            graph.erase_node(n)
    output = graph.output_node()
    before = output.all_input_nodes
    output.args = tuple(_whole(x) for x in output.args)
    for n in before:
        if not n.users and n.op == "call_function":
            graph.erase_node(n)


def _whole(value: Any) -> Any:
    """A container of what one node gives as that node, wherever the tracer has taken it apart."""
    if isinstance(value, dict):
        return {k: _whole(v) for k, v in value.items()}
    if not isinstance(value, tuple | list):
        return value
    if value and all(isinstance(x, fx.Node) and x.meta.get("taken_apart") for x in value):
        source = value[0].kwargs.get("input", (value[0].args or (None,))[0])
        if all(source in x.all_input_nodes for x in value) and len(source.meta["val"]) == len(value):
            return source
    return type(value)(_whole(x) for x in value)


def nest_inputs(graph: fx.Graph, samples: Mapping[str, Any], item: Callable[..., Any] | None) -> None:
    """One placeholder for each argument in `samples`, whose parts are fetched by acc operators `item`, or Python's."""
    found, _ = tree_flatten_with_path(dict(samples))
    leaves = graph.find_nodes(op="placeholder")
    paths: dict[str, list[tuple[fx.Node, list[Any]]]] = {name: [] for name in samples}
    for leaf, (path, _) in zip(leaves, found, strict=True):
        (name,) = _places(samples, path[:1])
        paths[name].append((leaf, _places(samples[name], path[1:])))
    first = next(iter(graph.nodes))
    for name, parts in paths.items():
        if any(None in keys for _, keys in parts):  # a class of the user's own
            continue
        if [keys for _, keys in parts] == [[]]:
            first = parts[0][0].next
            continue
        with graph.inserting_before(first):
            whole = graph.placeholder(name)
        whole.meta["val"] = samples[name]
        for leaf, keys in parts:
            _fetch(graph, whole, leaf, keys, item)
            first = leaf.next if first is leaf else first
            graph.erase_node(leaf)


def _places(value: Any, path: Sequence[Any]) -> list[Any]:
    """What to ask containers for, one after the other, to get to a leaf; None where one cannot be asked so."""
    found = []
    for k in path:
        field = getattr(k, "name", None)
        place = value._fields.index(field) if field in getattr(value, "_fields", ()) else None
        found.append(getattr(k, "key", getattr(k, "idx", place)))
        if found[-1] is None:
            break
        value = value[found[-1]]
    return found


def _fetch(graph: fx.Graph, whole: fx.Node, leaf: fx.Node, keys: Sequence[Any], item: Any) -> None:
    """Let the users of a leaf read it from the whole, right before the first of them."""
    if not leaf.users:
        return
    with graph.inserting_before(min(leaf.users)):
        n, value = whole, whole.meta["val"]
        for key in keys:
            value = value[key]
            n = (
                graph.call_function(item, (), {"input": n, "idx": key})
                if item
                else graph.call_function(getitem, (n, key))
            )
            copy_origin(leaf, n)
            set_value(n, value)
    n.meta.update(leaf.meta)
    leaf.replace_all_uses_with(n)
