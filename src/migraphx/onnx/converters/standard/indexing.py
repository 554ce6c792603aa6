"""Operators that pick and place elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.inference import infer_shape
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Operation, operation
from migraphx.ir.ramp import positions
from migraphx.ir.shape import standard_strides
from migraphx.ir.size import is_open, ones_matter
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.moving import moves
from migraphx.onnx.registry import converter

Value = Instruction
REDUCTIONS = ("none", "add", "mul", "min", "max")
"""How elements that are written join those that are there: ONNX's words, and the ends of our operators' names."""


@converter("Gather")
@moves
def gather(b: OnnxBuilder, data: Value, indices: Value, *, axis: int) -> Value:
    return b.gather(data, indices, axis=axis_in(axis, max(data.shape.ndim, 1)))


@converter("GatherElements")
@moves
def gather_elements(b: OnnxBuilder, data: Value, indices: Value, *, axis: int) -> Value:
    return b.gather_elements(data, indices, axis=axis_in(axis, data.shape.ndim))


@converter("GatherND")
@moves
def gather_nd(b: OnnxBuilder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Known tuples become plain positions: torch's masks are indexed by ranges, which leaves a reshape."""
    ramps = b.ramps.get(indices)
    if isinstance(ramps, tuple) and not batch_dims:
        count = math.prod(data.shape.lens[: len(ramps)])
        with ones_matter(False):  # as `ramp_of`
            found = positions(ramps, data.shape.lens[: len(ramps)])
            every = found is not None and found.counts and math.prod(found.lens) == count
        if found is not None and every:
            return b.reshape(data, dims=(*found.lens, *data.shape.lens[len(ramps) :]))
    tuples = None if is_open(indices.shape.lens) else b.constant(indices)
    if tuples is None or batch_dims:
        return b.gathernd(data, indices, batch_dims=batch_dims)
    depth, lens = tuples.shape[-1], data.shape.lens
    if depth > len(lens):
        raise OnnxError(f"index tuples of {depth} do not fit {len(lens)} dimensions")
    length = np.array(lens[:depth], np.int64)
    if ((tuples < -length) | (tuples >= length)).any():
        raise OnnxError(f"an index is out of range for the lengths {lens[:depth]}")
    places = np.where(tuples < 0, tuples + length, tuples)
    rows = (places * np.array(standard_strides(lens[:depth]), np.int64)).sum(-1)
    count = math.prod(lens[:depth])
    if np.array_equal(rows.reshape(-1), np.arange(count)):
        return b.reshape(data, dims=(*rows.shape, *lens[depth:]))
    return b.gather(b.reshape(data, dims=(count, *lens[depth:])), b.literal(rows.astype(np.int64)), axis=0)


@converter("Scatter", "ScatterElements")
def scatter_elements(
    b: OnnxBuilder, data: Value, indices: Value, updates: Value, *, axis: int, reduction: str = "none"
) -> Value:
    if reduction not in REDUCTIONS:
        raise OnnxError(f"reduction {reduction!r} is not supported")
    return b.instruction(f"scatter_{reduction}", [data, indices, updates], axis=axis_in(axis, data.shape.ndim))


@converter("ScatterND")
def scatter_nd(b: OnnxBuilder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    if reduction not in REDUCTIONS:
        raise OnnxError(f"reduction {reduction!r} is not supported")
    return b.instruction(f"scatternd_{reduction}", [data, indices, updates])


@converter("TensorScatter")
def tensor_scatter(
    b: OnnxBuilder, past: Value, update: Value, start: Value | None = None, *, axis: int, mode: str
) -> Value:
    """A cache {N, ...} with `update` written from position start[n] of `axis` on; `circular` goes on at 0."""
    if mode not in ("linear", "circular"):
        raise OnnxError(f"mode must be linear or circular, is {mode!r}")
    axis = axis_in(axis, past.shape.ndim)
    expect(update, "update", *(None if d == axis else n for d, n in enumerate(past.shape.lens)))
    expect(start, "write_indices", past.shape.lens[0])
    length, written = past.shape.lens[axis], update.shape.lens[axis]
    if written > length:
        raise OnnxError(f"its update is longer than the cache along axis {axis}: {written}, {length}")
    column = [1] * past.shape.ndim
    column[axis] = written
    place = b.literal(np.arange(written, dtype=np.int64).reshape(column))
    if start is not None:
        rows = b.reshape(b.cast(start, "int64"), dims=(-1, *(1,) * (past.shape.ndim - 1)))
        place = b.add(*b.common(place, rows))
    if mode == "circular":
        place = b.mod(place, b.full(length, place))
    return b.scatter_none(past, b.broadcast_to(place, update.shape.lens), update, axis=axis)


def as_found(b: OnnxBuilder, op: Operation, inputs: Sequence[Value]) -> Any:
    """An operator whose sizes depend on data: computed where that is known, else an instruction."""
    values = [b.constant(i) if b.options.dynamic else b.known(i, "input") for i in inputs]
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return b.instruction(op.name, inputs, **op.attributes())
    infer_shape(op, [i.shape for i in inputs])
    made = op.compute(*known)
    return tuple(map(b.literal, made)) if isinstance(made, tuple) else b.literal(made)


@converter("NonZero")
def non_zero(b: OnnxBuilder, x: Value) -> Value:
    """How many there are depends on the data."""
    return as_found(b, operation("nonzero_exact"), [x])


@converter("Unique")
def unique(b: OnnxBuilder, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    axes = () if axis is None else (axis_in(axis, x.shape.ndim),)
    made = as_found(b, operation("unique", axis=axes, sorted=bool(sorted)), [x])
    return made if isinstance(made, tuple) else tuple(b.outputs(made, 4))


@converter("Compress")
@moves
def compress(b: OnnxBuilder, x: Value, condition: Value, *, axis: int | None = None) -> Value:
    if axis is None:
        x, axis = b.reshape(x, dims=(-1,)), 0
    flat = b.reshape(condition, dims=(-1,))
    kept = b.reshape(as_found(b, operation("nonzero_exact"), [flat]), dims=(-1,))
    return b.gather(x, kept, axis=axis_in(axis, x.shape.ndim))
