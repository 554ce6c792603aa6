"""What rules ask about constants: a constant is a literal, or a literal seen through view operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal, OpenLiteral, operation
from migraphx.ir.size import is_open
from migraphx.ops.movement import Multibroadcast, Transpose, Unsqueeze
from migraphx.ops.pointwise import Pointwise


def is_constant(ins: Instruction) -> bool:
    """A literal, or views (multibroadcast, transpose, unsqueeze ...) of one.

    Lens that change from run to run are none that it is cut to, only some that it is broadcast to.
    """
    while not isinstance(ins.op, Literal):
        if not ins.op.view or len(ins.inputs) != 1:
            return False
        if is_open(ins.shape.lens) and not _keeps_repeats(ins):
            return False
        ins = ins.inputs[0]
    return not isinstance(ins.op, OpenLiteral)


def value_of(ins: Instruction) -> np.ndarray:
    """The value of a constant, a NumPy view of its literal: nothing is copied."""
    if isinstance(ins.op, Literal):
        return ins.op.value
    return ins.op.compute(value_of(ins.inputs[0]))


def source_of(constant: Instruction) -> Instruction:
    """The literal of which a constant is a view."""
    while constant.inputs:
        constant = constant.inputs[0]
    return constant


def computed(ins: Instruction, levels: int = 8) -> np.ndarray | None:
    """The value of a constant, or of what is computed from constants alone in so many steps; else None.

    Elementwise operators compute what is broadcast once; their result is a view that repeats it.
    """
    if is_constant(ins):
        return value_of(ins)
    if not (levels and ins.inputs and ins.op.pure) or ins.modules or ins.shape.dynamic or is_open(ins.shape.lens):
        return None
    values: list[np.ndarray] = []
    for given in ins.inputs:
        value = computed(given, levels - 1)
        if value is None:
            return None
        values.append(value)
    if isinstance(ins.op, Pointwise):
        few = ins.op.compute(*np.broadcast_arrays(*map(without_repeats, values)))
        return np.broadcast_to(few, ins.shape.lens)
    return ins.op.compute(*values)


def compact(ins: Instruction) -> np.ndarray:
    """The value of a constant with every broadcast dimension cut to length 1."""
    return without_repeats(closed_value(ins))


def _keeps_repeats(ins: Instruction) -> bool:
    """Whether the view is the same one where what a dimension repeats is cut to length 1."""
    return isinstance(ins.op, (Multibroadcast, Transpose)) or (isinstance(ins.op, Unsqueeze) and not ins.op.steps)


def closed_value(ins: Instruction) -> np.ndarray:
    """The value of a constant, of length 1 along dimensions that it is broadcast to and that differ from run to run."""
    if isinstance(ins.op, Literal):
        return ins.op.value
    if not is_open(ins.shape.lens) or not _keeps_repeats(ins):
        return value_of(ins)
    return seen_through(ins, closed_value(ins.inputs[0]))


def seen_through(view: Instruction, value: np.ndarray) -> np.ndarray:
    """What a view shows of a value, which is not broadcast along dimensions that differ from run to run."""
    if not isinstance(view.op, Multibroadcast) or not is_open(view.shape.lens):
        return view.op.compute(value)
    return np.broadcast_to(value, tuple(1 if is_open(n) else n for n in view.shape.lens))


def without_repeats(value: np.ndarray) -> np.ndarray:
    """`value` with every dimension of stride 0 cut to length 1."""
    if not value.size:
        return value
    return value[tuple(slice(0, 1) if s == 0 else slice(None) for s in value.strides)]


def scalar_of(ins: Instruction) -> float | int | bool | None:
    """The one number of which a constant consists; None where it is no constant or has several elements."""
    if not is_constant(ins):
        return None
    value = compact(ins)
    return value.reshape(()).item() if value.size == 1 else None


def is_zero(ins: Instruction) -> bool:
    """Whether a constant consists of zeros."""
    return is_constant(ins) and not compact(ins).any()


def folded(b: Builder, name: str, *constants: Instruction) -> Instruction:
    """What `b.<name>(*constants)` gives for constants of equal lens: one small literal, broadcast once."""
    small = operation(name).compute(*np.broadcast_arrays(*map(compact, constants)))
    return broadcast_literal(b, small, constants[0].shape.lens)


def broadcast_literal(b: Builder, value: np.ndarray, lens: Sequence[int]) -> Instruction:
    """A literal as `lens`, stored without leading dimensions of length 1."""
    while value.ndim > min(1, len(lens)) and value.shape[0] == 1:
        value = value[0]
    return b.broadcast_to(b.literal(value), lens)
