"""A functional module called as the graph that writes: what it gives is written back."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_migraphx.dynamo.mutation.plan import MutationPlan, UserOutput


def apply_mutation_plan(compiled: nn.Module, plan: MutationPlan, state_module: nn.Module | None = None) -> nn.Module:
    """`compiled`, or a module that calls it and does what the plan says; `state_module` has the weights it names."""
    return compiled if plan.is_identity else MutationCopybackWrapper(compiled, plan, state_module)


class MutationCopybackWrapper(nn.Module):
    """Calls a functional module with what it takes, writes back what was written, and gives a tuple of the rest."""

    def __init__(self, compiled: nn.Module, plan: MutationPlan, state_module: nn.Module | None = None) -> None:
        super().__init__()
        self.compiled, self.plan, self.state_module = compiled, plan, state_module

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The caller's outputs."""
        results = self.compiled(*(b.resolve(inputs, self.state_module) for b in self.plan.inputs))
        results = results if isinstance(results, tuple | list) else (results,)
        with torch.no_grad():
            for m in self.plan.mutations:
                m.target.resolve(inputs, self.state_module).copy_(results[m.output_index])
        return tuple(self._output(o, results, inputs) for o in self.plan.outputs)

    def _output(self, o: UserOutput, results: Any, inputs: Any) -> Any:
        if o.alias is None or o.alias_source is None:
            return results[o.output_index]
        return o.alias.rebuild(o.alias_source.resolve(inputs, self.state_module))
