"""Conversions between element types."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter

Value = Instruction
MANTISSA = 0x7FFFFF  # of a float's bits
ROUNDING = {"up": MANTISSA, "down": 0, "nearest": 0x400000}
"""What is added to a float's bits before its mantissa is cleared: the next power of two in that direction."""


@converter("Cast")
def cast(b: OnnxBuilder, x: Value, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Value:
    """To fp8, what is out of range becomes the largest number, unless `saturate` is 0."""
    target = element_type(to) if isinstance(to, int) else to.lower()
    return converted(b, x, target, bool(saturate), round_mode)


@converter("CastLike")
def cast_like(b: OnnxBuilder, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    return converted(b, x, like.shape.type, bool(saturate), round_mode)


@converter("BitCast")
def bit_cast(b: OnnxBuilder, x: Value, *, to: int) -> Value:
    return b.bit_cast(x, target_type=element_type(to))


def converted(b: OnnxBuilder, x: Value, target: str, saturate: bool, round_mode: str) -> Value:
    if round_mode not in ROUNDING:
        raise OnnxError(f"round_mode must be one of {', '.join(ROUNDING)}, is {round_mode!r}")
    if x.shape.type == target:
        return x
    if not target.startswith("fp8"):
        return b.convert(x, target_type=target)
    wide = b.cast(x, "float")
    if target == "fp8e8m0fnu":
        wide = power_of_two(b, wide, round_mode)
    if saturate:
        low, high = dtypes.limits(target)
        wide = b.where(b.isnan(wide), wide, b.clamp(wide, low, high))
    return b.convert(wide, target_type=target)


def power_of_two(b: OnnxBuilder, x: Value, round_mode: str) -> Value:
    """Positive floats rounded to powers of two; NaN stays NaN. `round_mode` is one of ROUNDING."""
    bits = b.bit_cast(x, target_type="int32")
    moved = b.add(bits, b.full(ROUNDING[round_mode], bits))
    power = b.bit_cast(b.bitwise_and(moved, b.full(~MANTISSA, bits)), target_type="float")
    return b.where(b.isnan(x), x, power)
