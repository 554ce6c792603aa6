"""Operators of the standard's early experiments, and torch's own, which its exporter wrote as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.standard.movement import slice_
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter, register, same
from migraphx.ops.composites.activation import scaled, shifted

Value = Instruction
REDUCTIONS = ("sum", "mean", "max")
"""What `mode` of an embedding bag means."""
FLOATS = [same(("float", "half", "bf16", "double"), "x")]


@converter("ConstantFill")
def constant_fill(
    b: OnnxBuilder,
    x: Value | None = None,
    *,
    dtype: int = 1,
    extra_shape: Sequence[int] = (),
    input_as_shape: int = 0,
    shape: Sequence[int] | None = None,
    value: float = 0.0,
) -> Value:
    """`value` in the lens of the input, or in those that the input or `shape` holds; `extra_shape` goes behind."""
    if (x is None) == (shape is None):
        raise OnnxError("takes either an input or the attribute 'shape'")
    held = b.ints(shape if x is None else x, "shape") if x is None or input_as_shape else x.shape.lens
    lens = (*(held or ()), *extra_shape)
    fill = b.literal(np.full((1,) * bool(lens), value), element_type(dtype))
    return b.multibroadcast(fill, out_lens=lens) if lens else fill


@converter("ImageScaler", takes=FLOATS)
def image_scaler(b: OnnxBuilder, x: Value, *, bias: Sequence[float], scale: float = 1.0) -> Value:
    """x {N, C, H, W} * scale + bias {C}."""
    expect(x, "input", None, None, None, None)
    if len(bias) != x.shape.lens[1]:
        raise OnnxError(f"bias has {len(bias)} values, the image {x.shape.lens[1]} channels")
    term = b.literal(np.reshape(bias, (-1, 1, 1)), x.shape.type)
    return b.add(*b.common(b.mul(x, b.full(scale, x)), term))


@converter("Affine", takes=FLOATS)
def affine(b: OnnxBuilder, x: Value, *, alpha: float = 1.0, beta: float = 0.0) -> Value:
    return shifted(b, scaled(b, x, alpha), beta)


@converter("Scale", takes=FLOATS)
def scale(b: OnnxBuilder, x: Value, *, scale: float = 1.0) -> Value:
    return scaled(b, x, scale)


@converter("ScaledTanh", takes=FLOATS)
def scaled_tanh(b: OnnxBuilder, x: Value, *, alpha: float = 1.0, beta: float = 1.0) -> Value:
    return scaled(b, b.tanh(scaled(b, x, beta)), alpha)


@converter("ParametricSoftplus", takes=FLOATS)
def parametric_softplus(b: OnnxBuilder, x: Value, *, alpha: float = 1.0, beta: float = 1.0) -> Value:
    """alpha * log(exp(beta * x) + 1)"""
    return scaled(b, b.softplus(scaled(b, x, beta), threshold=math.inf), alpha)


@converter("Crop")
def crop(b: OnnxBuilder, x: Value, *, border: Sequence[int], scale: Sequence[int] | None = None) -> Value:
    """x {N, C, H, W} without `border` (left, top, right, bottom); or `scale` (height, width) from top and left."""
    expect(x, "input", None, None, None, None)
    if len(border) != 4 or (scale is not None and len(scale) != 2):
        raise OnnxError(f"border {tuple(border)} must have 4 widths, scale {scale} none or 2")
    (left, top, right, bottom), (height, width) = border, x.shape.lens[2:]
    ends = (height - bottom, width - right) if scale is None else (top + scale[0], left + scale[1])
    if not (0 <= top < ends[0] <= height and 0 <= left < ends[1] <= width):
        raise OnnxError(f"border {tuple(border)} and scale {scale} do not fit an image of {height} by {width}")
    return b.slice(x, axes=(2, 3), starts=(top, left), ends=ends)


register("DynamicSlice", slice_)


@converter("ATen")
@converter("ATen", domain="org.pytorch.aten")
def aten(b: OnnxBuilder, *inputs: Value, operator: str, **given: Any) -> Value:
    """aten::embedding_bag, the one that files hold."""
    if operator != "embedding_bag":
        raise OnnxError(f"aten::{operator} is not supported")
    if len(inputs) < 3:
        raise OnnxError(f"takes weights, indices and offsets, got {len(inputs)} inputs")
    if len(inputs) > 3:
        raise OnnxError("weights of samples are not supported")
    if given.get("include_last_offset"):
        raise OnnxError("include_last_offset is not supported")
    return embedding_bag(b, *inputs, mode=given.get("mode", 0))


def embedding_bag(b: OnnxBuilder, table: Value, indices: Value, offsets: Value, mode: int) -> Value:
    """Rows of the table {rows, D} at the indices {n}, summed bag by bag; `offsets` says where each bag begins.

    An empty bag is 0. aten::embedding_bag.
    """
    if not 0 <= mode < len(REDUCTIONS):
        raise OnnxError(f"mode must be 0 to {len(REDUCTIONS) - 1}, is {mode}")
    expect(table, "weight", None, None)
    expect(indices, "indices", None)
    starts = [int(v) for v in b.known(offsets, "offsets").reshape(-1)]
    count = indices.shape.lens[0]
    ends = [*starts[1:], count]
    if not starts or starts[0] != 0 or any(not 0 <= s <= e for s, e in zip(starts, ends, strict=True)):
        raise OnnxError(f"offsets {starts} do not divide {count} indices")
    rows = b.gather(table, indices, axis=0)
    if REDUCTIONS[mode] != "max":  # one product: bags by rows
        member = np.array([[s <= k < e for k in range(count)] for s, e in zip(starts, ends, strict=True)], np.float64)
        if REDUCTIONS[mode] == "mean":
            member = member / np.maximum(member.sum(1, keepdims=True), 1)
        return b.dot(b.literal(member, table.shape.type), rows)
    empty = b.literal(np.zeros((1, table.shape.lens[1])), table.shape.type)
    bags = [
        b.reduce_max(b.slice(rows, axes=(0,), starts=(start,), ends=(end,)), axes=(0,)) if end > start else empty
        for start, end in zip(starts, ends, strict=True)
    ]
    return b.concat(*bags, axis=0) if len(bags) > 1 else bags[0]
