"""Outputs with the strides and the shared memory that tracing promised: AOTAutograd and the caller depend on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from torch_migraphx.fx.any_size_results import numbers_of_sizes, sizes_of
from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.concrete import memory_order, same_size
from torch_migraphx.fx.converters.shape import dense_order
from torch_migraphx.fx.graph_info import value_of
from torch_migraphx.fx.graphs import copied
from torch_migraphx.fx.tracer.acc_tracer import acc_ops


def with_open_strides(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs are row-major, with the strides of `gm`'s where these are made of open sizes.

    Only those that leave gaps or hold an element several times (`in_memory_order` permutes the others).
    UnsupportedError where the inputs' sizes do not tell the strides.
    """
    known = sizes_of(gm.graph.find_nodes(op="placeholder"))
    wanted: dict[int, Callable[[Sequence[Any]], tuple[int, ...]]] = {}
    for k, n in enumerate(gm.graph.output_node().args[0]):  # type: ignore[arg-type]
        value = value_of(n) if isinstance(n, fx.Node) and n.op != "placeholder" else None
        if isinstance(value, torch.Tensor) and not _known(value) and memory_order(value) is None:
            wanted[k] = numbers_of_sizes(value.stride(), known)
    if not wanted:
        return function

    def restrided(*args: Any) -> list[Any]:
        made = list(function(*args))
        for k, strides in wanted.items():
            made[k] = _laid_out(made[k], strides(args))
        return made

    return restrided


def with_strides(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs have the strides of `gm`'s: a caller or a backward may view them by those."""
    values = [_value(n) for n in gm.graph.output_node().args[0]]  # type: ignore[union-attr]
    wanted = [None if v is None else v.stride() for v in values]

    def restrided(*args: Any) -> list[Any]:
        return [
            x if w is None or x is None or x.stride() == w else _laid_out(x, w)
            for x, w in zip(function(*args), wanted, strict=True)
        ]

    return restrided


def _value(n: Any) -> torch.Tensor | None:
    """The tensor that an output promises to be; None where its strides are known only at run time, and of inputs."""
    if not isinstance(n, fx.Node) or n.op == "placeholder":
        return None
    value = value_of(n)
    return value if isinstance(value, torch.Tensor) and _known(value) else None


def _known(value: torch.Tensor) -> bool:
    if foreign(value):
        return False
    return all(isinstance(s, int) for s in (*value.shape, *value.stride(), value.storage_offset()))


def _laid_out(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """`x` with these strides, copied where an element has to move; dimensions of stride 0 hold one element."""
    sizes = x.shape
    if all(n == 1 or own == s for n, own, s in zip(sizes, x.stride(), strides, strict=True)):
        return x.as_strided(sizes, strides)
    for d, s in enumerate(strides):
        if s == 0 and sizes[d] > 1:
            x = x.narrow(d, 0, 1)
    out = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    return out.copy_(x).expand(sizes)


def in_memory_order(gm: fx.GraphModule) -> tuple[fx.GraphModule, list[list[int] | None]]:
    """A graph with its outputs permuted to be row-major, as the engine's are, and each one's order of dimensions.

    None: an output is as it was (row-major, with gaps, expanded, of unknown strides, an input, no tensor).
    """
    orders = [_order(n) for n in gm.graph.output_node().args[0]]  # type: ignore[union-attr]
    if any(orders):
        gm = copied(gm)
        output = gm.graph.output_node()
        with gm.graph.inserting_before(output):
            made = [_permuted(gm.graph, n, o) for n, o in zip(output.args[0], orders, strict=True)]  # type: ignore[arg-type]
        output.args = (tuple(made),)
    return gm, orders


def _order(n: Any) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None where they are not to be permuted."""
    if not isinstance(n, fx.Node) or n.op == "placeholder":
        return None
    value = value_of(n)
    if not isinstance(value, torch.Tensor) or foreign(value):
        return None
    if _known(value):
        return None if value.is_contiguous() else dense_order(value.shape, value.stride())
    order = memory_order(value) or []
    return [*(set(range(value.ndim)) - set(order)), *order] if order != sorted(order) else None


def _permuted(graph: fx.Graph, n: Any, order: list[int] | None) -> Any:
    if order is None:
        return n
    value = value_of(n)
    assert isinstance(value, torch.Tensor)
    permuted = graph.call_function(acc_ops.permute, (), {"input": n, "permutation": tuple(order)})
    permuted.meta = n.meta | {"val": value.permute(order)}
    permuted.meta.pop("example_value", None)
    return permuted


def permuted_back(function: Callable[..., Any], orders: list[list[int] | None]) -> Callable[..., Any]:
    """`function` of a graph in memory order, its outputs with their dimensions as they were."""
    backs = [o and [o.index(d) for d in range(len(o))] for o in orders]
    if not any(backs):
        return function

    def call(*args: Any) -> list[Any]:
        return [x if b is None else x.permute(b) for x, b in zip(function(*args), backs, strict=True)]

    return call


@dataclass(frozen=True)
class _View:
    """An output as a view of another output, or of an input, by its place."""

    base: int
    of_input: bool
    layout: Callable[[Sequence[Any]], tuple[int, ...]] | None
    """Of the inputs: its sizes, its strides, and from where the base begins; None: it is the base."""

    def of(self, args: Sequence[Any], results: Sequence[Any]) -> torch.Tensor:
        base = args[self.base] if self.of_input else results[self.base]
        if self.layout is None:  # no view, as in eager: autograd lets a caller write to it
            return base
        if not self.of_input:  # a view of what requires grad would require it, too
            base = base.detach()
        *layout, offset = self.layout(args)
        rank = len(layout) // 2
        return base.as_strided(layout[:rank], layout[rank:], base.storage_offset() + offset)


Sharing = Callable[[Callable[..., Any]], Callable[..., Any]]


def shared_memory(gm: fx.GraphModule, returned: int) -> tuple[fx.GraphModule, Sharing] | None:
    """Outputs that share memory with one another or with an input, where those of `gm` do: a write shows in all.

    A graph that gives each block of memory whole and once, and what makes a function that does so into one that gives
    the outputs of `gm`, views of those blocks. None where no value of the graph holds such a block whole.
    Outputs behind the first `returned` are saved for the backward. They share only an input's memory with the others:
    AOTAutograd returns views under another version counter, so nothing would tell that a write changed what is saved.
    Of outputs of open sizes UnsupportedError where the inputs' sizes do not tell how they lie.
    """
    nodes = list(gm.graph.output_node().args[0])  # type: ignore[arg-type]
    inputs = {n: k for k, n in enumerate(gm.graph.find_nodes(op="placeholder"))}
    known = sizes_of(inputs)
    groups: dict[tuple[StorageWeakRef, bool], list[int]] = {}
    for k, n in enumerate(nodes):
        value = _promised(n)
        if value is not None and n not in inputs:
            groups.setdefault((StorageWeakRef(value.untyped_storage()), k >= returned), []).append(k)
    given, views = list(nodes), {}
    for (memory, saved), group in groups.items():
        base = _whole(gm.graph, memory, [nodes[k] for k in group])
        if base is None and len(group) > 1 and not saved:
            return None
        if base is None or (base not in inputs and len(group) == 1):
            continue
        start, place = base.meta["val"].storage_offset(), inputs.get(base, len(given))
        if base not in inputs:
            given.append(base)
        for k in group:
            value = nodes[k].meta["val"]
            layout = (*value.shape, *value.stride(), value.storage_offset() - start)
            views[k] = _View(place, base in inputs, None if nodes[k] is base else numbers_of_sizes(layout, known))
            given[k] = None
    if not views:
        return gm, lambda function: function

    def sharing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> list[Any]:
            results = list(function(*args))
            return [views[k].of(args, results) if k in views else results[k] for k in range(len(nodes))]

        return call

    whole = copied(gm)
    new = dict(zip(gm.graph.nodes, whole.graph.nodes, strict=True))
    whole.graph.output_node().args = (tuple(new[n] if isinstance(n, fx.Node) else n for n in given),)
    whole.graph.eliminate_dead_code()
    whole.recompile()
    return whole, sharing


def _promised(n: Any) -> torch.Tensor | None:
    """The tensor that a node gives, where it has strides."""
    value = n.meta.get("val") if isinstance(n, fx.Node) else None
    return value if isinstance(value, torch.Tensor) and not foreign(value) else None


def _fills(value: torch.Tensor) -> bool:
    """Whether there is no more of its memory than it has elements. Of open sizes no guard is asked for."""
    return same_size(value.numel() * value.dtype.itemsize, value.untyped_storage().nbytes())


def _whole(graph: fx.Graph, memory: StorageWeakRef, group: Sequence[fx.Node]) -> fx.Node | None:
    """The first node that holds a block of memory whole, in the type of all of a group; None where there is none."""
    dtypes = {n.meta["val"].dtype for n in group}
    for n in graph.nodes:
        value = _promised(n)
        if value is None or StorageWeakRef(value.untyped_storage()) != memory or {value.dtype} != dtypes:
            continue
        if n.op == "placeholder" or (_fills(value) and memory_order(value) is not None):
            return n
    return None
