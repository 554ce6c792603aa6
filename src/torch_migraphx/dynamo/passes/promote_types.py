"""Operands of one type, where torch would make them so itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torch_migraphx.fx.graph_info import value_of

aten = torch.ops.aten


def promote_inputs(gm: fx.GraphModule) -> fx.GraphModule:
    """Cast the operands `self` and `other` of elementwise operators to the type that torch computes in. Changes `gm`.

    An operator stays where the type of an operand is not known (`meta["val"]`).
    """
    for n in list(gm.graph.nodes):
        if not isinstance(n.target, torch._ops.OpOverload) or torch.Tag.pointwise not in n.target.tags:
            continue
        names = [a.name for a in n.target._schema.arguments]
        given = {**dict(zip(names, n.args, strict=False)), **n.kwargs}
        pair = [(name, given.get(name)) for name in ("self", "other")]
        known: list[Any] = [value_of(x) if isinstance(x, fx.Node) else None for _, x in pair]
        if not all(isinstance(x, torch.Tensor) for x in known) or known[0].dtype == known[1].dtype:
            continue
        dtype = torch.result_type(*known)
        for (name, x), value in zip(pair, known, strict=True):
            if value.dtype != dtype:
                given[name] = _cast(gm.graph, n, x, value, dtype)
        n.args, n.kwargs = (), given
    gm.recompile()
    return gm


def _cast(graph: fx.Graph, before: fx.Node, x: Any, value: torch.Tensor, dtype: torch.dtype) -> fx.Node:
    with graph.inserting_before(before):
        cast = graph.call_function(aten._to_copy.default, (x,), {"dtype": dtype})
    cast.meta["val"] = value.to(dtype)
    return cast
