"""Weights that no node of a graph reads any more."""

from __future__ import annotations

from torch import fx


def remove_lowered_constants(gm: fx.GraphModule) -> fx.GraphModule:
    """Take from `gm` the parameters and buffers of its own that its graph does not read: programs hold them now."""
    read = {str(n.target) for n in gm.graph.nodes if n.op == "get_attr"}
    for name in [*dict(gm.named_parameters(recurse=False)), *dict(gm.named_buffers(recurse=False))]:
        if name not in read:
            delattr(gm, name)
    return gm
