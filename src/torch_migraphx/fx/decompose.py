"""What torch itself takes apart before conversion: operators without a converter, where their parts have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions, decomposition_table

from torch_migraphx.fx.complex_pairs import complex_as_pairs, inside_as_pairs
from torch_migraphx.fx.converter import CONVERTERS
from torch_migraphx.fx.decompositions import DECOMPOSITIONS
from torch_migraphx.fx.fold import make
from torch_migraphx.fx.graph_info import STATIC_CHECKS, copy_origin, draws, refusal
from torch_migraphx.fx.graphs import attribute, copied
from torch_migraphx.fx.leaf_modules import look_into_leaves
from torch_migraphx.fx.one_node import GETITEM, constant_of, put_before, tensors_of, traced

WITH_EFFECTS = torch.ops.higher_order.with_effects
BERNOULLI, EMPTY = torch.ops.aten.bernoulli.p, torch.ops.aten.empty_strided.default


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's core ATen table without what stays whole: operators with a converter, and those that draw random numbers.

    The parts of the latter would draw others than eager does, unless they are of ours.
    """
    return _without_whole(core_aten_decompositions()) | _without_converter(DECOMPOSITIONS)


@cache
def all_decompositions() -> dict[Any, Callable[..., Any]]:
    """The same of everything that torch can take apart, down to Prims."""
    return _without_whole(decomposition_table) | decompositions()


def _without_converter(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    return {op: fn for op, fn in table.items() if op not in CONVERTERS}


def _without_whole(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    return {op: fn for op, fn in _without_converter(table).items() if not draws(op)}


def decompose(gm: fx.GraphModule) -> None:
    """Replace in place each node without a converter whose decomposition can be converted whole; others stay.

    Leaf modules without a converter are looked into first, constants are made, and complex numbers become pairs of real
    ones.
    """
    look_into_leaves(gm)
    for n in list(gm.graph.nodes):
        if n.op == "call_function" and n.target is WITH_EFFECTS:
            _without_token(n)
        elif n.target in STATIC_CHECKS and not n.users:
            gm.graph.erase_node(n)
        elif _is_constant(n):
            make(gm, n)
    complex_as_pairs(gm, decompositions)
    for n in list(gm.graph.nodes):
        if n.op not in ("call_function", "call_method") or not refusal(n):
            continue
        for table in (decompositions, all_decompositions):
            inner = traced(n, table())
            if inner is not None and all(_fits(m, n) for m in inner.graph.nodes):
                _inline(n, inner)
                break
        else:
            if inside_as_pairs(gm, n, decompositions()):
                gm.graph.erase_node(n)

    for n in gm.graph.nodes:
        if n.op == "call_function" and draws(n.target):
            _read_nothing(n)
        elif n.op == "get_attr" and isinstance(inner := attribute(gm, n), fx.GraphModule):
            own = copied(inner)  # the graph of a branch or of a loop
            decompose(own)
            name = f"_own_{n.name}"
            setattr(gm, name, own)
            n.target = name


def _without_token(n: fx.Node) -> None:
    """A check that AOTAutograd keeps in its place by a token, without it: the order of checks is that of the graph."""
    token, op, *args = n.args
    if op not in CONVERTERS or op._schema.returns:  # type: ignore[union-attr]
        return
    with n.graph.inserting_before(n):
        call = n.graph.call_function(op, tuple(args), dict(n.kwargs))  # type: ignore[arg-type]
    copy_origin(n, call)
    call.meta["val"] = None
    for user in list(n.users):  # it gives the next token alone
        user.replace_all_uses_with(token)  # type: ignore[arg-type]
        n.graph.erase_node(user)
    n.graph.erase_node(n)


def _is_constant(n: fx.Node) -> bool:
    """Whether a node without a converter makes its tensor of numbers alone, always the same."""
    known = isinstance(n.target, torch._ops.OpOverload) and n.target not in CONVERTERS and not draws(n.target)
    return n.op == "call_function" and known and not n.all_input_nodes and isinstance(n.meta.get("val"), torch.Tensor)


def reads_no_element(target: Any) -> bool:
    """Whether an operator that draws asks its tensor for sizes, strides and type alone."""
    return target is BERNOULLI or str(target).partition(".")[2].partition(".")[0].endswith("_like")


def _read_nothing(n: fx.Node) -> None:
    """Let a draw that looks at a tensor's shape alone read an empty one: it can then go ahead of what is computed."""
    read = n.args[0] if n.args else None
    if not reads_no_element(n.target) or not isinstance(read, fx.Node):
        return
    value = read.meta.get("val")
    if not read.all_input_nodes or not isinstance(value, torch.Tensor):
        return
    if not all(isinstance(size, int) for size in (*value.shape, *value.stride())):
        return
    how = {"dtype": value.dtype, "device": value.device}
    with n.graph.inserting_before(n):
        empty = n.graph.call_function(EMPTY, (list(value.shape), list(value.stride())), how)
    empty.meta["val"] = value
    n.replace_input_with(read, empty)


def _fits(m: fx.Node, n: fx.Node) -> bool:
    """Whether a node of the decomposition of `n` can be converted; several results must be taken apart."""
    if m.op == "output":
        return isinstance(m.args[0], fx.Node) or all(user.target in GETITEM for user in n.users)
    if m.op == "get_attr":
        return constant_of(m) is not None
    if m.target is n.target:
        return False
    return m.op == "placeholder" or (m.op == "call_function" and (draws(m.target) or not refusal(m)))


def _inline(n: fx.Node, inner: fx.GraphModule) -> None:
    """The nodes of `inner` in place of `n`, under its origin."""
    result = put_before(n, inner, tensors_of(n))
    if isinstance(result, fx.Node):
        n.replace_all_uses_with(result)
    else:
        for user in list(n.users):
            index: Any = user.args[1] if len(user.args) > 1 else user.kwargs["idx"]
            user.replace_all_uses_with(result[index])
            n.graph.erase_node(user)
    n.graph.erase_node(n)
