"""Quantizing and dequantizing as pointwise operators, so that they fuse with what is round them."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.passes.constants import broadcast_literal, compact, is_constant, is_zero, scalar_of

BYTES = ("int8", "uint8")


def rewrite_quantization(module: Module) -> None:
    """quantizelinear and dequantizelinear become the arithmetic that they stand for.

    before:
        @0 = @literal{0.5} -> float_type, {1}, {1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> int8_type, {2, 3}, {3, 1}
        @3 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@0)
        @4 = dequantizelinear(y,@3)
        @5 = @return(@4)

    after:
        @0 = @literal{0.5} -> float_type, {1}, {1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> int8_type, {2, 3}, {3, 1}
        @3 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@0) -> float_type, {2, 3}, {0, 0}
        @4 = convert[target_type=float](y) -> float_type, {2, 3}, {3, 1}
        @5 = mul(@4,@3) -> float_type, {2, 3}, {3, 1}
        @6 = @return(@5)
    """
    for ins in module:
        if ins.name in ("quantizelinear", "dequantizelinear"):
            b = Builder(module, before=ins, origin=ins.origin)
            write = quantized if ins.name == "quantizelinear" else dequantized
            module.replace(ins, write(b, ins))


def quantized(b: Builder, ins: Instruction) -> Instruction:
    """saturate(nearbyint(x / scale) + zero_point); NaN gives 0 in integers. fp8 and fp4 keep fractions."""
    type, (source, step, *zero) = ins.shape.type, ins.inputs
    wide = "double" if source.shape.type == "double" else "float"
    x = b.cast(source, wide)
    y = divided(b, x, as_type(b, step, x))
    point = zero[0] if zero and not is_zero(zero[0]) else None
    low, high = dtypes.limits(type)
    if type in BYTES and (point is None or scalar_of(point) is not None):
        return integer(b, b.nearbyint(y), int(scalar_of(point) or 0) if point else 0, type)
    if type in dtypes.INTEGERS:
        y = b.nearbyint(y)
        y = b.where(b.isnan(y), b.full(0.0, y), y)
    y = b.cast(y, compute_type({type, wide}))
    if point is not None:
        y = b.add(y, as_type(b, point, y))
    return b.cast(b.min(b.max(y, b.full(low, y)), b.full(high, y)), type)


def integer(b: Builder, y: Instruction, point: int, type: str) -> Instruction:
    """Whole numbers plus a zero point, saturated to 8 bits.

    NaN becomes 0 or the least int32. Both have 0 in the lowest byte, so that NaN ends as the zero point without a test.
    """
    low, high = (limit - point for limit in dtypes.limits(type))
    whole = b.cast(b.min(b.max(y, b.full(low, y)), b.full(high, y)), "int32")
    return b.cast(b.add(whole, b.full(point, whole)) if point else whole, type)


def divided(b: Builder, x: Instruction, scale: Instruction) -> Instruction:
    """x / scale; by a constant, the product with its reciprocal, which may differ in the last bit."""
    number = scalar_of(scale)
    if number and 2.0**-100 < abs(number) < 2.0**100:
        return b.mul(x, b.full(1 / number, x))
    return b.div(x, scale)


def dequantized(b: Builder, ins: Instruction) -> Instruction:
    """(y - zero_point) * scale"""
    codes, step, *zero = ins.inputs
    y = b.cast(codes, compute_type({i.shape.type for i in ins.inputs}))
    if zero and not is_zero(zero[0]):
        y = b.sub(y, as_type(b, zero[0], y))
    return b.cast(b.mul(y, as_type(b, step, y)), ins.shape.type)


def as_type(b: Builder, part: Instruction, y: Instruction) -> Instruction:
    """A scale or zero point converted to y's type; a constant is converted here, since constants were folded before."""
    if is_constant(part) and part.shape.type != y.shape.type:
        return broadcast_literal(b, compact(part).astype(y.shape.numpy_dtype), y.shape.lens)
    return b.cast(part, y.shape.type)


def compute_type(types: set[str]) -> str:
    """float, which is exact for integers of up to 16 bits; double beside int32 or double."""
    return "double" if types & {"int32", "double"} else "float"
