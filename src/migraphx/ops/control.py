"""Tuples, and operators that choose which module runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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


class If(Operation, name="if"):
    """The outputs of the first module where the condition, one bool, is true, else of the second (ONNX If).

    Further inputs are the parameters of both modules, in order. The result is a tuple.
    """

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[Module]) -> Shape:
        self.require(len(modules) == 2, inputs, "takes two modules")
        self.require(len(inputs) > 0, inputs, "takes a condition")
        condition, *rest = inputs
        self.require(condition.type == "bool" and condition.elements == 1, inputs, "takes one bool")
        for module in modules:
            takes = [(p.shape.type, p.shape.lens) for p in module.parameters.values()]
            right = takes == [(s.type, s.lens) for s in rest]
            self.require(right, inputs, f"module {module.name!r} takes {takes}")
        first, second = ([s.as_standard() for s in m.output_shapes] for m in modules)
        self.require(first == second, inputs, "the modules' outputs differ in type or lens")
        return Shape.tuple_of(first)

    def compute_with(self, args: Sequence[Value], modules: Sequence[Module], run: RunModule) -> Value:
        condition, *rest = args
        return tuple(run(modules[0 if bool(np.all(condition)) else 1], rest))
