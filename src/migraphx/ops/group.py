"""Group: a module run as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.operation import ModuleArgument, Operation, RunModule, Value
from migraphx.ir.shape import Shape


class Group(Operation, name="group"):
    """Run the module argument as one kernel.

    `tag` says which kind: `epilogue` is a dot or convolution and the pointwise that follows.
    """

    fused = True
    tag: str = "epilogue"

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return sum(i.flops for i in modules[0])

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 1, inputs, "takes one module")
        module = modules[0]
        parameters = list(module.parameters.values())
        self.require(len(parameters) == len(inputs), inputs, f"its module takes {len(parameters)} inputs")
        same = all(p.shape.type == s.type and p.shape.lens == s.lens for p, s in zip(parameters, inputs, strict=True))
        self.require(same, inputs, "inputs differ from the module's parameters")
        self.require(len(module.outputs) == 1, inputs, "its module must have one output")
        return module.outputs[0].shape

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        return run(modules[0], args)[0]
