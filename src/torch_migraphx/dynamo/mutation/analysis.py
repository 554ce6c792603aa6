"""What a graph of Torch IR or of ATen operators writes to, as far as its nodes say so."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from torch_migraphx.dynamo.passes.torch_ir import IN_PLACE_OPERATORS


def node_may_mutate(node: fx.Node) -> bool:
    """Whether a node may write to a tensor that it is given."""
    if node.op not in ("call_function", "call_method", "call_module"):
        return False
    if node.kwargs.get("inplace") is True or node.kwargs.get("out") is not None:
        return True
    if node.op == "call_module":
        owner = node.graph.owning_module
        return owner is not None and getattr(owner.get_submodule(str(node.target)), "inplace", False) is True
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    if node.op == "call_function" and node.target in IN_PLACE_OPERATORS:
        return _may_be_tensor(node.args[0])
    name = _name(node)
    if name == "__setitem__" or (name.startswith("__i") and name.removeprefix("__i") in _DUNDER):
        return True
    python = getattr(node.target, "__module__", None) == "_operator"  # and_, or_, not_
    return name.endswith("_") and not name.endswith("__") and not python


_DUNDER = frozenset(f"{n}__" for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"))


def _may_be_tensor(x: Any) -> bool:
    if not isinstance(x, fx.Node):
        return isinstance(x, torch.Tensor)
    value = x.meta.get("val", x.meta.get("example_value"))
    return value is None or isinstance(value, torch.Tensor)


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def mutating_nodes(gm: fx.GraphModule) -> list[fx.Node]:
    """The nodes that may write to a tensor, in order."""
    return [n for n in gm.graph.nodes if node_may_mutate(n)]


def graph_may_mutate(gm: fx.GraphModule) -> bool:
    """Whether a node may write to a tensor, be it one that the graph made itself."""
    return bool(mutating_nodes(gm))


def graph_has_side_effects(gm: fx.GraphModule) -> bool:
    """Whether a node writes, or does something else that is not in its answer: an assertion, a print."""
    return any(node_may_mutate(n) or (n.op.startswith("call_") and n.is_impure()) for n in gm.graph.nodes)


def input_writes(gm: fx.GraphModule) -> frozenset[int] | None:
    """The places of the inputs that a graph may write to, be it through views.

    None where something else is written to: a weight, or what no node of the graph gives.
    """
    places = {n: k for k, n in enumerate(gm.graph.find_nodes(op="placeholder"))}
    found: set[int] = set()
    for n in mutating_nodes(gm):
        out = n.kwargs.get("out")
        written = [out] if out is not None else list(n.args[:1]) or list(n.kwargs.values())[:1]
        for x in written:
            base = _base(x)
            if base is None or base.op == "get_attr":
                return None
            if base in places:
                found.add(places[base])
    return frozenset(found)


def _base(x: Any) -> fx.Node | None:
    """The node whose memory a value lies in; None where that is not known."""
    while isinstance(x, fx.Node) and x.op.startswith("call_"):
        fresh = _gives_new_memory(x)
        if fresh is None:
            return None
        if fresh:
            return x
        x = next(iter(x.args), next(iter(x.kwargs.values()), None))
    return x if isinstance(x, fx.Node) else None


def _gives_new_memory(n: fx.Node) -> bool | None:
    """Whether what a node gives is not its first argument, or a view of it, by ATen's schemas; None: unknown."""
    if n.op == "call_module":
        return None
    if n.target is operator.getitem or node_may_mutate(n):
        return False
    if isinstance(n.target, torch._ops.OpOverload):
        return not _aliases(n.target)
    packet = getattr(torch.ops.aten, _name(n), None)
    if packet is None:
        return None
    return not any(_aliases(getattr(packet, overload)) for overload in packet.overloads())


def _aliases(overload: torch._ops.OpOverload) -> bool:
    """Whether what an operator gives shares memory with what it is given, and no `out` is meant."""
    inputs_written = any(a.alias_info is not None and a.alias_info.is_write for a in overload._schema.arguments)
    return not inputs_written and any(r.alias_info is not None for r in overload._schema.returns)
