"""Dynamo's graphs as functional graphs of acc operators."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.fake_mode import fake_mode
from torch_migraphx.fx.graph_info import described, is_python, unmapped, value_of
from torch_migraphx.fx.graphs import copied, no_collection
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import find_mapping, is_acc_op, normalize
from torch_migraphx.fx.tracer.acc_tracer.decompositions import DECOMPOSITIONS
from torch_migraphx.fx.tracer.acc_tracer.functionalize import changed_by, functionalize, storages
from torch_migraphx.fx.tracer.acc_tracer.proxies import AccTraceError

IN_PLACE_OPERATORS = frozenset(
    {
        operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod,
        operator.ipow, operator.iand, operator.ior, operator.ixor, operator.setitem, operator.imatmul,
    }
)  # fmt: skip
RESHAPES_IN_PLACE = frozenset(
    {"t_", "squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "resize_", "resize_as_"}
)
GRAD_MODE = (torch._C._set_grad_enabled,)
CREATE = frozenset({torch.arange, torch.zeros, torch.ones, torch.full, torch.eye, torch.linspace, torch.tensor})
"""Functions that make a tensor from numbers alone, the same at each call."""


class NeedsAot(Exception):
    """The graph has to go through AOTAutograd; the message says why."""


@no_collection()
def to_acc(gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """Dynamo's Torch-IR graph as a functional graph of acc operators, for a call that needs no gradient.

    Raises NeedsAot where the graph writes to its inputs, behaves as in training, or holds what has no acc operator.
    """
    if torch.is_autocast_enabled("cpu"):
        raise NeedsAot("autocast is on, whose casts the graph does not show")
    gm = copied(gm)
    graph = gm.graph
    _tidy(graph)
    _check_plain(graph)
    memory = {s for n in graph.nodes if n.op in ("placeholder", "get_attr") for s in storages(n)}
    shared = set(memory)  # the engine's outputs share none
    for n in dict.fromkeys(n for n in tree_leaves(graph.output_node().args) if isinstance(n, fx.Node)):
        if n.op != "placeholder" and storages(n) & shared:
            raise NeedsAot(f"the output {described(n)} shares memory with an input or another output")
        shared |= storages(n)
    for n in graph.nodes:
        if n.op not in ("call_function", "call_method"):
            continue
        bound = _bound(n)
        if _as_in_training(bound):
            raise NeedsAot(f"{described(n)} behaves as in training")
        if n.target in acc_tracer.AS_STRIDED and not acc_tracer.is_row_major(value_of(bound["input"])):
            raise NeedsAot(f"{described(n)} asks where elements lie in memory, which is not row-major")
        if _in_place(n, bound):
            if storages(changed_by(n)) & memory:
                raise NeedsAot(f"{described(n)} writes to an input of the graph")
            if n.target in RESHAPES_IN_PLACE:
                raise NeedsAot(f"{described(n)} changes a shape, which the graph does not show")
            n.meta["mutates"] = True
    try:
        functionalize(graph)
    except AccTraceError as error:
        raise NeedsAot(str(error)) from error
    _create(gm)
    normalize(graph, _fake_mode(graph))
    graph.eliminate_dead_code()
    left = [n for n in graph.nodes if n.op.startswith("call_") and not (is_acc_op(n.target) or is_python(n.target))]
    if left and all(n.target in DECOMPOSITIONS for n in left):
        return _traced_again(gm, inputs)
    if left:
        raise NeedsAot(f"{described(left[0])}: {unmapped(left[0]) or 'has no acc operator'}")
    return gm


def _tidy(graph: fx.Graph) -> None:
    """Values where the tracers look for them, and no switches of gradients: none are computed in any case.

    Symbols of which a guard has made numbers are numbers, and a torch.Size is the tuple that it is made of.
    """
    for n in list(graph.nodes):
        if "example_value" in n.meta:
            value = n.meta["val"] = n.meta["example_value"]
            if isinstance(value, torch.SymInt | torch.SymFloat) and value.node.expr.is_number:
                n.replace_all_uses_with(value.node.hint, lambda user: user.op != "output")
        if n.target is torch.Size:
            n.replace_all_uses_with(n.args[0])
        if n.op == "call_function" and n.target in GRAD_MODE and not n.users:
            graph.erase_node(n)


def _check_plain(graph: fx.Graph) -> None:
    """NeedsAot where values are of classes or layouts that AOTAutograd takes apart, or gradients are asked for."""
    for n in graph.nodes:
        for value in (x for x in tree_leaves(n.meta.get("val")) if isinstance(x, torch.Tensor)):
            if why := foreign(value):
                raise NeedsAot(f"{described(n)} {why}")
    for n in graph.output_node().all_input_nodes:
        value = n.meta.get("val")
        if n.op.startswith("call_") and isinstance(value, torch.Tensor) and value.requires_grad:
            raise NeedsAot(f"{described(n)} is computed with gradients inside the graph")


def _traced_again(gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The acc tracer takes apart what one node cannot become (multi-head attention)."""
    try:
        return acc_tracer.trace_leaves(gm, inputs)
    except acc_tracer.AccTraceError as error:
        raise NeedsAot(str(error)) from error


def _create(gm: fx.GraphModule) -> None:
    """Tensors made from numbers alone become constants: torch itself makes them, once."""
    for n in list(gm.graph.nodes):
        if n.op != "call_function" or n.target not in CREATE or n.all_input_nodes:
            continue
        name = f"_made_{n.name}"
        gm.register_buffer(name, n.target(*n.args, **n.kwargs), persistent=False)
        with gm.graph.inserting_before(n):
            constant = gm.graph.get_attr(name)
        constant.meta = dict(n.meta)
        n.replace_all_uses_with(constant)
        gm.graph.erase_node(n)


def _bound(n: fx.Node) -> dict[str, Any]:
    """The arguments by name, with defaults, of what the acc normalizer knows."""
    mapping = find_mapping(n.op, n.target)
    if mapping is None:
        return dict(n.kwargs)
    try:
        bound = mapping.bind(n.args, dict(n.kwargs))
    except TypeError:
        return dict(n.kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _as_in_training(bound: dict[str, Any]) -> bool:
    """Whether a node would do something else in inference; to drop 0 of all is nothing else."""
    training = bound.get("training") is True or bound.get("train") is True
    rate = next((bound[name] for name in ("p", "dropout", "dropout_p") if name in bound), None)
    return training and rate != 0


def drops_between_layers(gm: fx.GraphModule) -> fx.Node | None:
    """A recurrent node with dropout between its layers, as in training; torch's decomposition of it leaves that out."""
    for n in gm.graph.nodes:
        bound = _bound(n) if n.op in ("call_function", "call_method") else {}
        if "params" in bound and bound.get("train") and bound.get("dropout") and bound.get("num_layers", 0) > 1:
            return n
    return None


def _in_place(n: fx.Node, bound: dict[str, Any]) -> bool:
    """Whether a node changes its first argument."""
    if bound.get("inplace") is True or n.kwargs.get("inplace") is True or n.kwargs.get("out") is not None:
        return True
    if n.op == "call_method":
        name = str(n.target)
        return name in ("__setitem__",) or (name.endswith("_") and (not name.endswith("__") or name[:3] == "__i"))
    if n.target in IN_PLACE_OPERATORS:
        return isinstance(n.args[0], fx.Node) and isinstance(n.args[0].meta.get("val"), torch.Tensor)
    if is_python(n.target):
        return False  # operator.and_ and the like only look it
    name = getattr(n.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def _fake_mode(graph: fx.Graph) -> FakeTensorMode:
    for n in graph.nodes:
        for t in tree_leaves(n.meta.get("val")):
            if isinstance(t, torch._subclasses.FakeTensor):
                return t.fake_mode
    return fake_mode()
