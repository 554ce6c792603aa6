"""The shape of an instruction, also where its inputs' sizes are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.operation import ModuleArgument, Operation, Return
from migraphx.ir.ranges import at_bound, hull, unbounded_where, unknown
from migraphx.ir.shape import UNKNOWN, Shape
from migraphx.ir.size import ones_matter

UNBOUNDED_PROBE = 2**13  # for a length without a bound: larger than windows and pads, its fourth power is a size


def infer_shape(op: Operation, inputs: Sequence[Shape], modules: Sequence[ModuleArgument] = ()) -> Shape:
    """The operator's shape rule; where an input is dynamic, twice: with every dimension at its least and its most.

    Dimensions on which both agree are fixed. Right for every rule whose lengths grow with its inputs'; an operator
    whose sizes depend on data gives a dynamic shape itself. Where an input has no bound, two lengths stand for it in
    turn: what differs between them has none either. ShapeError where the ranks differ.
    """
    with ones_matter(False):  # a rule is one formula
        return _inferred(op, inputs, modules)


def _inferred(op: Operation, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
    if not any(s.dynamic for s in inputs) or isinstance(op, Return) or op.takes_dynamic:
        return op.infer_with(inputs, modules)
    if any(unknown(s) for s in inputs):
        return UNKNOWN
    if any(p.shape.dynamic for m in modules for p in m.parameters.values()):
        return op.infer_with(inputs, modules)  # the modules' own shapes are ranges already

    def infer(bound: str, unbounded: int) -> Shape:
        return op.infer_with([at_bound(s, bound, unbounded) for s in inputs], modules)

    least, most = infer("min", UNBOUNDED_PROBE), infer("max", UNBOUNDED_PROBE)
    further = infer("max", 2 * UNBOUNDED_PROBE)
    try:
        shape = hull(least, most)
        return shape if further == most else unbounded_where(shape, hull(most, further))
    except ValueError as error:
        op.refuse(inputs, str(error))
