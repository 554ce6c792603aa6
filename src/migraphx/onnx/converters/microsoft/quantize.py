"""ONNX Runtime's quantized operators (domain com.microsoft).

Elementwise ones are the real operator between dequantizelinear and quantizelinear; products stay integer sums.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import broadcast_lens
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT, biased, channels_behind, channels_first
from migraphx.onnx.converters.standard.convolution import Lens
from migraphx.onnx.converters.standard.matmul import matmul_integer
from migraphx.onnx.converters.standard.pooling import average_pool, max_pool
from migraphx.onnx.converters.standard.quantize import dequantize_linear, qlinear_conv, quantize_linear, requantized
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import Convert, converter, register, same
from migraphx.ops.composites.activation import scaled
from migraphx.ops.macros import broadcast_per_axis

Value = Instruction
BYTES = ("uint8", "int8")
CODES = (*BYTES, "uint16", "int16", "uint4", "int4")
WORDS = ("uint16", "int16")
SCALES = ("float", "half")
UNARY = [same(BYTES, "x", "x_zero", "zero"), same(SCALES, "x_scale"), same(SCALES, "scale")]


@converter("QuantizeLinear", domain=MICROSOFT, takes=[same(SCALES, "x", "scale"), same(CODES, "zero")])
def quantize(b: OnnxBuilder, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1) -> Value:
    """As the standard's, with 16-bit integers in every opset."""
    return quantize_linear(b, x, scale, zero, axis=axis)


@converter("DequantizeLinear", domain=MICROSOFT, takes=[same((*CODES, "int32"), "x", "zero"), same(SCALES, "scale")])
def dequantize(b: OnnxBuilder, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1) -> Value:
    """As the standard's, with 16-bit integers in every opset."""
    return dequantize_linear(b, x, scale, zero, axis=axis)


# ---- elementwise ----


def binary(name: str) -> Callable[..., Value]:
    def convert(
        b: OnnxBuilder, x: Value, x_scale: Value, x_zero: Value | None, y: Value, y_scale: Value,
        y_zero: Value | None, scale: Value, zero: Value | None = None,
    ) -> Value:  # fmt: skip
        real = b.common(dequantize(b, x, x_scale, x_zero), dequantize(b, y, y_scale, y_zero))
        return like(b, x, getattr(b, name)(*real), scale, zero)

    return convert


for _op, _word in (("QLinearAdd", "add"), ("QLinearMul", "mul")):
    _takes = [same(BYTES, "x", "x_zero", "y", "y_zero", "zero"), same(("float",), "x_scale", "y_scale", "scale")]
    register(_op, binary(_word), domain=MICROSOFT, takes=_takes)


def like(b: OnnxBuilder, x: Value, real: Value, scale: Value, zero: Value | None) -> Value:
    """`real` quantized to x's type."""
    parts = [broadcast_per_axis(b, real, v, 1, 0) for v in (scale, zero)]
    return b.instruction("quantizelinear", [real, *[p for p in parts if p is not None]], out_type=x.shape.type)


@converter(
    "QLinearWhere",
    domain=MICROSOFT,
    takes=[
        same(("bool",), "condition"),
        same(BYTES, "x", "x_zero", "y", "y_zero", "zero"),
        same(("float",), "x_scale", "y_scale", "scale"),
    ],
)
def where(
    b: OnnxBuilder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """x where the condition holds, else y; all three broadcast."""
    lens = broadcast_lens(condition.shape.lens, x.shape.lens, y.shape.lens)
    real = dequantize(b, x, x_scale, x_zero), dequantize(b, y, y_scale, y_zero)
    return like(b, x, b.where(*(b.broadcast_to(v, lens) for v in (condition, *real))), scale, zero)


def qlinear(op: str) -> Callable[[Convert], Convert]:
    """Declare the converter of a QLinear operator of one input, whose function takes the real numbers."""

    def declare(function: Convert) -> Convert:
        def convert(
            b: OnnxBuilder, x: Value, x_scale: Value, x_zero: Value | None, scale: Value, zero: Value | None = None,
            **attributes: Any,
        ) -> Value:  # fmt: skip
            for what, value in (("X_scale", x_scale), ("Y_scale", scale)):
                if value.shape.elements != 1:
                    raise OnnxError(f"its {what} must have one element, has lens {value.shape.lens}")
            return like(b, x, function(b, dequantize(b, x, x_scale, x_zero), **attributes), scale, zero)

        given = [*inspect.signature(convert).parameters.values()][:-1]
        attributes = [*inspect.signature(function).parameters.values()][2:]
        vars(convert)["__signature__"] = inspect.Signature([*given, *attributes])
        register(op, convert, domain=MICROSOFT, takes=UNARY)
        return function

    return declare


@qlinear("QLinearSigmoid")
def sigmoid(b: OnnxBuilder, x: Value) -> Value:
    return b.sigmoid(x)


@qlinear("QLinearLeakyRelu")
def leaky_relu(b: OnnxBuilder, x: Value, *, alpha: float = 0.01) -> Value:
    return b.leaky_relu(x, alpha=alpha)


@qlinear("QLinearSoftmax")
def softmax(b: OnnxBuilder, x: Value, *, opset: int, axis: int = -1) -> Value:
    """Before opset 13 of the standard, over all dimensions from `axis` on."""
    axis = axis_in(axis, x.shape.ndim)
    if opset >= 13:
        return b.softmax(x, axis=axis)
    return b.reshape(b.softmax(b.flatten(x, axis=axis), axis=1), dims=x.shape.lens)


@converter("QLinearConcat", domain=MICROSOFT)
def concat(b: OnnxBuilder, scale: Value, zero: Value, *parts: Value, axis: int) -> Value:
    """parts: x, its scale, its zero point, for each input."""
    if len(parts) % 3 or not parts:
        raise OnnxError(f"takes x, scale and zero point for each input, got {len(parts)} of them")
    real = [dequantize(b, *parts[k : k + 3]) for k in range(0, len(parts), 3)]
    return like(b, parts[0], b.concat(*real, axis=axis_in(axis, real[0].shape.ndim)), scale, zero)


# ---- pooling and convolution ----


@qlinear("QLinearAveragePool")
def qlinear_average_pool(
    b: OnnxBuilder, x: Value, *, kernel_shape: Lens, auto_pad: str = "NOTSET", channels_last: int = 0, **attributes: Any
) -> Value:
    first = channels_first(b, x) if channels_last else x
    y = average_pool(b, first, auto_pad=auto_pad, kernel_shape=kernel_shape, **attributes)
    return channels_behind(b, y) if channels_last else y


@converter("NhwcMaxPool", domain=MICROSOFT, takes=[same(BYTES, "x")])
def nhwc_max_pool(b: OnnxBuilder, x: Value, **attributes: Any) -> Value:
    """The standard's MaxPool of x {N, H, W, C}."""
    y = max_pool(b, channels_first(b, x), **attributes)
    return channels_behind(b, y if isinstance(y, Instruction) else y[0])


@qlinear("QLinearGlobalAveragePool")
def qlinear_global_average_pool(b: OnnxBuilder, x: Value, *, channels_last: int = 0) -> Value:
    if x.shape.ndim < 3:
        raise OnnxError(f"takes an input of three dimensions or more, got lens {x.shape.lens}")
    return b.reduce_mean(x, axes=tuple(range(1, x.shape.ndim - 1) if channels_last else range(2, x.shape.ndim)))


@qlinear("QLinearReduceMean")
def qlinear_reduce_mean(b: OnnxBuilder, x: Value, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Value:
    ndim = x.shape.ndim
    dims = tuple(range(ndim)) if axes is None else tuple(axis_in(a, ndim) for a in axes)
    y = b.reduce_mean(x, axes=dims)
    return y if keepdims else b.squeeze(y, axes=dims)


@converter("QLinearConv", domain=MICROSOFT)
def conv(b: OnnxBuilder, x: Value, *rest: Value, channels_last: int = 0, **attributes: Any) -> Value:
    """As the standard's; with `channels_last`, x {N, H, W, C} and w {M, C / group, kH, kW}."""
    attributes = {"group": 1} | attributes
    y = qlinear_conv(b, channels_first(b, x) if channels_last else x, *rest, **attributes)
    return channels_behind(b, y) if channels_last else y


@converter("ReduceSumInteger", domain=MICROSOFT, takes=[same(BYTES, "x")])
def reduce_sum_integer(b: OnnxBuilder, x: Value, *, axes: Sequence[int], keepdims: int) -> Value:
    """A sum in 32 bits, signed as x is."""
    dims = tuple(axis_in(a, x.shape.ndim) for a in axes) or tuple(range(x.shape.ndim))
    y = b.reduce_sum(b.cast(x, "int32" if x.shape.type == "int8" else "uint32"), axes=dims)
    return y if keepdims else b.squeeze(y, axes=dims)


# ---- products ----


@converter("MulInteger", domain=MICROSOFT, takes=[same(BYTES, "x", "x_zero", "y", "y_zero")])
def mul_integer(b: OnnxBuilder, x: Value, x_zero: Value | None, y: Value, y_zero: Value | None = None) -> Value:
    """(x - x_zero) * (y - y_zero) in int32."""
    wide = []
    for value, zero in ((x, x_zero), (y, y_zero)):
        real = b.cast(value, "int32")
        wide.append(real if zero is None else b.sub(*b.common(real, b.cast(zero, "int32"))))
    return b.mul(*b.common(*wide))


@converter("MatMulInteger16", domain=MICROSOFT, takes=[same(WORDS, "x"), same(WORDS, "y")])
def matmul_integer16(b: OnnxBuilder, x: Value, y: Value) -> Value:
    """x @ y in 32 bits, unsigned where both are."""
    type = "uint32" if x.shape.type == y.shape.type == "uint16" else "int32"
    return b.matmul(b.cast(x, type), b.cast(y, type))


def product_scale(b: OnnxBuilder, x_scale: Value, y_scale: Value) -> Value:
    """What integer sums stand for; scales are one number, or one a column of y."""
    return b.mul(*b.common(b.cast(x_scale, "float"), b.cast(y_scale, "float")))


@converter(
    "MatMulIntegerToFloat",
    domain=MICROSOFT,
    takes=[same(BYTES, "x", "x_zero"), same(BYTES, "y", "y_zero"), same(FLOATS16, "x_scale", "y_scale", "bias")],
)
def matmul_integer_to_float(
    b: OnnxBuilder,
    x: Value,
    y: Value,
    x_scale: Value,
    y_scale: Value,
    x_zero: Value | None = None,
    y_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """(x - x_zero) @ (y - y_zero) * x_scale * y_scale + bias, in the scales' type.

    Scales and zero points are one number, or one a column: of y's, or of x's, which leaves no integer product.
    """
    for what, value, length in (
        ("a_scale", x_scale, x.shape.lens[-1]),
        ("b_scale", y_scale, y.shape.lens[-1]),
        ("a_zero_point", x_zero, x.shape.lens[-1]),
        ("b_zero_point", y_zero, y.shape.lens[-1]),
    ):
        if value is not None and value.shape.elements != 1:
            expect(value, what, length)
    wide = x_scale.shape.elements != 1 or (x_zero is not None and x_zero.shape.elements != 1)
    if wide:
        real = [real_columns(b, *v) for v in ((x, x_scale, x_zero), (y, y_scale, y_zero))]
        product = b.matmul(*real)
    else:
        sums = matmul_integer(b, x, y, x_zero, y_zero)
        factor = b.broadcast_to(product_scale(b, x_scale, y_scale), sums.shape.lens)
        product = b.mul(b.cast(sums, "float"), factor)
    expect(bias, "bias", y.shape.lens[-1])
    return biased(b, b.cast(product, x_scale.shape.type), bias)


def real_columns(b: OnnxBuilder, x: Value, scale: Value, zero: Value | None) -> Value:
    """(x - zero) * scale in float, of one number or one a column."""
    wide = b.cast(x, "float")
    if zero is not None:
        wide = b.sub(*b.common(wide, b.cast(zero, "float")))
    return b.mul(*b.common(wide, b.cast(scale, "float")))


@converter(
    "QGemm",
    domain=MICROSOFT,
    takes=[
        same(BYTES, "x", "x_zero"),
        same(BYTES, "y", "y_zero"),
        same(("float",), "x_scale", "y_scale", "scale"),
        same(("int32",), "c"),
        same(BYTES, "zero"),
    ],
)
def qgemm(
    b: OnnxBuilder,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    c: Value | None = None,
    scale: Value | None = None,
    zero: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """alpha * x @ y + c, c in int32 of scale alpha * x_scale * y_scale; a float where `scale` is absent."""
    expect(x, "A", None, None)
    expect(y, "B", None, None)
    x = b.transpose(x, permutation=(1, 0)) if transA else x
    y = b.transpose(y, permutation=(1, 0)) if transB else y
    sums = biased(b, matmul_integer(b, x, y, x_zero, y_zero), c)
    factor = product_scale(b, x_scale, y_scale)
    factor = b.mul(factor, b.full(alpha, factor))
    if scale is not None and zero is not None:
        return requantized(b, sums, factor, scale, zero)
    return b.mul(b.cast(sums, "float"), b.broadcast_to(factor, sums.shape.lens))


@converter(
    "DynamicQuantizeMatMul",
    domain=MICROSOFT,
    takes=[same(("float",), "x", "y_scale", "bias"), same(BYTES, "y", "y_zero")],
)
def dynamic_quantize_matmul(
    b: OnnxBuilder, x: Value, y: Value, y_scale: Value, y_zero: Value | None = None, bias: Value | None = None
) -> Value:
    """x quantized by its own range, then MatMulIntegerToFloat."""
    zeros = b.literal(np.zeros((1,) * x.shape.ndim, np.float32))
    low, high = (b.min(b.reduce_min(x, axes=()), zeros), b.max(b.reduce_max(x, axes=()), zeros))
    scale = scaled(b, b.sub(high, low), 1 / 255)
    zero = b.cast(b.clamp(b.nearbyint(b.div(b.neg(low), scale)), 0.0, 255.0), "uint8")
    codes = quantize(b, x, scale, zero)
    return matmul_integer_to_float(b, codes, y, scale, y_scale, zero, y_zero, bias)
