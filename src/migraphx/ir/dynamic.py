"""Shapes of instructions whose inputs' sizes are known only at run time, and what is left to do once they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from migraphx.ir.operation import Operation, Return
from migraphx.ir.shape import UNBOUNDED, UNKNOWN, DynamicDimension, Shape

if TYPE_CHECKING:
    from migraphx.ir.module import Instruction, Module
    from migraphx.ir.program import Program

FAR = 2**13  # stands for a length without a bound: larger than windows and pads, its fourth power is a size


class ValueNeeded(ValueError):
    """An expansion must know the values of these instructions."""

    def __init__(self, what: str, values: Iterable[Instruction]) -> None:
        super().__init__(f"{what} must be known")
        self.values = tuple(values)


@dataclass
class Site:
    """Where an instruction is expanded: a module under construction, its program, and the values known so far."""

    program: Program
    module: Module
    origin: str = ""
    values: dict[Instruction, np.ndarray | None] = field(default_factory=dict)

    def known(self, x: Instruction, what: str) -> np.ndarray:
        """The value of a constant; ValueNeeded for anything else."""
        value = x.literal if x.literal is not None else self.values.get(x)
        if value is None:
            raise ValueNeeded(what, [x])
        return value


def infer_shape(op: Operation, inputs: Sequence[Shape], modules: Sequence[Module] = ()) -> Shape:
    """The operator's shape rule; where an input is dynamic, twice: with every dimension at its least and its most.

    Dimensions on which both agree are fixed. Right for every rule whose lengths grow with its inputs'; an operator
    whose sizes depend on data gives a dynamic shape itself. Where an input has no bound, two lengths stand for it in
    turn: what differs between them has none either. ShapeError where the ranks differ.
    """
    if not any(s.dynamic for s in inputs) or isinstance(op, Return) or op.takes_dynamic:
        return op.infer_with(inputs, modules)
    if any(unknown(s) for s in inputs):
        return UNKNOWN
    if any(p.shape.dynamic for m in modules for p in m.parameters.values()):
        return op.infer_with(inputs, modules)  # the modules' own shapes are ranges already

    def infer(end: str, endless: int) -> Shape:
        return op.infer_with([at_end(s, end, endless) for s in inputs], modules)

    least, most = infer("min", FAR), infer("max", FAR)
    shape = between(op, inputs, least, most)
    further = infer("max", 2 * FAR)
    return shape if further == most else endless_where(shape, between(op, inputs, most, further))


def unknown(shape: Shape) -> bool:
    return shape == UNKNOWN or any(map(unknown, shape.sub_shapes))


def at_end(shape: Shape, end: str, endless: int) -> Shape:
    """The shape with every dynamic dimension at its `min` or its `max`, which is `endless` where there is none."""
    if shape.sub_shapes:
        return Shape.tuple_of(at_end(s, end, endless) for s in shape.sub_shapes)
    if not shape.dyn_dims:
        return shape
    ends = (getattr(d, end) for d in shape.dyn_dims)
    lens = zip(ends, shape.dyn_dims, strict=True)
    return Shape(shape.type, tuple(max(endless, d.min) if n == UNBOUNDED else n for n, d in lens))


def endless_where(shape: Shape, differs: Shape) -> Shape:
    """The shape without a bound in the dimensions that are not fixed in `differs`."""
    if shape.sub_shapes:
        pairs = zip(shape.sub_shapes, differs.sub_shapes, strict=True)
        return Shape.tuple_of(endless_where(s, d) for s, d in pairs)
    dims = zip(ranges(shape), ranges(differs), strict=True)
    return Shape.of_dims(shape.type, [a if b.is_fixed else DynamicDimension(a.min, UNBOUNDED) for a, b in dims])


def between(op: Operation, inputs: Sequence[Shape], least: Shape, most: Shape) -> Shape:
    """The shape of everything from `least` to `most`."""
    if least == most:
        return least
    if least.type != most.type or least.ndim != most.ndim or len(least.sub_shapes) != len(most.sub_shapes):
        op.refuse(inputs, f"its output would have another rank or type for other sizes: {least}, {most}")
    if least.sub_shapes:
        pairs = zip(least.sub_shapes, most.sub_shapes, strict=True)
        return Shape.tuple_of(between(op, inputs, a, b) for a, b in pairs)
    dims = zip(ranges(least), ranges(most), strict=True)
    return Shape.of_dims(least.type, [DynamicDimension(min(a.min, b.min), max(a.max, b.max)) for a, b in dims])


def ranges(shape: Shape) -> tuple[DynamicDimension, ...]:
    """A dynamic dimension for each dimension, fixed ones included."""
    return shape.dyn_dims or tuple(DynamicDimension(n, n) for n in shape.lens)
