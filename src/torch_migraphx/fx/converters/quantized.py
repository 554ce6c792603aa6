"""Quantization: torch's quantized_decomposed operators, fake quantization, integer products.

Dequantized values become `dequantizelinear` of codes, which is what the engine turns into products of integers. What is
constant is quantized once, when the model is compiled, by torch's own operator: weights have exactly torch's codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

# It declares torch.ops.quantized_decomposed.
import torch.ao.quantization.fx._decomposed

from torch_migraphx.fx.builder import Builder, Value, axis, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.dtypes import type_name
from torch_migraphx.fx.errors import UnsupportedError

aten = torch.ops.aten
decomposed = torch.ops.quantized_decomposed
EPSILON = torch.finfo(torch.float32).eps
Bound = int | Value
WIDTHS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-(2**15), 2**15 - 1)}
"""The least and the largest code of a type; of wider ones none is out of range."""


# ---- constants ----


def known(x: Any) -> torch.Tensor | None:
    """The tensor that a value always is; None where it is computed, or an input."""
    if x is None:
        return None
    if isinstance(x, Value):
        return torch.from_numpy(np.array(x.get_literal())) if x.name() == "@literal" and _has_numpy_type(x) else None
    return torch.as_tensor(x)


def _has_numpy_type(x: Value) -> bool:
    return dtype_of(x) != torch.bfloat16


def at_compile_time(b: Builder, op: Callable[..., torch.Tensor], *args: Any) -> Value | None:
    """What torch's operator gives, as a literal, where all values among its arguments are constants."""
    values = [known(a) if isinstance(a, Value) else a for a in args]
    if any(v is None and a is not None for v, a in zip(values, args, strict=True)):
        return None
    with torch.no_grad():
        return b.literal(op(*values))


# ---- scales and zero points as the values that they belong to ----


@dataclass(frozen=True)
class Place:
    """How scales lie on the values that they belong to: their own lens, and what broadcasts them."""

    own: tuple[int, ...]
    spread: Callable[[Value], Value]

    def of(self, b: Builder, x: Value | float, dtype: torch.dtype) -> Value:
        """A scale or a zero point as `dtype`, as the values are; a view of a literal where it is known."""
        constant = known(x)
        if constant is not None:
            return self.spread(b.literal(constant.to(dtype).reshape(self.own).contiguous()))
        return self.spread(b.view(b.cast(x, dtype), self.own))  # type: ignore[arg-type]


def everywhere(b: Builder, sizes: Sequence[int]) -> Place:
    """One number for all elements."""
    return Place((1,), lambda p: b.multibroadcast(p, out_lens=list(sizes))) if sizes else Place((), lambda p: p)


def along(b: Builder, sizes: Sequence[int], dim: int) -> Place:
    """One number for each index of `dim`."""
    at = axis(dim, len(sizes))
    return Place((sizes[at],), lambda p: b.broadcast(p, axis=at, out_lens=list(sizes)))


def by_row(b: Builder, sizes: Sequence[int]) -> Place:
    """One number for each row of the last dimension."""
    return Place((*sizes[:-1], 1), lambda p: b.multibroadcast(p, out_lens=list(sizes)))


def quantized(
    b: Builder, x: Value, scale: Value, zero: Value, place: Place, low: Bound, high: Bound, dtype: torch.dtype
) -> Value:
    """clamp(round(x / scale) + zero, low, high) as `dtype`, by quantizelinear, which saturates to the type."""
    if not dtype_of(x).is_floating_point:
        raise UnsupportedError(f"quantization of {dtype_of(x)}")
    return clamped(b, b.quantizelinear(x, place.of(b, scale, dtype_of(x)), place.of(b, zero, dtype)), low, high)


def clamped(b: Builder, codes: Value, low: Bound, high: Bound) -> Value:
    """Codes within bounds, where these are narrower than the type or not known."""
    dtype, everything = dtype_of(codes), everywhere(b, lens(codes))
    least, largest = WIDTHS.get(dtype, (None, None))
    if (at := known(low)) is None or (least is not None and int(at) > least):
        codes = b.max(codes, everything.of(b, low, dtype))
    if (at := known(high)) is None or (largest is not None and int(at) < largest):
        codes = b.min(codes, everything.of(b, high, dtype))
    return codes


def dequantized(
    b: Builder, codes: Value, scale: Value, zero: Value | None, place: Place, dtype: torch.dtype | None
) -> Value:
    """(codes - zero) * scale as `dtype`, float where None."""
    type_name(dtype_of(codes))
    step, whole = place.of(b, scale, dtype or torch.float32), known(zero)
    if zero is None or (whole is not None and not whole.any()):
        return b.dequantizelinear(codes, step)
    if whole is not None and whole.is_floating_point() and not torch.equal(whole, whole.round()):
        raise UnsupportedError("a zero point that is no whole number")
    return b.dequantizelinear(codes, step, place.of(b, zero, dtype_of(codes)))


# ---- one scale ----


@converter(
    decomposed.quantize_per_tensor.default, decomposed.quantize_per_tensor.tensor,
    decomposed.quantize_per_tensor.tensor2,
)  # fmt: skip
def quantize_per_tensor(
    b: Builder, input: Value, scale: Any, zero_point: Any, quant_min: Bound, quant_max: Bound, dtype: torch.dtype
) -> Value:
    operator = decomposed.quantize_per_tensor
    overload = operator.tensor2 if isinstance(quant_min, Value) else operator.tensor
    made = at_compile_time(
        b, overload if isinstance(scale, Value) else operator.default, input, scale, zero_point, quant_min, quant_max,
        dtype,
    )  # fmt: skip
    if made is not None:
        return made
    return quantized(b, input, scale, zero_point, everywhere(b, lens(input)), quant_min, quant_max, dtype)


@converter(
    decomposed.dequantize_per_tensor.default, decomposed.dequantize_per_tensor.tensor,
    decomposed.dequantize_per_tensor.tensor2,
)  # fmt: skip
def dequantize_per_tensor(
    b: Builder, input: Value, scale: Any, zero_point: Any, quant_min: Bound, quant_max: Bound, dtype: torch.dtype,
    out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    """The bounds say what the codes are; they change none."""
    return dequantized(b, input, scale, zero_point, everywhere(b, lens(input)), out_dtype)


def bounds(b: Builder, x: Value) -> tuple[Value, Value]:
    """The least and the largest element {1}, 0 if all are on one side of it."""
    flat = b.view(x, (math.prod(lens(x)),))
    zero = b.full(0, dtype_of(x), (1,))
    return b.min(b.reduce_min(flat, axes=[0]), zero), b.max(b.reduce_max(flat, axes=[0]), zero)


@converter(decomposed.choose_qparams.tensor)
def choose_qparams(
    b: Builder, input: Value, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Value, Value]:
    """The scale, double {1}, and the zero point, int64 {1}, by which the range of the input fills the codes."""
    low, high = bounds(b, input)
    scale = b.div(b.sub(high, low), b.full(quant_max - quant_min, dtype_of(input), (1,)))
    scale = b.max(scale, b.full(eps, dtype_of(input), (1,)))
    zero = b.sub(b.full(quant_min, dtype_of(input), (1,)), b.nearbyint(b.div(low, scale)))
    return b.cast(scale, torch.float64), b.cast(_within(b, zero, quant_min, quant_max), torch.int64)


def _within(b: Builder, x: Value, low: float, high: float) -> Value:
    dtype, sizes = dtype_of(x), lens(x)
    return b.min(b.max(x, b.full(low, dtype, sizes)), b.full(high, dtype, sizes))


@converter(decomposed.choose_qparams_symmetric.tensor)
def choose_qparams_symmetric(
    b: Builder, input: Value, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Value, Value]:
    """The scale, double {1}, for codes round 0 (128 for uint8), int64 {1}."""
    low, high = bounds(b, input)
    half = (quant_max - quant_min) / 2
    scale = b.div(b.max(b.neg(low), high), b.full(half, dtype_of(input), (1,)))
    scale = b.max(scale, b.full(eps, dtype_of(input), (1,)))
    return b.cast(scale, torch.float64), b.full(128 if dtype == torch.uint8 else 0, torch.int64, (1,))


# ---- one scale a channel ----


@converter(decomposed.quantize_per_channel.default)
def quantize_per_channel(
    b: Builder, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Value:  # fmt: skip
    operator = decomposed.quantize_per_channel.default
    made = at_compile_time(b, operator, input, scales, zero_points, axis, quant_min, quant_max, dtype)
    if made is not None:
        return made
    return quantized(b, input, scales, zero_points, along(b, lens(input), axis), quant_min, quant_max, dtype)


@converter(decomposed.dequantize_per_channel.default)
def dequantize_per_channel(
    b: Builder, input: Value, scales: Value, zero_points: Value | None, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype, out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    return dequantized(b, input, scales, zero_points, along(b, lens(input), axis), out_dtype)


# ---- one scale a group of each channel, for weights of 4 bits ----


def _grouped(b: Builder, x: Value, group: int) -> tuple[Value, Place]:
    """A matrix {N, K} as {N, K / group, group}, and how its scales {N, K / group} are laid out on it."""
    rows, depth = lens(x)
    group = min(group, depth)
    sizes = (rows, depth // group, group)
    return b.view(x, sizes), by_row(b, sizes)


@converter(decomposed.quantize_per_channel_group.default)
def quantize_per_channel_group(
    b: Builder, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int, dtype: torch.dtype,
    group_size: int,
) -> Value:  # fmt: skip
    operator = decomposed.quantize_per_channel_group.default
    made = at_compile_time(b, operator, input, scales, zero_points, quant_min, quant_max, dtype, group_size)
    if made is not None:
        return made
    x, place = _grouped(b, input, group_size)
    return b.view(rounded(b, x, scales, zero_points, place, quant_min, quant_max, dtype), lens(input))


@converter(decomposed.dequantize_per_channel_group.default)
def dequantize_per_channel_group(
    b: Builder, input: Value, scales: Value, zero_points: Value | None, quant_min: int, quant_max: int,
    dtype: torch.dtype, group_size: int, output_dtype: torch.dtype,
) -> Value:  # fmt: skip
    """Codes that are known and of 4 bits are kept so: two a byte, which is how the engine multiplies by them."""
    codes, place = _grouped(b, _packed(b, input, quant_min, quant_max), group_size)
    return b.view(dequantized(b, codes, scales, zero_points, place, output_dtype), lens(input))


def _packed(b: Builder, codes: Value, low: int, high: int) -> Value:
    """Codes of -8 to 7 or less as what unpacks them from bytes."""
    constant = known(codes)
    if constant is None or constant.dtype != torch.int8 or (low, high) != (-8, 7) or constant.shape[-1] % 2:
        return codes
    halves = constant.numpy().view(np.uint8) & 15
    return b.unpack_int4(b.module.add_literal((halves[:, ::2] | halves[:, 1::2] << 4).view(np.int8)), axis=1)


# ---- one scale a token ----


@converter(decomposed.choose_qparams_per_token.default)
def choose_qparams_per_token(b: Builder, input: Value, dtype: torch.dtype) -> tuple[Value, Value]:
    """Scales {.., 1} for codes round 0."""
    if dtype != torch.int8:
        raise UnsupportedError(f"choose_qparams_per_token for {dtype}")
    top = b.reduce_max(b.abs(input), axes=[rank(input) - 1])
    wide = b.cast(top, torch.float32) if dtype_of(input) == torch.float16 else top
    scale = b.div(b.max(wide, b.full(1e-5, dtype_of(wide), lens(wide))), b.full(127, dtype_of(wide), lens(wide)))
    return b.cast(scale, torch.float64), b.full(0, torch.int64, lens(scale))


@converter(
    decomposed.choose_qparams_per_token_asymmetric.default,
    decomposed._choose_qparams_per_token_asymmetric_impl.default,
)
def choose_qparams_per_token_asymmetric(b: Builder, input: Value, dtype: torch.dtype) -> tuple[Value, Value]:
    """Scales and zero points {.., 1} by which the range of each token fills int8."""
    own, last = dtype_of(input), [rank(input) - 1]
    low, high = b.reduce_min(input, axes=last), b.reduce_max(input, axes=last)
    zeros = b.full(0, own, lens(low))
    low, high = b.min(low, zeros), b.max(high, zeros)

    def all_of(value: float) -> Value:
        return b.full(value, own, lens(low))

    scale = b.max(b.div(b.sub(high, low), all_of(255)), all_of(EPSILON))
    least, largest = b.div(low, scale), b.div(high, scale)
    from_low = b.greater(b.add(b.add(all_of(-128), least), b.add(all_of(127), largest)), zeros)
    zero = b.where(b.cast(from_low, torch.bool), b.sub(all_of(-128), least), b.sub(all_of(127), largest))
    return b.cast(scale, torch.float64), b.cast(b.nearbyint(_within(b, zero, -128, 127)), torch.int64)


@converter(decomposed.quantize_per_token.default)
def quantize_per_token(
    b: Builder, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Value:
    return rounded(b, input, scales, zero_points, by_row(b, lens(input)), quant_min, quant_max, dtype)


def rounded(
    b: Builder, x: Value, scale: Value, zero: Value, place: Place, low: int, high: int, dtype: torch.dtype
) -> Value:
    """clamp(round(x * (1 / scale) + zero), low, high): here torch rounds after it adds the zero point."""
    step = place.of(b, scale, torch.float32)
    y = b.mul(b.cast(x, torch.float32), b.div(b.full(1, torch.float32, lens(step)), step))
    constant = known(zero)
    if constant is None or constant.any():
        y = b.add(y, place.of(b, zero, torch.float32))
    return b.cast(_within(b, b.nearbyint(y), low, high), dtype)


@converter(decomposed.dequantize_per_token.default)
def dequantize_per_token(
    b: Builder, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int, dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Value:  # fmt: skip
    return dequantized(b, input, scales, zero_points, by_row(b, lens(input)), output_dtype)


# ---- quantized and dequantized at once ----


def through(b: Builder, x: Value, scale: Any, zero: Any, place: Place, low: int, high: int) -> Value:
    """`x` as the codes from low to high that are nearest; in types that hold no such codes, by plain arithmetic."""
    dtype = next((d for d, (least, most) in WIDTHS.items() if least <= low and high <= most), None)
    if dtype is None:
        raise UnsupportedError(f"fake quantization to codes from {low} to {high}")
    codes = quantized(b, x, scale, zero, place, low, high, dtype)
    return dequantized(b, codes, scale, zero, place, dtype_of(x))


@converter(
    aten.fake_quantize_per_tensor_affine.default, aten.fake_quantize_per_tensor_affine.tensor_qparams,
)  # fmt: skip
def fake_quantize_per_tensor_affine(
    b: Builder, input: Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Value:
    return through(b, input, scale, zero_point, everywhere(b, lens(input)), quant_min, quant_max)


@converter(
    named(aten.fake_quantize_per_channel_affine.default, scale="scales", zero_point="zero_points"),
    decomposed.fake_quant_per_channel.default,
)
def fake_quantize_per_channel_affine(
    b: Builder, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    return through(b, input, scales, zero_points, along(b, lens(input), axis), quant_min, quant_max)


@converter(aten.fake_quantize_per_tensor_affine_cachemask.default)
def fake_quantize_per_tensor_affine_cachemask(
    b: Builder, input: Value, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """The result, and where the input was in range: what a gradient would need."""
    y = fake_quantize_per_tensor_affine(b, input, scale, zero_point, quant_min, quant_max)
    return y, _in_range(b, input, scale, zero_point, everywhere(b, lens(input)), quant_min, quant_max)


@converter(named(aten.fake_quantize_per_channel_affine_cachemask.default, scale="scales", zero_point="zero_points"))
def fake_quantize_per_channel_affine_cachemask(
    b: Builder, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    y = fake_quantize_per_channel_affine(b, input, scales, zero_points, axis, quant_min, quant_max)
    return y, _in_range(b, input, scales, zero_points, along(b, lens(input), axis), quant_min, quant_max)


@converter(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def fake_quantize_by_tensors(
    b: Builder, input: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: int,
    quant_max: int,
) -> tuple[Value, Value]:  # fmt: skip
    place = everywhere(b, lens(input))
    enabled = place.of(b, fake_quant_enabled, torch.bool)
    y = fake_quantize_per_tensor_affine(b, input, scale, zero_point, quant_min, quant_max)
    inside = _in_range(b, input, scale, zero_point, place, quant_min, quant_max)
    return b.where(enabled, y, input), b.where(enabled, inside, b.full(True, torch.bool, lens(input)))


def _in_range(b: Builder, x: Value, scale: Any, zero: Any, place: Place, low: int, high: int) -> Value:
    step, point = (place.of(b, p, dtype_of(x)) for p in (scale, zero))
    whole = b.add(b.nearbyint(b.div(x, step)), point)
    least, most = (b.full(v, dtype_of(x), lens(x)) for v in (low, high))
    outside = b.logical_or(b.cast(b.less(whole, least), torch.bool), b.cast(b.greater(whole, most), torch.bool))
    return b.cast(b.not_(outside), torch.bool)


# ---- products of integers ----


@converter(aten._int_mm.default)
def int_mm(b: Builder, input: Value, mat2: Value) -> Value:
    """The product of two matrices of int8 in int32."""
    return b.quant_dot(input, mat2)


@converter(decomposed.convert_element_type.no_fuse)
def convert_element_type(b: Builder, input: Value, dtype: torch.dtype) -> Value:
    return b.cast(input, dtype)


# ---- torchao's ----


def blocks(b: Builder, sizes: Sequence[int], block: Sequence[int]) -> tuple[tuple[int, ...], Place]:
    """The lens that give every block axes of its own, and how one number a block lies on them."""
    split: list[int] = []
    own: list[int] = []
    for n, size in zip(sizes, block, strict=True):
        within = [size] if size in (1, n) else [n // size, size]
        split += [n] if size in (1, n) else within
        own += [n // size] if size in (1, n) else [n // size, 1]
    return tuple(split), Place(tuple(own), lambda p: b.multibroadcast(p, out_lens=split))


NUMBERED = {5: torch.float16, 6: torch.float32, 7: torch.float64, 15: torch.bfloat16}
"""Types as a schema's default writes them."""


def dequantize_affine(
    b: Builder, input: Value, block_size: Sequence[int], scale: Value, zero_point: Value | None,
    input_dtype: torch.dtype, quant_min: Bound | None = None, quant_max: Bound | None = None,
    output_dtype: torch.dtype | int = torch.float32,
) -> Value:  # fmt: skip
    """Blocks of codes with a scale each; those of 4 bits stay so where weights have blocks along the depth."""
    sizes = lens(input)
    split, place = blocks(b, sizes, block_size)
    if len(split) == 3 and len(sizes) == 2 and (quant_min, quant_max) == (-8, 7):
        input = _packed(b, input, -8, 7)
    real = NUMBERED[output_dtype] if isinstance(output_dtype, int) else output_dtype
    return b.view(dequantized(b, b.view(input, split), scale, zero_point, place, real), sizes)


@cache
def declare_torchao() -> None:
    """Register the converters of torchao's own operators, which exist where it was imported."""
    for library in (torch.ops.torchao, torch.ops.pt2e_quant):
        if hasattr(library, "dequantize_affine"):
            converter(library.dequantize_affine.default)(dequantize_affine)
