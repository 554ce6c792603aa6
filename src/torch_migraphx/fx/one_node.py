"""What one node of a graph does, as a graph of ATen operators, and that graph in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from torch_migraphx.fx.decompositions import COMPOSITES
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import copy_origin, described
from torch_migraphx.fx.graphs import attribute
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.log import get_logger

logger = get_logger(__name__)
GETITEM = (getitem, acc_ops.getitem)
"""Take one of several results."""
Table = Mapping[Any, Callable[..., Any]]


def traced(n: fx.Node, table: Table) -> fx.GraphModule | None:
    """What `n` does, as a graph of ATen operators taken apart by `table`; its inputs are those of `n` in order.

    Graphs among them are constants. None where an input is no strided tensor (lists, sizes that depend on data, other
    layouts: parts of what reads these would read something else), or torch cannot trace it.
    """
    inputs = tensors_of(n)
    values = [i.meta.get("val") for i in inputs]
    if not all(isinstance(x, torch.Tensor) and x.layout is torch.strided for x in values):
        return None
    graphs = {i: attribute(n.graph.owning_module, i) for i in n.all_input_nodes if i not in inputs}

    def call(*tensors: torch.Tensor) -> object:
        known = graphs | dict(zip(inputs, tensors, strict=True))
        args, kwargs = map_arg((n.args, n.kwargs), known.__getitem__)
        own = COMPOSITES.get(n.target) or COMPOSITES.get(str(n.target).removesuffix(".default"))
        if own is not None:
            return own(*args, **kwargs)
        if n.op == "call_method":
            return getattr(args[0], str(n.target))(*args[1:], **kwargs)
        return n.target(*args, **kwargs)  # type: ignore[operator]

    return as_graph(call, values, table, n)


def tensors_of(n: fx.Node) -> list[fx.Node]:
    """The inputs of `n` but those that are graphs."""
    return [i for i in n.all_input_nodes if i.op != "get_attr" or isinstance(i.meta.get("val"), torch.Tensor)]


def as_graph(call: Callable[..., Any], values: list[Any], table: Table, n: fx.Node) -> fx.GraphModule | None:
    """A function of tensors as a graph of ATen operators, for `n`; None where torch cannot trace it."""
    fake = next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)
    try:  # on fake tensors only: what has no tensor among its inputs would run, and draw random numbers
        with torch.no_grad(), fake or fake_mode():
            made = make_fx(functionalize(call), table)(*values)
            if any(is_mutable(m) for m in made.graph.nodes):  # those inside of torch's own composites
                made = make_fx(functionalize(made), table)(*values)
    except Exception as error:  # whatever torch raises where it has no fake form: the node stays, and is logged
        logger.debug("%s is not taken apart: %s", described(n), error)
        return None
    made.graph.eliminate_dead_code()
    return made


def is_mutable(n: fx.Node) -> bool:
    """Whether a node of an ATen graph changes what it is given."""
    return isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable


def put_before(n: fx.Node, inner: fx.GraphModule, inputs: list[fx.Node]) -> Any:
    """Copy the nodes of `inner`, whose inputs are `inputs`, before `n`, under its origin; returns what it returns."""
    root = n.graph.owning_module
    assert root is not None
    new = dict(zip(inner.graph.find_nodes(op="placeholder"), inputs, strict=True))
    with n.graph.inserting_before(n):
        for m in inner.graph.nodes:
            if m.op == "get_attr":
                root.register_buffer(name := f"_{n.name}_{m.name}", constant_of(m), persistent=False)
                new[m] = n.graph.get_attr(name)
                new[m].meta["val"] = m.meta.get("val", getattr(root, name))
            elif m.op == "call_function":
                new[m] = n.graph.node_copy(m, new.__getitem__)
                new[m].meta = {"val": m.meta.get("val")}
                copy_origin(n, new[m])
    return map_arg(inner.graph.output_node().args[0], new.__getitem__)


def constant_of(n: fx.Node) -> torch.Tensor | None:
    """The tensor that a get_attr node reads, where its elements are known: a number that torch made a tensor of."""
    value = attribute(n.graph.owning_module, n)
    known = value.constant if isinstance(value, FakeTensor) else value
    return known if isinstance(known, torch.Tensor) else None
