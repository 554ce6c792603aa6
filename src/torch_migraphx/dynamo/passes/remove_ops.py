"""Operators that compute nothing at a run: tensors made of numbers alone, copies, views by another name."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from torch_migraphx.fx.graph_info import value_of

aten = torch.ops.aten
CONSTANT = frozenset(
    {
        aten.zeros.default, aten.ones.default, aten.full.default, aten.eye.default, aten.eye.m, aten.arange.default,
        aten.arange.start, aten.arange.start_step, aten.linspace.default, aten.scalar_tensor.default,
        aten.zeros_like.default, aten.ones_like.default, aten.full_like.default,
        aten.new_zeros.default, aten.new_ones.default, aten.new_full.default,
    }
)  # fmt: skip
"""Give the same tensor at every run: of their inputs they read sizes and types only."""
COPIES = frozenset({aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default})
VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})


def remove_const_ops(gm: fx.GraphModule, device: torch.device | str | None = None) -> fx.GraphModule:
    """Tensors that are the same at each run become buffers of `gm`, which is changed and returned.

    They lie on `device`, or where the operator says. An operator stays where the size of an input that it reads is not
    known (`meta["val"]` or `meta["tensor_meta"]`).
    """
    for n in list(gm.graph.nodes):
        if n.op != "call_function" or n.target not in CONSTANT:
            continue
        inputs = {i: _like(i) for i in n.all_input_nodes}
        if any(x is None for x in inputs.values()):
            continue
        args, kwargs = map_arg((n.args, dict(n.kwargs)), inputs.__getitem__)
        made = n.target(*args, **kwargs)
        name = f"{n.name}_const"
        gm.register_buffer(name, made if device is None else made.to(device), persistent=False)
        with gm.graph.inserting_before(n):
            constant = gm.graph.get_attr(name)
        _replace(n, constant)
    return _tidied(gm)


def _like(n: fx.Node) -> torch.Tensor | None:
    """An empty tensor of a node's sizes and type; None where they are not known."""
    known: Any = value_of(n)
    known = n.meta.get("tensor_meta") if known is None else known
    sizes = getattr(known, "shape", None)
    if sizes is None or not all(isinstance(s, int) for s in sizes):
        return None
    return torch.empty(tuple(sizes), dtype=known.dtype)


def remove_clone_ops(gm: fx.GraphModule) -> fx.GraphModule:
    """Who reads a copy reads the original: for functional graphs, where nobody writes to either. Changes `gm`."""
    for n in list(gm.graph.nodes):
        if n.op == "call_function" and n.target in COPIES:
            n.replace_all_uses_with(n.all_input_nodes[0])
    return _tidied(gm)


def remove_view_ops(gm: fx.GraphModule) -> fx.GraphModule:
    """`view` becomes `reshape`, which does not mind how its input lies in memory. Changes `gm`."""
    for n in list(gm.graph.nodes):
        if n.op == "call_function" and n.target in VIEWS:
            with gm.graph.inserting_before(n):
                _replace(n, gm.graph.call_function(aten.reshape.default, n.args, n.kwargs))
    return _tidied(gm)


def _replace(old: fx.Node, new: fx.Node) -> None:
    new.meta = dict(old.meta)
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def _tidied(gm: fx.GraphModule) -> fx.GraphModule:
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
