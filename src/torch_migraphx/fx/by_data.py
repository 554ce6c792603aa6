"""Graphs in which lengths depend on data, as one program: it goes on where the data has told them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

import migraphx
from torch_migraphx.devices import Place
from torch_migraphx.fx.any_size import AnySize, for_data
from torch_migraphx.fx.dtypes import shape_of
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.graphs import copied, with_values
from torch_migraphx.fx.inputs import Input, no_gradient
from torch_migraphx.fx.mgx_module import ForInference
from torch_migraphx.options import Options


def waits_for_data(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, constants: Collection[int]
) -> fx.GraphModule | None:
    """A graph of one call of a program that computes `gm`; None where the engine cannot take all of it.

    Its nodes have fake values, whose lengths are symbols where data tells them.
    """
    if not hasattr(migraphx, "add_deferred"):  # AMD's own
        return None
    whole = copied(gm)
    output = whole.graph.output_node()
    results, spec = tree_flatten(output.args[0])
    output.args = (tuple(results),)
    placeholders = gm.graph.find_nodes(op="placeholder")
    made = for_data(whole, inputs, options, constants)
    if made is None:
        return None
    root, graph = nn.Module(), fx.Graph()
    root.add_module("mgx_0", WaitsForData(whole, made, inputs, options, constants))
    call = graph.call_module("mgx_0", tuple(graph.placeholder(str(n.target)) for n in placeholders))
    parts = [graph.call_function(getitem, (call, k)) for k in range(len(results))]
    graph.output(tree_unflatten(parts, spec))
    graph._codegen = gm.graph._codegen
    return fx.GraphModule(root, graph, class_name=type(gm).__name__)


class WaitsForData(ForInference):
    """Runs a graph as one program; takes its leaves, and gives a list of leaves. Many threads may call it.

    TypeError and ValueError as those of MGXModule. A file holds the graph, which is compiled again.
    """

    def __init__(
        self, graph: fx.GraphModule, made: AnySize, inputs: Sequence[Any], options: Options, constants: Collection[int]
    ) -> None:
        super().__init__()
        self.options, self.constants = options, tuple(constants)
        self._graph = [graph]  # no submodule: what is compiled holds the weights
        self._made: AnySize | None = made
        place = Place.of(options.beside(inputs).target)
        self.inputs = [
            Input(str(n.target), shape_of(x, standard=True), place) if isinstance(x, torch.Tensor) else None
            for n, x in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True)
        ]

    def forward(self, *leaves: Any) -> list[Any]:
        """The leaves of the answer."""
        grad = torch.is_grad_enabled()
        for at, (spec, x) in enumerate(zip(self.inputs, leaves, strict=True)):
            if spec is not None and not spec.fits(x):
                spec.refuse(x, at)
            if grad and isinstance(x, torch.Tensor) and x.requires_grad:
                raise no_gradient(f"input {at}")
        if self._made is None:
            with_values(self._graph[0], leaves)
            self._made = for_data(self._graph[0], leaves, self.options, self.constants)
        if self._made is None:
            raise UnsupportedError("the engine of this process cannot take what is in the file")
        return self._made(*leaves)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> WaitsForData:
        """The copy shares what is compiled, which nothing changes."""
        return self
