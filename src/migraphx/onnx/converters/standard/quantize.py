"""Quantized numbers."""

from __future__ import annotations

from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.converters.standard.convolution import conv_integer, with_bias
from migraphx.onnx.converters.standard.matmul import matmul_integer
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter
from migraphx.ops.macros import broadcast_per_axis

Value = Instruction


@converter("QuantizeLinear", promotes=True)
def quantize_linear(
    b: OnnxBuilder,
    x: Value,
    scale: Value,
    zero: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    block_size = blocks(b, x, scale, zero, axis, block_size)
    type = element_type(output_dtype) if output_dtype else zero.shape.type if zero is not None else "uint8"
    if zero is not None and zero.shape.type != type:
        raise OnnxError(f"output_dtype is {type}, its zero point {zero.shape.type}")
    wide = x if x.shape.type == scale.shape.type or x.shape.type == "double" else b.cast(x, "float")
    inputs = [wide, broadcast_per_axis(b, x, scale, axis, block_size), broadcast_per_axis(b, x, zero, axis, block_size)]
    inputs[1] = b.cast(inputs[1], wide.shape.type)
    if not saturate and type.startswith("fp8"):  # to NaN or infinity; fp8 has no zero points but 0
        return b.convert(b.div(*inputs[:2]), target_type=type)
    return b.instruction("quantizelinear", [i for i in inputs if i is not None], out_type=type)


@converter("DequantizeLinear")
def dequantize_linear(
    b: OnnxBuilder,
    x: Value,
    scale: Value,
    zero: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    block_size = blocks(b, x, scale, zero, axis, block_size)
    inputs = [x, broadcast_per_axis(b, x, scale, axis, block_size), broadcast_per_axis(b, x, zero, axis, block_size)]
    y = b.instruction("dequantizelinear", [i for i in inputs if i is not None])
    return b.cast(y, element_type(output_dtype)) if output_dtype else y


def blocks(b: OnnxBuilder, x: Value, scale: Value, zero: Value | None, axis: int, size: int) -> int:
    """The length of blocks that share a scale, 0 where there are none; OnnxError for scales that do not fit x."""
    lens, found = x.shape.lens, scale.shape.lens
    if zero is not None and zero.shape.lens != found and not zero.shape.elements == scale.shape.elements == 1:
        raise OnnxError(f"its scale has lens {found}, its zero point {zero.shape.lens}")
    if not size and scale.shape.elements == 1:
        return 0
    place = axis_in(axis, len(lens))
    if not size and len(found) == 1:
        expect(scale, "scale", lens[place])
        return 0
    if len(found) != len(lens) or not found[place]:
        raise OnnxError(f"a scale of lens {found} does not fit an input of lens {lens}")
    if not size:
        size = -(-lens[place] // found[place])
        b.deviates(f"block_size is missing; {size} fits")
        if lens[place] % found[place]:
            raise OnnxError(f"{lens[place]} elements are not {found[place]} equal blocks")
    expect(scale, "scale", *(-(-n // size) if d == place else n for d, n in enumerate(lens)))
    return size


def requantized(b: OnnxBuilder, sums: Value, factor: Value, scale: Value, zero: Value) -> Value:
    """Integer sums that stand for sums * factor, as the type of `zero`."""
    real = b.mul(b.cast(sums, "float"), b.broadcast_to(factor, sums.shape.lens))
    parts = [broadcast_per_axis(b, real, v, 1, 0) for v in (b.cast(scale, "float"), zero)]
    return b.instruction("quantizelinear", [real, *[p for p in parts if p is not None]], out_type=zero.shape.type)


def single(scale: Value, zero: Value) -> None:
    """OnnxError unless the result has one scale and zero point."""
    for what, value in (("y_scale", scale), ("y_zero_point", zero)):
        if value.shape.elements != 1:
            raise OnnxError(f"its {what} must have one element, has lens {value.shape.lens}")


@converter("QLinearMatMul")
def qlinear_matmul(
    b: OnnxBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """The product of two quantized matrices, quantized."""
    single(scale, zero)
    factor = b.mul(*b.common(b.cast(x_scale, "float"), b.cast(y_scale, "float")))
    return requantized(b, matmul_integer(b, x, y, x_zero, y_zero), factor, scale, zero)


@converter("QLinearConv")
def qlinear_conv(
    b: OnnxBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    scale: Value,
    zero: Value,
    bias: Value | None = None,
    **attributes: Any,
) -> Value:
    """A convolution of quantized numbers, quantized; w_scale is one number or one a channel."""
    single(scale, zero)
    sums = with_bias(b, conv_integer(b, x, w, x_zero, w_zero, **attributes), bias)
    factor = b.mul(*b.common(x_scale, w_scale))
    if factor.shape.elements > 1:
        factor = b.reshape(factor, dims=(-1, *(1,) * (x.shape.ndim - 2)))
    return requantized(b, sums, factor, scale, zero)
