"""Graphs that write to their inputs or to weights: a functional graph, and a plan of what is written back afterwards.

export = export_functional(gm, inputs)
compiled = lower(export.graph_module, export.example_inputs)
compiled = apply_mutation_plan(compiled, export.plan, state_module=gm)
"""

from torch_migraphx.dynamo.mutation.analysis import (
    graph_has_side_effects,
    graph_may_mutate,
    input_writes,
    mutating_nodes,
    node_may_mutate,
)
from torch_migraphx.dynamo.mutation.export import FunctionalExport, UnsupportedMutation, export_functional
from torch_migraphx.dynamo.mutation.plan import Binding, BindingKind, Mutation, MutationPlan, UserOutput
from torch_migraphx.dynamo.mutation.runtime import MutationCopybackWrapper, apply_mutation_plan

__all__ = [
    "Binding",
    "BindingKind",
    "FunctionalExport",
    "Mutation",
    "MutationCopybackWrapper",
    "MutationPlan",
    "UnsupportedMutation",
    "UserOutput",
    "apply_mutation_plan",
    "export_functional",
    "graph_has_side_effects",
    "graph_may_mutate",
    "input_writes",
    "mutating_nodes",
    "node_may_mutate",
]
