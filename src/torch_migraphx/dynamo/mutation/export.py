"""A graph that writes as a functional graph of ATen operators, by AOTAutograd, and the plan of the writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch.aot_autograd import aot_export_module
from torch.utils._pytree import tree_map

from torch_migraphx.dynamo.mutation.plan import Binding, Mutation, MutationPlan, UserOutput
from torch_migraphx.dynamo.passes.alias_analysis import find_alias_to_inputs
from torch_migraphx.fx.decompose import decompositions


class UnsupportedMutation(RuntimeError):
    """What a graph writes to cannot be told from what AOTAutograd says of it."""


@dataclass(frozen=True)
class FunctionalExport:
    """The functional graph, samples of what it takes (weights among them), and how it is called as the former graph."""

    graph_module: fx.GraphModule
    example_inputs: tuple[Any, ...]
    plan: MutationPlan


def export_functional(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> FunctionalExport:
    """`gm`, which returns a tuple, as a functional graph; its weights become inputs. `gm` is not changed.

    UnsupportedMutation where the graph cannot be called as `gm` is.
    """
    inputs = tuple(example_inputs)
    table = decompositions()
    exported, signature = aot_export_module(gm, inputs, trace_joint=False, decompositions=table)
    assert isinstance(exported, fx.GraphModule)
    places = {name: k for k, name in enumerate(signature.user_inputs)}
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    bindings = []
    for n in exported.graph.find_nodes(op="placeholder"):
        if n.name not in weights and n.name not in places:
            raise UnsupportedMutation(f"the graph takes {n.name!r}, which is neither an input nor a weight")
        weight = weights.get(n.name)
        bindings.append(Binding.user_input(places[n.name]) if weight is None else Binding.module_state(weight))
    # What is written comes first, in the order of the inputs, then what the caller gets.
    mutations = [
        Mutation(k, Binding.module_state(name))
        for k, name in enumerate([*_written_parameters(signature), *signature.buffers_to_mutate.values()])
    ]
    first = len(mutations)
    mutations += [
        Mutation(first + k, Binding.user_input(places[name]))
        for k, name in enumerate(signature.user_inputs_to_mutate.values())
    ]
    given = tuple(b.resolve(inputs, gm) for b in bindings)
    outputs = _user_outputs(exported, given, mutations)
    return FunctionalExport(exported, given, MutationPlan(tuple(bindings), tuple(mutations), outputs))


def _written_parameters(signature: Any) -> list[str]:
    """torch 2.11 has no name for them."""
    return list(getattr(signature, "parameters_to_mutate", {}).values())


def _user_outputs(gm: fx.GraphModule, inputs: Sequence[Any], mutations: Sequence[Mutation]) -> tuple[UserOutput, ...]:
    """What the caller gets; what is a view of something written, as a run shows, is rebuilt from the tensor itself."""
    with torch.no_grad():
        copies = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, inputs)
        values = gm(*copies)
    written = [values[m.output_index] for m in mutations]
    outputs = []
    for k in range(len(mutations), len(values)):
        alias = find_alias_to_inputs(written, values[k]) if isinstance(values[k], torch.Tensor) else None
        source = None if alias is None else mutations[alias.source_index].target
        outputs.append(UserOutput(k, alias, source))
    return tuple(outputs)
