"""Operators that make constants: of attributes, of shapes, of numbers known when the model is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.size import is_open
from migraphx.onnx.builder import LARGEST, OnnxBuilder, axis_in, expect
from migraphx.onnx.graph import OnnxError, Strings, element_type
from migraphx.onnx.registry import converter

Value = Instruction


@converter("Constant")
def constant(b: OnnxBuilder, **given: Any) -> Value | Strings:
    """One attribute holds the value; which one says its type."""
    types = {"value": None, "sparse_value": None, "value_float": "float", "value_floats": "float"}
    types |= {"value_int": "int64", "value_ints": "int64", "value_string": "string", "value_strings": "string"}
    ((name, value),) = given.items() if len(given) == 1 else [("", None)]
    if name not in types:
        raise OnnxError(f"must have one of the attributes {', '.join(types)}, has {', '.join(given) or 'none'}")
    if types[name] == "string" or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        return Strings.of(value)
    return b.literal(value, types[name])


@converter("ConstantOfShape")
def constant_of_shape(b: OnnxBuilder, shape: Value, *, value: np.ndarray | None = None) -> Value:
    fill = np.zeros(1, np.float32) if value is None else value.reshape(1)
    lens = b.ints(shape, "shape") or ()
    return b.multibroadcast(b.literal(fill), out_lens=lens) if lens else b.literal(fill.reshape(()))


@converter("Shape")
def shape(b: OnnxBuilder, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    return b.sizes(x.shape.lens[start:end])


@converter("Size")
def size(b: OnnxBuilder, x: Value) -> Value:
    return b.sizes(x.shape.elements)


@converter("Range")
def range_(b: OnnxBuilder, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Value:
    """start, start + delta, ... below (above, where delta is negative) limit."""
    if limit.shape.type in dtypes.INTEGERS:
        begin, end, by = (b.number(v, n) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
        if is_open((begin, end)) and not is_open(by) and by != 0 and (count := -((begin - end) // by)) >= 0:
            return counted_from(b, begin, by, count, limit.shape.type)
    first, last, step = (b.known(v, n).reshape(()) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
    if step == 0:
        raise OnnxError("delta is 0")
    wide = dtypes.accumulator(start.shape.type)
    first, last, step = (v.astype(wide) for v in (first, last, step))
    with np.errstate(all="ignore"):
        exact = np.ceil((last - first) / step)
    if not np.isfinite(exact) or exact > LARGEST:
        raise OnnxError(f"from {first} to {last} by {step} is too long")
    count = max(int(exact), 0)
    return b.literal((first + np.arange(count).astype(wide) * step).astype(start.shape.numpy_dtype))


def counted_from(b: OnnxBuilder, begin: int, by: int, count: int, type: str) -> Value:
    """begin, begin + by, ...: so many numbers."""
    made = b.counted(count, type)
    if not is_open(begin) and (begin, by) == (0, 1):
        return made
    first, step = (b.multibroadcast(b.sizes([n], type), out_lens=(count,)) for n in (begin, by))
    return b.add(b.mul(made, step), first)


@converter("EyeLike")
def eye_like(b: OnnxBuilder, x: Value, *, k: int, dtype: int | None = None) -> Value:
    expect(x, "input", None, None)
    type = x.shape.type if dtype is None else element_type(dtype)
    if not is_open(x.shape.lens):
        return b.literal(np.eye(*x.shape.lens, k=k), type)
    rows, columns = x.shape.lens
    upper, lower = (b.cast(b.triangle(rows, columns, n), type) for n in (k, k - 1))
    return b.sub(upper, lower)


@converter("OneHot")
def one_hot(b: OnnxBuilder, indices: Value, depth: Value, values: Value, *, axis: int) -> Value:
    integers = indices if indices.shape.type in dtypes.INTEGERS else b.cast(indices, "int64")
    place = axis_in(axis, indices.shape.ndim + 1)
    return b.onehot(integers, values, axis=place, depth=int(b.number(depth, "depth")))


@converter("BlackmanWindow", "HammingWindow", "HannWindow")
def window(b: OnnxBuilder, length: Value, *, output_datatype: int, periodic: int) -> Value:
    """A sum of cosines over `length` points."""
    terms: dict[str, Sequence[float]] = {
        "BlackmanWindow": (0.42, -0.5, 0.08),
        "HammingWindow": (25 / 46, -21 / 46),
        "HannWindow": (0.5, -0.5),
    }
    count = int(b.number(length, "size"))
    if count < 1:
        raise OnnxError(f"its size must be above 0, is {count}")
    angle = 2 * np.pi * np.arange(count) / max(count - (not periodic), 1)
    parts = terms[b.node.op if b.node else ""]
    return b.literal(sum(a * np.cos(k * angle) for k, a in enumerate(parts)), element_type(output_datatype))
