"""Parts of a concatenation that hold nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torch_migraphx.fx.graph_info import value_of

aten = torch.ops.aten


def remove_empty_slices(gm: fx.GraphModule) -> fx.GraphModule:
    """Take slices without elements out of concatenations, of which one part at least stays. Changes `gm`."""
    for n in list(gm.graph.nodes):
        if n.op != "call_function" or n.target is not aten.cat.default:
            continue
        tensors, *rest = n.args
        kept = [t for t in tensors if not _is_empty_slice(t)] or tensors[:1]
        if {_dtype(t) for t in kept} == {_dtype(t) for t in tensors}:  # else they decide the type of the result
            n.args = (kept, *rest)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _known(n: Any) -> Any:
    known = value_of(n)
    return n.meta.get("tensor_meta") if known is None else known


def _dtype(n: fx.Node) -> Any:
    return getattr(_known(n), "dtype", None)


def _is_empty_slice(n: fx.Node) -> bool:
    sizes = getattr(_known(n), "shape", None)
    return n.target is aten.slice.Tensor and sizes is not None and 0 in [s for s in sizes if isinstance(s, int)]
