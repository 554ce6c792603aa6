"""What a graph computes of constants alone, computed once, by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from torch_migraphx.devices import TYPES
from torch_migraphx.fx.graph_info import draws
from torch_migraphx.fx.graphs import attribute


def fold(gm: fx.GraphModule, constants: dict[fx.Node, Any], wanted: Callable[[fx.Node], bool]) -> None:
    """Tensors that wanted nodes compute of `constants` and attributes alone become buffers of `gm`, which is changed.

    Functions that draw random numbers or write to what they read stay; so do those that give several values.
    """
    for n in list(gm.graph.nodes):
        if n.op == "get_attr":
            constants[n] = attribute(gm, n)
        elif n.op == "call_function" and wanted(n) and _is_pure(n) and all(i in constants for i in n.all_input_nodes):
            value = _computed(n, constants)
            if isinstance(value, torch.Tensor):
                constants[_put(gm, n, value)] = value


def fold_elsewhere(gm: fx.GraphModule, constants: Mapping[str, torch.Tensor], device: str) -> None:
    """Make what lies on another device than the program, and is computed of constants alone.

    As the number that `mask[0] = 1` writes, a tensor in main memory wherever the mask lies. An operator's result there
    would keep all that reads it out of the program; as a constant it goes anywhere. `constants`: inputs by name.
    """
    output, elsewhere = gm.graph.output_node(), TYPES - {device}
    inputs: dict[fx.Node, Any] = {n: constants[n.name] for n in gm.graph.nodes if n.name in constants}

    def lies_there(n: fx.Node) -> bool:
        value = n.meta.get("val")
        return isinstance(value, torch.Tensor) and value.device.type in elsewhere and output not in n.users

    fold(gm, inputs, lies_there)


def make(gm: fx.GraphModule, n: fx.Node) -> None:
    """A constant in place of a node that reads no other."""
    _put(gm, n, _computed(n, {}))


def _is_pure(n: fx.Node) -> bool:
    mutable = isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable
    return not mutable and not draws(n.target) and not n.is_impure()


def _computed(n: fx.Node, constants: Mapping[fx.Node, Any]) -> Any:
    args, kwargs = map_arg((n.args, n.kwargs), constants.__getitem__)
    with _disable_current_modes(), torch.no_grad():
        return n.target(*args, **kwargs)  # type: ignore[operator]


def _put(gm: fx.GraphModule, n: fx.Node, value: torch.Tensor) -> fx.Node:
    name = f"_made_{n.name}"
    gm.register_buffer(name, value, persistent=False)
    with gm.graph.inserting_before(n):
        constant = gm.graph.get_attr(name)
    constant.meta = dict(n.meta)
    n.replace_all_uses_with(constant)
    gm.graph.erase_node(n)
    return constant
