"""What torch itself takes apart before conversion: operators without a converter, where their parts have one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.graph_info import described, refusal
from torch_migraphx.fx.leaf_modules import look_into_leaves
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
aten = torch.ops.aten
GETITEM = (getitem, acc_ops.getitem)
"""Take one of several results."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's core ATen table without what stays whole: operators with a converter, and those that draw random numbers.

    The parts of the latter would draw others than eager does.
    """
    table = core_aten_decompositions()
    return {op: fn for op, fn in table.items() if op not in CONVERTERS and not draws(op)}


@cache
def _all_decompositions() -> dict[Any, Callable[..., Any]]:
    """All that torch knows, some of it of operators that are core ATen."""
    table = decomposition_table
    return {op: fn for op, fn in table.items() if op not in CONVERTERS and not draws(op)}


def draws(op: Any) -> bool:
    """Whether an operator draws random numbers."""
    return isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


def decompose(gm: fx.GraphModule) -> None:
    """Replace in place each node without a converter whose decomposition can be converted whole; others stay.

    Leaf modules without a converter are looked into first.
    """
    look_into_leaves(gm)
    for n in list(gm.graph.nodes):
        if n.op not in ("call_function", "call_method") or not refusal(n):
            continue
        for table in (decompositions(), _all_decompositions()):
            inner = _traced(n, table)
            if inner is not None and all(_fits(m, n) for m in inner.graph.nodes):
                _inline(gm, n, inner)
                break


def _fits(m: fx.Node, n: fx.Node) -> bool:
    """Whether a node of the decomposition of `n` can be converted; several results must be taken apart."""
    if m.op == "output":
        return isinstance(m.args[0], fx.Node) or all(user.target in GETITEM for user in n.users)
    return m.op == "placeholder" or (m.op == "call_function" and not refusal(m))


def _traced(n: fx.Node, table: dict[Any, Callable[..., Any]]) -> fx.GraphModule | None:
    """What `n` does, as a graph of ATen operators; its inputs are those of `n` in order."""
    inputs = n.all_input_nodes
    if not all(isinstance(i.meta.get("val"), torch.Tensor) for i in inputs):
        return None  # lists and sizes that depend on data

    def call(*tensors: torch.Tensor) -> object:
        known = dict(zip(inputs, tensors, strict=True))
        args, kwargs = map_arg((n.args, n.kwargs), known.__getitem__)
        if n.op == "call_method":
            return getattr(args[0], str(n.target))(*args[1:], **kwargs)
        return n.target(*args, **kwargs)  # type: ignore[operator]

    values = [i.meta["val"] for i in inputs]
    fake = next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)
    try:  # on fake tensors only: what has no tensor among its inputs would run, and draw random numbers
        with torch.no_grad(), fake or FakeTensorMode(allow_non_fake_inputs=True):
            return make_fx(functionalize(call), table)(*values)
    except Exception as error:  # whatever torch raises where it has no fake form: the node stays, and is logged
        logger.debug("%s is not taken apart: %s", described(n), error)
        return None


def _inline(gm: fx.GraphModule, n: fx.Node, inner: fx.GraphModule) -> None:
    """The nodes of `inner` in place of `n`, under its origin."""
    new = dict(zip((m for m in inner.graph.nodes if m.op == "placeholder"), n.all_input_nodes, strict=True))
    with gm.graph.inserting_before(n):
        for m in inner.graph.nodes:
            if m.op == "call_function":
                new[m] = gm.graph.node_copy(m, new.__getitem__)
                new[m].meta = {"val": m.meta.get("val"), **{k: v for k, v in n.meta.items() if k == "stack_trace"}}
    result = inner.graph.output_node().args[0]
    for user in [] if isinstance(result, fx.Node) else list(n.users):
        index = user.args[1] if len(user.args) > 1 else user.kwargs["idx"]
        user.replace_all_uses_with(new[result[index]])  # type: ignore[index]
        gm.graph.erase_node(user)
    if isinstance(result, fx.Node):
        n.replace_all_uses_with(new[result])
    gm.graph.erase_node(n)
