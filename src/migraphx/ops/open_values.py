"""Values made of sizes: what programs compute of lengths while they are compiled for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Literal, OpenLiteral, Operation
from migraphx.ir.ramp import Ramp
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open, ones_matter
from migraphx.ops.movement import Concat, Multibroadcast, Reshaping
from migraphx.ops.pointwise import Pointwise, less
from migraphx.ops.reduce import Reduction
from migraphx.ops.scalar import NumpyScalar

OBJECT = np.dtype(object)
SMALL = 1024  # elements


class SizeScalar(NumpyScalar):
    """The words on arrays of sizes and integers."""

    @staticmethod
    def div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if (np.less(a, 0) | np.less_equal(b, 0)).any():
            raise TypeError("a quotient of negative sizes")
        return np.floor_divide(a, b)

    @staticmethod
    def mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if np.less_equal(b, 0).any():
            raise TypeError("a remainder by a negative size")
        return np.remainder(a, b)

    @staticmethod
    def cast(a: np.ndarray, type: str) -> np.ndarray:
        if type not in ("int32", "int64", "uint32", "uint64"):
            raise TypeError(f"sizes as {type}")
        return a


def open_value(ins: Instruction) -> np.ndarray | None:
    """A constant's value; an array of objects where it is made of sizes."""
    return ins.op.sizes if isinstance(ins.op, OpenLiteral) else ins.literal


def open_values(inputs: Sequence[Instruction]) -> list[np.ndarray] | None:
    """The values of small constants, or of views of some, of which one is made of sizes; None for anything else."""
    return small_values(inputs) if any(isinstance(i.op, OpenLiteral) for i in inputs) else None


def small_values(inputs: Sequence[Instruction]) -> list[np.ndarray] | None:
    """The values of small constants, or of views of some; None for anything else."""
    values = [_seen(i) for i in inputs]
    return [v for v in values if v is not None] if inputs and all(v is not None for v in values) else None


def _seen(ins: Instruction) -> np.ndarray | None:
    if is_open(ins.shape.lens) or ins.shape.elements > SMALL:
        return None
    if ins.op.view and len(ins.inputs) == 1 and not isinstance(ins.op, Literal):
        value = _seen(ins.inputs[0])
        return None if value is None else ins.op.compute(value)
    return open_value(ins)


def is_open_array(value: np.ndarray) -> bool:
    """Whether an array is made of sizes."""
    return value.dtype == OBJECT


def plain(value: np.ndarray, type: str) -> np.ndarray:
    """The array at the lengths that the program is compiled at, which is for the same sizes only from now on."""
    return np.array([int(v) for v in value.reshape(-1)], dtypes.to_numpy(type)).reshape(value.shape)


def computed(op: Operation, values: Sequence[np.ndarray], shape: Shape) -> np.ndarray | None:
    """What `op` gives, of this shape, where that is small; None where values that are made of sizes must be plain."""
    computes = op.pure and type(op).compute is not Operation.compute  # else by a module of its own: layers
    if not computes or shape.type == "tuple" or is_open(shape.lens) or shape.elements > SMALL:
        return None
    if any(map(is_open, op.attributes().values())):
        return None
    return _of_sizes(op, values, shape.type) if any(map(is_open_array, values)) else np.asarray(op.compute(*values))


def _of_sizes(op: Operation, values: Sequence[np.ndarray], type: str) -> np.ndarray | None:
    """`computed`, for values of which some are made of sizes."""
    try:
        if isinstance(op, Pointwise):
            made = op.apply(SizeScalar, *(v.astype(object) if v.dtype.kind in "iu" else v for v in values))
        elif op.data_movement or isinstance(op, Reduction):
            made = op.compute(*values)
        else:
            return None
    except TypeError:
        return None
    made = np.asarray(made)
    if made.dtype != OBJECT:
        return made.astype(dtypes.to_numpy(type))
    if any(map(is_open, made.reshape(-1))):
        return made if type in dtypes.INTEGERS else None
    return made.astype(dtypes.to_numpy(type))


def open_literal(values: Any, type: str = "int64") -> OpenLiteral:
    """A constant of integers of which some are sizes."""
    array = np.empty(np.shape(values), object)
    array.reshape(-1)[:] = values if np.ndim(values) == 1 else np.reshape(np.asarray(values, object), -1)
    return OpenLiteral(array, type)


# ---- ramps ----

Known = Ramp | tuple[Ramp, ...]
"""A ramp; or several side by side along the last axis, as index tuples are."""


def ramp_of(op: Operation, known: Sequence[Known | None], shape: Shape) -> Known | None:
    """What is known of the result of `op`, of whose inputs this is known; None where nothing is."""
    with ones_matter(False):  # the only element of a dimension of length 1 is where that of a longer one begins
        first = known[0] if known else None
        if isinstance(op, Concat) and op.axis == shape.ndim - 1:
            parts = [k for k in known if isinstance(k, Ramp) and k.lens[-1] == 1]
            parts = [k.reshaped(k.lens[:-1]) for k in parts]
            return tuple(k for k in parts if k) if len(parts) == len(known) and all(parts) else None
        if not isinstance(first, Ramp) or len(known) != 1:
            return None
        if isinstance(op, Reshaping):
            return first.reshaped(shape.lens)
        return first.expanded(shape.lens) if isinstance(op, Multibroadcast) else None


def comparison(op: Operation, known: Sequence[Known | None], numbers: Sequence[Any]) -> bool | None:
    """What `op` says of all elements of a ramp and a number, where it says the same of all."""
    if not isinstance(op, less) or len(known) != 2:
        return None
    (a, b), (x, y) = known, numbers
    if isinstance(a, Ramp) and isinstance(y, int):
        return a.below(y)
    if isinstance(b, Ramp) and isinstance(x, int):
        reverse = b.below(x + 1)
        return None if reverse is None else not reverse
    return None
