"""Arithmetic, comparisons, elementary functions, choice: element by element, with torch's promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_migraphx.fx.builder import (
    Builder,
    Operand,
    Value,
    broadcast_sizes,
    common_dtype,
    dtype_of,
    float_dtype,
    lens,
)
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.dtypes import type_name
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.narrow import AS_FP8, MOST, SATURATES
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten
prims = torch.ops.prims

ROUNDINGS = ("ceil", "floor", "trunc")
KEEPING = ("abs", "neg")


def _rounding(operator: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Value) -> Value:
        return b.pointwise(operator, input) if dtype_of(input).is_floating_point else input

    return convert


def _keeping(operator: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Value) -> Value:
        if dtype_of(input) == torch.bool:
            raise UnsupportedError(f"{operator} of bool")
        return b.pointwise(operator, input)

    return convert


for _name in ROUNDINGS:
    converter(getattr(acc_ops, _name), getattr(aten, _name).default)(_rounding(_name))
for _name in KEEPING:
    converter(getattr(acc_ops, _name), getattr(aten, _name).default)(_keeping(_name))


converter(aten._neg_view.default)(_keeping("neg"))


@converter(acc_ops.round, aten.round.default, aten.round.decimals)
def round(b: Builder, input: Value, decimals: int = 0) -> Value:
    if not dtype_of(input).is_floating_point:
        return input
    if decimals == 0:
        return b.nearbyint(input)
    scale = 10.0 ** abs(decimals)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return b.pointwise(back, b.nearbyint(b.pointwise(there, input, scale)), scale)


@converter(acc_ops.erfc, aten.erfc.default)
def erfc(b: Builder, input: Value) -> Value:
    return b.unary("erfc", input)


@converter(acc_ops.square)
def square(b: Builder, input: Value) -> Value:
    input = b.cast(input, torch.int64) if dtype_of(input) == torch.bool else input
    return b.mul(input, input)


@converter(acc_ops.frac, aten.frac.default)
def frac(b: Builder, input: Value) -> Value:
    return b.sub(input, b.trunc(input))


@converter(acc_ops.deg2rad, aten.deg2rad.default)
def deg2rad(b: Builder, input: Value) -> Value:
    return b.pointwise("mul", input, math.pi / 180)


@converter(acc_ops.rad2deg, aten.rad2deg.default)
def rad2deg(b: Builder, input: Value) -> Value:
    return b.pointwise("mul", input, 180 / math.pi)


@converter(acc_ops.isnan, aten.isnan.default)
def isnan(b: Builder, input: Value) -> Value:
    return b.isnan(input) if dtype_of(input).is_floating_point else b.full(False, torch.bool, lens(input))


@converter(acc_ops.isinf, aten.isinf.default)
def isinf(b: Builder, input: Value) -> Value:
    return b.isinf(input) if dtype_of(input).is_floating_point else b.full(False, torch.bool, lens(input))


@converter(acc_ops.isfinite, prims.isfinite.default)
def isfinite(b: Builder, input: Value) -> Value:
    if not dtype_of(input).is_floating_point:
        return b.full(True, torch.bool, lens(input))
    return b.not_(b.logical_or(b.isnan(input), b.isinf(input)))


@converter(acc_ops.logical_not, aten.logical_not.default)
def logical_not(b: Builder, input: Value) -> Value:
    return b.not_(input)


@converter(acc_ops.bitwise_not, aten.bitwise_not.default)
def bitwise_not(b: Builder, input: Value) -> Value:
    return b.not_(input) if dtype_of(input) == torch.bool else b.bitwise_not(input)


@converter(acc_ops.logit, aten.logit.default)
def logit(b: Builder, input: Value, eps: float | None = None) -> Value:
    x = b.cast(input, float_dtype(input))
    if eps is not None:
        x = b.pointwise("clip", x, eps, 1 - eps)
    return b.log(b.div(x, b.pointwise("sub", 1, x)))


@converter(acc_ops.nan_to_num, aten.nan_to_num.default)
def nan_to_num(
    b: Builder, input: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    dtype = dtype_of(input)
    if not dtype.is_floating_point:
        return input
    limits = torch.finfo(dtype)
    x = b.where(b.isnan(input), b.full(nan or 0.0, dtype, lens(input)), input)
    high = b.full(limits.max if posinf is None else posinf, dtype, lens(input))
    low = b.full(limits.min if neginf is None else neginf, dtype, lens(input))
    x = b.where(b.pointwise("equal", input, math.inf), high, x)
    return b.where(b.pointwise("equal", input, -math.inf), low, x)


# ---- two operands ----


def scaled(b: Builder, x: Operand, factor: float) -> Operand:
    """x * factor in x's own type; x itself where the factor is 1."""
    if factor == 1:
        return x
    if not isinstance(x, Value):
        return x * factor
    return b.pointwise("mul", x, factor)


@converter(acc_ops.add, aten.add.Tensor, aten.add.Scalar)
def add(b: Builder, input: Operand, other: Operand, alpha: float = 1) -> Value:
    other = scaled(b, other, alpha)
    if common_dtype(input, other) == torch.bool:
        return b.pointwise("logical_or", input, other)
    return b.pointwise("add", input, other)


@converter(acc_ops.sub, aten.sub.Tensor, aten.sub.Scalar)
def sub(b: Builder, input: Operand, other: Operand, alpha: float = 1) -> Value:
    return b.pointwise("sub", input, scaled(b, other, alpha))


@converter(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(b: Builder, input: Operand, other: Operand, alpha: float = 1) -> Value:
    return sub(b, other, input, alpha)


@converter(acc_ops.div, aten.div.Tensor, aten.div.Scalar)
def div(b: Builder, input: Operand, other: Operand) -> Value:
    return b.pointwise("div", input, other, dtype=float_dtype(input, other))


@converter(acc_ops.trunc_div)
def trunc_div(b: Builder, input: Operand, other: Operand) -> Value:
    quotient = b.pointwise("div", input, other)
    return b.trunc(quotient) if dtype_of(quotient).is_floating_point else quotient


@converter(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(b: Builder, input: Operand, other: Operand, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return div(b, input, other)
    return b.pointwise("floor_divide", input, other) if rounding_mode == "floor" else trunc_div(b, input, other)


@converter(acc_ops.pow, aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar)
def pow(b: Builder, input: Operand, exponent: Operand) -> Value:
    dtype = common_dtype(input, exponent)
    if not isinstance(input, Value) or isinstance(exponent, Value):
        return b.pointwise("pow", input, exponent)
    x = b.cast(input, dtype)
    if exponent == 1:
        return x
    if exponent in (2, 3):
        twice = b.mul(x, x)
        return twice if exponent == 2 else b.mul(twice, x)
    if dtype.is_floating_point and exponent in (-1, 0.5, -0.5):
        return getattr(b, {-1: "recip", 0.5: "sqrt", -0.5: "rsqrt"}[exponent])(x)
    if not dtype.is_floating_point and exponent < 0:
        raise UnsupportedError("a negative power of integers is an error in torch")
    return b.pointwise("pow", x, exponent)


def _without_nan(operator: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Operand, other: Operand) -> Value:
        """A NaN loses to a number."""
        x, y = b.broadcast_all(input, other, dtype=common_dtype(input, other))
        best = getattr(b, operator)(x, y)
        if not dtype_of(x).is_floating_point:
            return best
        return b.where(b.isnan(x), y, b.where(b.isnan(y), x, best))

    return convert


@converter(acc_ops.sign, acc_ops.sgn, aten.sign.default, aten.sgn.default)
def sign(b: Builder, input: Value) -> Value:
    """torch's is 0 for NaN, the engine's NaN."""
    dtype = dtype_of(input)
    if dtype == torch.bool:
        return input
    y = b.sign(input)
    return b.where(b.isnan(input), b.full(0, dtype, lens(input)), y) if dtype.is_floating_point else y


converter(acc_ops.fmax, aten.fmax.default)(_without_nan("max"))
converter(acc_ops.fmin, aten.fmin.default)(_without_nan("min"))


@converter(acc_ops.atan2, aten.atan2.default)
def atan2(b: Builder, input: Operand, other: Operand) -> Value:
    """atan(y / x), rotated by pi with the sign of y where x is negative; (0, 0) and signed zeros as IEEE says."""
    dtype = float_dtype(input, other)
    y, x = b.broadcast_all(input, other, dtype=dtype)
    zero = b.full(0, dtype, lens(x))
    same = b.logical_and(b.isinf(y), b.isinf(x))
    ratio = b.where(same, b.mul(b.sign(y), b.sign(x)), b.div(y, x))
    ratio = b.where(b.logical_and(b.equal(y, zero), b.equal(x, zero)), y, ratio)
    negative_x = b.less(b.where(b.equal(x, zero), b.recip(x), x), zero)
    negative_y = b.less(b.where(b.equal(y, zero), b.recip(y), y), zero)
    turn = b.where(negative_y, b.full(-math.pi, dtype, lens(x)), b.full(math.pi, dtype, lens(x)))
    zero_over_minus_zero = b.logical_and(b.equal(y, zero), negative_x)
    ratio = b.where(zero_over_minus_zero, zero, ratio)
    return b.add(b.atan(ratio), b.where(negative_x, turn, zero))


@converter(aten.hypot.default)
def hypot(b: Builder, input: Operand, other: Operand) -> Value:
    """The larger times sqrt(1 + the ratio's square), so that no square overflows; inf where either is."""
    x, y = (b.abs(v) for v in b.broadcast_all(input, other, dtype=common_dtype(input, other)))
    high, low = b.max(x, y), b.min(x, y)
    zero, one = (b.full(v, dtype_of(x), lens(x)) for v in (0, 1))
    ratio = b.where(b.equal(high, zero), zero, b.div(low, high))
    length = b.mul(high, b.sqrt(b.add(b.mul(ratio, ratio), one)))
    return b.where(b.logical_or(b.isinf(x), b.isinf(y)), b.full(math.inf, dtype_of(x), lens(x)), length)


@converter(acc_ops.logaddexp, aten.logaddexp.default)
def logaddexp(b: Builder, input: Operand, other: Operand) -> Value:
    """max + log1p(exp(-|x - y|)); equal infinities are themselves."""
    x, y = b.broadcast_all(input, other, dtype=float_dtype(input, other))
    high = b.max(x, y)
    sum_ = b.add(high, b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))))
    return b.where(b.logical_and(b.isinf(x), b.equal(x, y)), x, sum_)


@converter(acc_ops.xlogy, aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(b: Builder, input: Operand, other: Operand) -> Value:
    """x * log(y), 0 where x is 0; NaN where y is."""
    x, y = b.broadcast_all(input, other, dtype=float_dtype(input, other))
    zero = b.full(0, dtype_of(x), lens(x))
    none = b.logical_and(b.equal(x, zero), b.not_(b.isnan(y)))
    return b.where(none, zero, b.mul(x, b.log(y)))


@converter(aten.signbit.default)
def signbit(b: Builder, input: Value) -> Value:
    """Whether the sign's bit is set: of -0.0 and of negative NaN as well."""
    dtype = dtype_of(input)
    if dtype == torch.bool:
        return b.full(False, torch.bool, lens(input))
    bits = {torch.float16: "int16", torch.bfloat16: "int16", torch.float32: "int32", torch.float64: "int64"}
    whole = b.bit_cast(input, target_type=bits[dtype]) if dtype in bits else input
    return b.pointwise("less", whole, 0)


@converter(aten.angle.default)
def angle(b: Builder, input: Value) -> Value:
    """Of real numbers: pi below zero, 0 elsewhere, NaN where the number is."""
    x = b.cast(input, float_dtype(input))
    turned = where(b, b.pointwise("less", x, 0), b.full(math.pi, dtype_of(x)), b.full(0, dtype_of(x)))
    return b.where(b.isnan(x), x, turned)


@converter(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(b: Builder, input: Value, other: Operand) -> Value:
    x, y = b.broadcast_all(input, other, dtype=float_dtype(input, other))
    size = b.abs(x)
    return b.where(signbit(b, y), b.neg(size), size)


@converter(aten.ldexp.Tensor)
def ldexp(b: Builder, input: Value, other: Value) -> Value:
    """torch's own form: x * 2 ** y."""
    return b.pointwise("mul", input, pow(b, 2.0, other))


# ---- comparisons and logic ----


def _bitwise(bits: str, logic: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Operand, other: Operand) -> Value:
        is_bool = common_dtype(input, other) == torch.bool
        return b.pointwise(logic if is_bool else bits, input, other)

    return convert


for _word in ("and", "or", "xor"):
    converter(
        getattr(acc_ops, f"bitwise_{_word}"),
        getattr(aten, f"bitwise_{_word}").Tensor,
        getattr(aten, f"bitwise_{_word}").Scalar,
        getattr(aten, f"__{_word}__").Tensor,
    )(_bitwise(f"bitwise_{_word}", f"logical_{_word}"))


def _logical(operator: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Value, other: Value) -> Value:
        return b.pointwise(operator, b.cast(input, torch.bool), b.cast(other, torch.bool))

    return convert


for _word in ("logical_and", "logical_or", "logical_xor"):
    converter(getattr(acc_ops, _word), getattr(aten, _word).default)(_logical(_word))


def _shift(operator: str) -> Callable[..., Value]:
    def convert(b: Builder, input: Operand, other: Operand) -> Value:
        dtype = common_dtype(input, other)
        if dtype == torch.bool or dtype.is_floating_point:
            raise UnsupportedError(f"{operator} of {dtype}")
        return b.pointwise(operator, input, other)

    return convert


for _way in ("left", "right"):
    _packet = getattr(aten, f"bitwise_{_way}_shift")
    _spelled = getattr(aten, f"__{_way[0]}shift__")
    converter(_packet.Tensor, _packet.Tensor_Scalar, _packet.Scalar_Tensor, _spelled.Tensor, _spelled.Scalar)(
        _shift(f"shift_{_way}")
    )


# ---- three operands ----


@converter(
    *(acc_ops.where, named(aten.where.self, self="x", other="y")),
    *(named(aten.where.ScalarSelf, self="x", other="y"), named(aten.where.ScalarOther, self="x", other="y")),
    named(aten.where.Scalar, self="x", other="y"),
)
def where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
    dtype = common_dtype(x, y)
    sizes = broadcast_sizes(lens(condition), lens(x), lens(y))
    chosen = [b.expand(b.tensor(v, dtype), sizes) for v in (x, y)]
    return b.where(b.expand(b.cast(condition, torch.bool), sizes), *chosen)


@converter(acc_ops.masked_fill, aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(b: Builder, input: Value, mask: Value, value: Operand) -> Value:
    dtype = dtype_of(input)
    return where(b, mask, b.tensor(value, dtype), input)


@converter(acc_ops.clamp, aten.clamp.default, aten.clamp.Tensor)
def clamp(b: Builder, input: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    bounds = [v for v in (min, max) if v is not None]
    dtype = common_dtype(input, *bounds)
    if min is not None and max is not None:
        return b.pointwise("clip", input, min, max, dtype=dtype)
    return b.pointwise("min" if min is None else "max", input, *bounds, dtype=dtype)


@converter(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(b: Builder, input: Value, min: Operand) -> Value:
    return clamp(b, input, min=min)


@converter(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(b: Builder, input: Value, max: Operand) -> Value:
    return clamp(b, input, max=max)


@converter(acc_ops.lerp, aten.lerp.Tensor, aten.lerp.Scalar)
def lerp(b: Builder, input: Value, end: Value, weight: Operand) -> Value:
    return b.pointwise("add", input, b.pointwise("mul", b.pointwise("sub", end, input), weight))


@converter(acc_ops.addcmul, aten.addcmul.default)
def addcmul(b: Builder, input: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    return add(b, input, b.pointwise("mul", tensor1, tensor2), alpha=value)


@converter(acc_ops.addcdiv, aten.addcdiv.default)
def addcdiv(b: Builder, input: Value, tensor1: Value, tensor2: Value, value: float = 1) -> Value:
    return add(b, input, div(b, tensor1, tensor2), alpha=value)


# ---- element types ----


@converter(acc_ops.to_dtype, aten._to_copy.default, named(prims.convert_element_type.default, a="input"))
def to_dtype(b: Builder, input: Value, dtype: torch.dtype | None = None, acc_out_ty: Any = None) -> Value:
    dtype = acc_out_ty.dtype if dtype is None and acc_out_ty is not None else dtype
    return input if dtype is None else b.cast(input, dtype)


@converter(AS_FP8)
def as_fp8(b: Builder, x: Value) -> Value:
    kept = clamp(b, x, -MOST, MOST) if SATURATES else x
    return b.convert(b.convert(kept, target_type="fp8e4m3fn"), target_type=type_name(dtype_of(x)))


@converter(aten.view.dtype)
def view_dtype(b: Builder, input: Value, dtype: torch.dtype) -> Value:
    """The same bits as another type of the same width."""
    old = dtype_of(input)
    if dtype != old and (dtype.itemsize != old.itemsize or torch.bool in (dtype, old)):
        raise UnsupportedError(f"the bits of {old} as {dtype}")
    return input if dtype == old else b.bit_cast(input, target_type=type_name(dtype))
