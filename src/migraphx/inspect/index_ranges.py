"""Which values the inputs of a program may have that become indices: from what they index back to the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ops import pointwise
from migraphx.ops.control import GetTupleElem, If
from migraphx.ops.indexing import Gather, GatherElements, GatherNd, Scatter, ScatterNd
from migraphx.ops.movement import Concat, Contiguous, Flatten, Layout, Pad, Reshape, Reverse
from migraphx.ops.reduce import PrefixScanSum, ReduceMax, ReduceMin
from migraphx.ops.vision import RoiAlign
from migraphx.passes.constants import computed

Range = tuple[float, float]
"""The least and the largest value, both allowed."""
EVERYTHING = (-math.inf, math.inf)


def index_ranges(program: Program) -> dict[str, tuple[int, int]]:
    """Of every integer parameter whose elements become indices: the least and the largest value that fits all of them.

    Followed through what moves elements, converts them, and computes with constants; of other arithmetic, sums and
    products of two values. What does not fit beside another range, as in one of two branches, is left out.
    """
    allowed: dict[Instruction, Range] = {}
    _walk(program.main, allowed)
    found = {}
    for name, ins in program.main.parameters.items():
        if ins in allowed and ins.shape.type in dtypes.INTEGERS:
            least, most = dtypes.limits(ins.shape.type)
            low, high = allowed[ins]
            found[name] = math.ceil(max(low, least)), math.floor(min(high, most))
    return found


def _walk(module: Module, allowed: dict[Instruction, Range]) -> None:
    """From the users of a value to what it is made from."""
    for ins in reversed(list(module)):
        for inner in ins.modules:
            _walk(inner, allowed)
            given = ins.inputs[1:] if isinstance(ins.op, If) else ()
            for own, source in zip(inner.parameters.values(), given, strict=False):
                _allow(allowed, source, allowed.get(own, EVERYTHING))
        indexed = _indexed(ins)
        if indexed is not None:
            indices, length = indexed
            _allow(allowed, indices, (0, length - 1))
        rule = next((RULES[c] for c in type(ins.op).__mro__ if c in RULES), _same if ins.op.view else None)
        if ins in allowed and rule is not None:
            for source, bounds in rule(ins, allowed[ins]):
                _allow(allowed, source, bounds)


def _allow(allowed: dict[Instruction, Range], ins: Instruction, bounds: Range) -> None:
    """Narrow the range of a value, unless nothing would be left."""
    (low, high), (least, most) = allowed.get(ins, EVERYTHING), bounds
    if bounds != EVERYTHING and math.ceil(max(low, least)) <= min(high, most):
        allowed[ins] = max(low, least), min(high, most)


def _indexed(ins: Instruction) -> tuple[Instruction, int] | None:
    """The indices among the inputs of an instruction, and the length that they must be below."""
    if any(i.shape.dynamic for i in ins.inputs):
        return None
    op, inputs = ins.op, ins.inputs
    if isinstance(op, Gather | GatherElements | Scatter):
        return inputs[1], inputs[0].shape.lens[op.axis]
    if isinstance(op, GatherNd | ScatterNd):
        first = op.batch_dims if isinstance(op, GatherNd) else 0
        return inputs[1], min(inputs[0].shape.lens[first : first + inputs[1].shape.lens[-1]])
    return (inputs[2], inputs[0].shape.lens[0]) if isinstance(op, RoiAlign) else None


# ---- what the range of a result asks of the operands ----

Ranges = Iterable[tuple[Instruction, Range]]


def _same(ins: Instruction, range: Range) -> Ranges:
    return [(i, range) for i in ins.inputs]


def _converted(ins: Instruction, range: Range) -> Ranges:
    least, most = dtypes.limits(ins.shape.type) if ins.shape.type in dtypes.INTEGERS else EVERYTHING
    return [(ins.inputs[0], (max(range[0], least), min(range[1], most)))]


def _first(ins: Instruction, range: Range) -> Ranges:
    return [(ins.inputs[0], range)]


def _where(ins: Instruction, range: Range) -> Ranges:
    return [(i, range) for i in ins.inputs[1:]]


def _element(ins: Instruction, range: Range) -> Ranges:
    """Of a branch: what both of its modules return there."""
    assert isinstance(ins.op, GetTupleElem)
    branch = ins.inputs[0]
    ends = [m.last for m in branch.modules if m.last is not None] if isinstance(branch.op, If) else []
    return [(end.inputs[ins.op.index], range) for end in ends]


def _sum(ins: Instruction, range: Range) -> Ranges:
    return _arithmetic(ins, range, lambda c: (range[0] - c.min(), range[1] - c.max()), (range[0] / 2, range[1] / 2))


def _difference(ins: Instruction, range: Range) -> Ranges:
    x, y = ins.inputs
    low, high = range
    if (c := _constant(y)) is not None:
        return [(x, (low + c.max(), high + c.min()))]
    if (c := _constant(x)) is not None:
        return [(y, (c.max() - high, c.min() - low))]
    return []


def _product(ins: Instruction, range: Range) -> Ranges:
    """Of factors that are not negative, and a range that holds 0."""
    low, high = range
    if low > 0 or high < 0:
        return []
    beside = lambda c: (0, high / max(c.max(), 1)) if c.min() >= 0 else EVERYTHING  # noqa: E731
    return _arithmetic(ins, range, beside, (0, math.isqrt(int(high))))


def _quotient(ins: Instruction, range: Range) -> Ranges:
    x, y = ins.inputs
    c = _constant(y)
    return [(x, (range[0] * c.max(), range[1] * c.min()))] if c is not None and c.min() > 0 and range[0] <= 0 else []


def _prefix_sum(ins: Instruction, range: Range) -> Ranges:
    assert isinstance(ins.op, PrefixScanSum)
    length = max(ins.shape.lens[ins.op.axis], 1)
    return [(ins.inputs[0], (max(range[0], 0), range[1] / length))]


def _arithmetic(ins: Instruction, range: Range, beside: Callable[[np.ndarray], Range], each: Range) -> Ranges:
    """Of one operand beside a constant, or of each of two others where the range holds 0."""
    constants = [_constant(i) for i in ins.inputs]
    others = [i for i, c in zip(ins.inputs, constants, strict=True) if c is None]
    if len(others) == 1:
        return [(others[0], beside(next(c for c in constants if c is not None)))]
    return [(i, each) for i in others] if range[0] <= 0 <= range[1] else []


def _constant(ins: Instruction) -> np.ndarray | None:
    value = computed(ins)
    return value if value is not None and value.size else None


RULES: dict[type, Callable[[Instruction, Range], Ranges]] = {
    **dict.fromkeys((Concat, Contiguous, Flatten, Layout, Reshape, Reverse, ReduceMax, ReduceMin), _same),
    **dict.fromkeys((pointwise.max_, pointwise.min_, pointwise.floor, pointwise.trunc), _same),
    pointwise.convert: _converted,
    **dict.fromkeys((Gather, GatherElements, GatherNd, Pad, pointwise.clip), _first),
    pointwise.where: _where,
    GetTupleElem: _element,
    pointwise.add: _sum,
    pointwise.sub: _difference,
    pointwise.mul: _product,
    pointwise.div: _quotient,
    PrefixScanSum: _prefix_sum,
}
