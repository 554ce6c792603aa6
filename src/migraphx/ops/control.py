"""Operators on tuples."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Module
from migraphx.ir.operation import Operation, RunModule, Value
from migraphx.ir.shape import Shape


class GetTupleElem(Operation, name="get_tuple_elem"):
    """Element `index` of a tuple."""

    arity = 1
    view = True
    index: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(0 <= self.index < len(x.sub_shapes), inputs, f"no element {self.index}")
        return x.sub_shapes[self.index]

    def compute_with(self, args: Sequence[Value], modules: Sequence[Module], run: RunModule) -> Value:
        return args[0][self.index]
