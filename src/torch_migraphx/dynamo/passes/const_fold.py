"""What a graph computes of its weights alone, computed once."""

from __future__ import annotations

from torch import fx

from torch_migraphx.fx.fold import fold


def const_fold(gm: fx.GraphModule) -> fx.GraphModule:
    """Values that depend on parameters and buffers alone become buffers of `gm`, which is changed and returned.

    Functions that draw random numbers or write to what they read stay; so do those that give several values.
    """
    fold(gm, {}, lambda n: bool(n.all_input_nodes))
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
