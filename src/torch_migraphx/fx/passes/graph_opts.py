"""Values that a graph computes twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from torch_migraphx.fx.graph_info import draws, is_python
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import is_acc_op


def common_subexpression_elimination(graph_module: fx.GraphModule) -> bool:
    """Let nodes that call the same on the same be one. Changes the graph; says whether it did.

    Only functions of a graph that writes to nothing are compared: calls of modules and methods, functions that are not
    known to torch's operators or Python's, what draws random numbers and what has an effect stay.
    """
    seen: dict[Any, fx.Node] = {}
    changed = False
    for n in list(graph_module.graph.nodes):
        if n.op != "get_attr" and not (n.op == "call_function" and _is_pure(n)):
            continue
        leaves, spec = tree_flatten((n.args, dict(n.kwargs)))
        key = n.op, n.target, str(spec), tuple((type(x), x) for x in leaves)
        try:
            first = seen.setdefault(key, n)
        except TypeError:  # a leaf that has no hash
            continue
        if first is not n:
            n.replace_all_uses_with(first)
            graph_module.graph.erase_node(n)
            changed = True
    if changed:
        graph_module.recompile()
    return changed


def _is_pure(n: fx.Node) -> bool:
    """Whether equal calls of a node give the same, and nothing else."""
    target: Any = n.target
    if n.is_impure():
        return False
    if is_acc_op(target) or is_python(target):
        return True
    packet = getattr(torch.ops.aten, getattr(target, "__name__", ""), None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    if isinstance(target, torch._ops.OpOverload):
        overloads = [target]
    return bool(overloads) and not any(draws(o) or (o._schema.is_mutable and not _has_out(o)) for o in overloads)


def _has_out(overload: torch._ops.OpOverload) -> bool:
    """Whether it is the form that writes to `out`, which a graph without mutation does not call."""
    return any(a.is_out for a in overload._schema.arguments)
