"""The operator that stands for one that is not known, where the user asked to read the model all the same."""

from __future__ import annotations

from migraphx.ir.operation import Operation, Value
from migraphx.ir.shape import Shape


class Unknown(Operation, name="unknown"):
    """An operator `op` that is not supported: has the shape of its first input and no value."""

    pure = False
    op: str = ""

    def infer(self, *inputs: Shape) -> Shape:
        return inputs[0] if inputs else Shape()

    def compute(self, *args: Value) -> Value:
        raise NotImplementedError(f"operator {self.op!r} is not supported; it was skipped when the model was read")
