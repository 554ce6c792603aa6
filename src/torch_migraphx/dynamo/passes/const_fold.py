"""What a graph computes of its weights alone, computed once."""

from __future__ import annotations

import torch
from torch import fx
from torch.fx.node import map_arg

from torch_migraphx.fx.graph_info import draws
from torch_migraphx.fx.graphs import attribute


def const_fold(gm: fx.GraphModule) -> fx.GraphModule:
    """Values that depend on parameters and buffers alone become buffers of `gm`, which is changed and returned.

    Functions that draw random numbers or write to what they read stay; so do those that give several values.
    """
    constants = {n: attribute(gm, n) for n in gm.graph.nodes if n.op == "get_attr"}
    for n in list(gm.graph.nodes):
        inputs = n.all_input_nodes
        if n.op != "call_function" or not inputs or any(i not in constants for i in inputs) or not _is_pure(n):
            continue
        args, kwargs = map_arg((n.args, dict(n.kwargs)), constants.__getitem__)
        with torch.no_grad():
            value = n.target(*args, **kwargs)
        if not isinstance(value, torch.Tensor):
            continue
        name = f"{n.name}_folded"
        gm.register_buffer(name, value, persistent=False)
        with gm.graph.inserting_before(n):
            constant = gm.graph.get_attr(name)
        constant.meta = dict(n.meta)
        constants[constant] = value
        n.replace_all_uses_with(constant)
        gm.graph.erase_node(n)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _is_pure(n: fx.Node) -> bool:
    mutable = isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable
    return not mutable and not draws(n.target) and not n.is_impure()
