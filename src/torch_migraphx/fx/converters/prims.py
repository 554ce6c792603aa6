"""Prims: torch's smallest operators, whose operands have one type and one shape already."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Operand, Value, dtype_of, lens
from torch_migraphx.fx.converter import CONVERTERS, converter, named
from torch_migraphx.fx.converters import (  # noqa: F401  # declare what is served here by another name
    activation,
    one_to_one,
)
from torch_migraphx.fx.converters.creation import zeros
from torch_migraphx.fx.converters.pointwise import pow as power
from torch_migraphx.fx.converters.pointwise import signbit, where
from torch_migraphx.fx.converters.reduction import reduced, variance
from torch_migraphx.fx.converters.shape import as_strided, cat, flip, permute, reshape, same, squeeze

aten = torch.ops.aten
prims = torch.ops.prims

SAME_AS = {
    **{prim: getattr(aten, prim._schema.name.partition("::")[2]).default for prim in (
        prims.abs.default, prims.acos.default, prims.acosh.default, prims.asin.default, prims.asinh.default,
        prims.atan.default, prims.atanh.default, prims.atan2.default, prims.bitwise_not.default, prims.ceil.default,
        prims.cos.default, prims.cosh.default, prims.digamma.default, prims.erf.default, prims.erfc.default,
        prims.exp.default, prims.expm1.default, prims.floor.default, prims.fmax.default, prims.fmin.default,
        prims.hypot.default,
        prims.lgamma.default, prims.log.default, prims.log10.default, prims.log1p.default, prims.log2.default,
        prims.maximum.default, prims.minimum.default, prims.neg.default, prims.reciprocal.default,
        prims.round.default, prims.rsqrt.default, prims.sign.default, prims.sin.default,
        prims.sinh.default, prims.sqrt.default, prims.tan.default, prims.tanh.default, prims.trunc.default,
    )},
    **{prim: getattr(aten, prim._schema.name.partition("::")[2]).Tensor for prim in (
        prims.add.default, prims.bitwise_and.default, prims.bitwise_or.default, prims.bitwise_xor.default,
        prims.eq.default, prims.fmod.default, prims.ge.default, prims.gt.default, prims.le.default,
        prims.lt.default, prims.mul.default, prims.ne.default, prims.remainder.default, prims.sub.default,
    )},
    prims.erf_inv.default: aten.erfinv.default,
    prims.fill.default: aten.fill.Scalar,
    prims.shift_left.default: aten.bitwise_left_shift.Tensor,
    prims.shift_right_arithmetic.default: aten.bitwise_right_shift.Tensor,
}  # fmt: skip
"""Prims that are an ATen operator on operands of one type and one shape."""

for _prim, _operator in SAME_AS.items():
    converter(_prim)(CONVERTERS[_operator].function)


converter(named(prims.pow.default, other="exponent"))(power)


@converter(prims.signbit.default)
def declared_signbit(b: Builder, input: Value) -> Value:
    """Of the input's type, as Prims declare it."""
    return b.cast(signbit(b, input), dtype_of(input))


@converter(prims.exp2.default)
def exp2(b: Builder, input: Value) -> Value:
    return power(b, 2.0, input)


@converter(prims.cbrt.default)
def cbrt(b: Builder, input: Value) -> Value:
    """The real cube root, negative where the input is."""
    wide = b.cast(input, torch.float64)
    root = b.mul(b.sign(wide), b.pointwise("pow", b.abs(wide), 1 / 3))
    return b.cast(root, dtype_of(input))


@converter(prims.div.default)
def div(b: Builder, input: Operand, other: Operand) -> Value:
    """Of integers the quotient is truncated."""
    return b.pointwise("div", input, other)


converter(named(prims.where.default, pred="condition", a="x", b="y"))(where)


# ---- shapes ----


@converter(named(prims.broadcast_in_dim.default, a="input"))
def broadcast_in_dim(b: Builder, input: Value, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Value:
    """Dimension k of the input becomes dimension broadcast_dimensions[k], and is repeated where it is 1."""
    own = dict(zip(broadcast_dimensions, lens(input), strict=True))
    return b.expand(b.view(input, [own.get(d, 1) for d in range(len(shape))]), shape)


@converter(named(prims.collapse.default, a="input"), named(prims.collapse_view.default, a="input"))
def collapse(b: Builder, input: Value, start: int, end: int) -> Value:
    """Dimensions start to end, which is one of them, as one."""
    sizes = lens(input) or (1,)
    return b.view(input, [*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]])


@converter(named(prims.split_dim.default, a="input"))
def split_dim(b: Builder, input: Value, dim: int, outer_length: int) -> Value:
    sizes = lens(input)
    return b.view(input, [*sizes[:dim], outer_length, sizes[dim] // outer_length, *sizes[dim + 1 :]])


converter(named(prims.squeeze.default, a="input", dimensions="dim"))(squeeze)
converter(named(prims.transpose.default, a="input"))(permute)
converter(named(prims.reshape.default, a="input"))(reshape)
converter(named(prims.rev.default, a="input"))(flip)
converter(prims.cat.default)(cat)
converter(named(prims.as_strided.default, a="input"))(as_strided)
converter(named(prims.view_of.default, a="input"), prims.clone.default)(same)


@converter(named(prims.copy_strided.default, a="input"))
def copy_strided(b: Builder, input: Value, stride: Sequence[int]) -> Value:
    """The values themselves: where they lie in memory is the engine's own affair."""
    return input


@converter(named(prims.device_put.default, a="input"))
def device_put(b: Builder, input: Value) -> Value:
    """The tensor where it is: one that goes to another device is refused at the border."""
    return input


# ---- reductions ----


def _reduction(operator: str) -> Callable[..., Value]:
    def reduce(b: Builder, inp: Value, dims: Sequence[int], output_dtype: torch.dtype | None = None) -> Value:
        """The result has the input's type unless `output_dtype` is given; no dimensions mean none."""
        x = b.cast(inp, output_dtype or dtype_of(inp))
        return reduced(b, operator, x, dims, False) if dims else x

    return reduce


for _prim, _word in ((prims.sum, "sum"), (prims.prod, "prod"), (prims.amax, "max"), (prims.amin, "min")):
    converter(_prim.default)(_reduction(f"reduce_{_word}"))


@converter(prims.var.default)
def var(
    b: Builder,
    inp: Value,
    dims: Sequence[int],
    correction: float | None = 1,
    output_dtype: torch.dtype | None = None,
) -> Value:
    return b.cast(variance(b, inp, dims, correction, False), output_dtype or dtype_of(inp))


# ---- tensors from numbers ----


@converter(named(prims.empty_strided.default, shape="size"), named(prims.empty_permuted.default, shape="size"))
def empty(
    b: Builder,
    size: list[int],
    dtype: torch.dtype,
    strides: Sequence[int] = (),
    physical_layout: Sequence[int] = (),
) -> Value:
    return zeros(b, size, dtype)


@converter(prims.maximum_value.default)
def maximum_value(b: Builder, dtype: torch.dtype) -> bool | int | float:
    return dtype == torch.bool or (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


@converter(prims.minimum_value.default)
def minimum_value(b: Builder, dtype: torch.dtype) -> bool | int | float:
    return dtype != torch.bool and (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).min


@converter(prims.scalar_tensor.default)
def scalar_tensor(b: Builder, s: Any, dtype: torch.dtype | None = None) -> Value:
    return b.tensor(s, dtype)
