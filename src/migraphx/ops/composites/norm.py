"""Normalizations and statistics, written in reductions and pointwise operators.

half, bf16 and fp8 are computed in float and rounded once, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction
from migraphx.ops.composites.activation import shifted

Value = Instruction


def widened(b: Builder, x: Value) -> Value:
    """Narrow floats as float."""
    return b.cast(x, dtypes.from_numpy(dtypes.accumulator(x.shape.type)))


def affine(b: Builder, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """x * scale + bias, both broadcast to x; either may be absent."""
    if scale is not None:
        x = b.mul(x, b.broadcast_to(b.cast(scale, x.shape.type), x.shape.lens))
    if bias is not None:
        x = b.add(x, b.broadcast_to(b.cast(bias, x.shape.type), x.shape.lens))
    return x


def per_channel(b: Builder, values: Value | None, ndim: int) -> Value | None:
    """{C} as {C, 1, ...}, which broadcasts along dimension 1 of `ndim`."""
    if values is None or ndim <= 2:
        return values
    return b.unsqueeze(values, axes=tuple(range(1, ndim - 1)))


def front_axes(x: Value, axes: Sequence[int]) -> tuple[int, ...]:
    """Axes counted from the front, in order; all where there are none. ValueError for one that x does not have."""
    for axis in axes:
        if not -x.shape.ndim <= axis < x.shape.ndim:
            raise ValueError(f"axis {axis} is not in a rank of {x.shape.ndim}")
    return tuple(sorted(a % x.shape.ndim for a in axes)) or tuple(range(x.shape.ndim))


def without(b: Builder, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """x without its dimensions `axes` (from the front) of length 1, unless they are kept."""
    return x if keepdims or not axes else b.squeeze(x, axes=tuple(axes))


def centred(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """x - mean(x)"""
    return b.sub(x, b.broadcast_to(b.reduce_mean(x, axes=tuple(axes)), x.shape.lens))


def standardized(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon)"""
    d = centred(b, x, axes)
    variance = b.reduce_mean(b.mul(d, d), axes=tuple(axes))
    return b.mul(d, b.broadcast_to(b.rsqrt(shifted(b, variance, epsilon)), x.shape.lens))


@composite
def layer_norm(
    b: Builder,
    x: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    axes: Sequence[int] = (-1,),
    epsilon: float = 1e-5,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the last dimensions `axes` (1607.06450)."""
    wide = widened(b, x)
    return b.cast(affine(b, standardized(b, wide, front_axes(x, axes), epsilon), scale, bias), x.shape.type)


@composite
def rms_norm(
    b: Builder, x: Value, scale: Value | None = None, *, axes: Sequence[int] = (-1,), epsilon: float = 1e-6
) -> Value:
    """x / sqrt(mean(x^2) + epsilon) * scale over the last dimensions `axes` (1910.07467)."""
    wide = widened(b, x)
    square = b.reduce_mean(b.mul(wide, wide), axes=front_axes(x, axes))
    normal = b.mul(wide, b.broadcast_to(b.rsqrt(shifted(b, square, epsilon)), x.shape.lens))
    return b.cast(affine(b, normal, scale, None), x.shape.type)


@composite
def group_norm(
    b: Builder,
    x: Value,
    scale: Value | None = None,
    bias: Value | None = None,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
) -> Value:
    """`num_groups` groups of channels of x {N, C, ...}, each standardized, times scale {C} plus bias {C}."""
    lens = x.shape.lens
    if len(lens) < 2 or num_groups < 1 or lens[1] % num_groups:
        raise ValueError(f"group_norm: {num_groups} groups do not divide the channels of {x.shape}")
    grouped = b.reshape(widened(b, x), dims=(lens[0], num_groups, lens[1] // num_groups, *lens[2:]))
    normal = standardized(b, grouped, range(2, len(lens) + 1), epsilon)
    y = b.reshape(normal, dims=lens)
    y = affine(b, y, per_channel(b, scale, len(lens)), per_channel(b, bias, len(lens)))
    return b.cast(y, x.shape.type)


@composite
def instance_norm(
    b: Builder, x: Value, scale: Value | None = None, bias: Value | None = None, *, epsilon: float = 1e-5
) -> Value:
    """Each channel of each item of x {N, C, ...} standardized, times scale {C} plus bias {C} (1607.08022)."""
    ndim = x.shape.ndim
    normal = standardized(b, widened(b, x), range(2, ndim), epsilon)
    return b.cast(affine(b, normal, per_channel(b, scale, ndim), per_channel(b, bias, ndim)), x.shape.type)


@composite
def batchnorm(
    b: Builder,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with given statistics {C} (1502.03167, inference).

    Written as x * factor + term, of which constant statistics leave two constants.
    """
    factor = b.rsqrt(shifted(b, widened(b, variance), epsilon))
    if scale is not None:
        factor = b.mul(factor, b.cast(scale, factor.shape.type))
    term = b.neg(b.mul(b.cast(mean, factor.shape.type), factor))
    if bias is not None:
        term = b.add(term, b.cast(bias, factor.shape.type))
    ndim, wide = x.shape.ndim, b.cast(x, factor.shape.type)
    return b.cast(affine(b, wide, per_channel(b, factor, ndim), per_channel(b, term, ndim)), x.shape.type)


@composite
def batchnorm_training(
    b: Builder, x: Value, scale: Value | None = None, bias: Value | None = None, *, epsilon: float = 1e-5
) -> tuple[Value, Value, Value]:
    """Batch normalization with the batch's own statistics: (y, mean {C}, biased variance {C})."""
    wide, ndim = widened(b, x), x.shape.ndim
    axes = (0, *range(2, ndim))
    mean = b.reduce_mean(wide, axes=axes)
    d = b.sub(wide, b.broadcast_to(mean, x.shape.lens))
    variance = b.reduce_mean(b.mul(d, d), axes=axes)
    normal = b.mul(d, b.broadcast_to(b.rsqrt(shifted(b, variance, epsilon)), x.shape.lens))
    y = affine(b, normal, per_channel(b, scale, ndim), per_channel(b, bias, ndim))
    return b.cast(y, x.shape.type), b.squeeze(mean, axes=axes), b.squeeze(variance, axes=axes)


@composite
def mean_variance_normalization(
    b: Builder, x: Value, *, axes: Sequence[int] = (0, 2, 3), epsilon: float = 1e-9
) -> Value:
    """(x - mean) / (sqrt(variance) + epsilon) over `axes` (ONNX MeanVarianceNormalization)."""
    wide, axes = widened(b, x), front_axes(x, axes)
    d = centred(b, wide, axes)
    deviation = shifted(b, b.sqrt(b.reduce_mean(b.mul(d, d), axes=axes)), epsilon)
    return b.cast(b.div(d, b.broadcast_to(deviation, x.shape.lens)), x.shape.type)


@composite
def norm(b: Builder, x: Value, *, p: float = 2.0, axes: Sequence[int] = (), keepdims: bool = False) -> Value:
    """(sum |x|^p)^(1/p) over `axes`; inf the largest |x|, -inf the smallest, 0 how many are not 0."""
    axes, wide = front_axes(x, axes), widened(b, x)
    if p == 2:
        y = b.sqrt(b.reduce_sum(b.mul(wide, wide), axes=axes))
    elif p == 0:
        y = b.reduce_sum(b.cast(b.not_equal(wide, b.full(0.0, wide)), wide.shape.type), axes=axes)
    elif math.isinf(p):
        size = b.abs(wide)
        y = b.reduce_max(size, axes=axes) if p > 0 else b.reduce_min(size, axes=axes)
    elif p == 1:
        y = b.reduce_sum(b.abs(wide), axes=axes)
    else:
        total = b.reduce_sum(b.pow(b.abs(wide), b.full(p, wide)), axes=axes)
        y = b.pow(total, b.full(1 / p, total))
    return without(b, b.cast(y, x.shape.type), axes, keepdims)


@composite
def normalize(b: Builder, x: Value, *, p: float = 2.0, axis: int = 1, epsilon: float = 1e-12) -> Value:
    """x / max(norm(x), epsilon) along `axis` (torch's normalize; ONNX LpNormalization: epsilon 0)."""
    length = b.norm(x, p=p, axes=(axis,), keepdims=True)
    return b.div(x, b.broadcast_to(b.max(length, b.full(epsilon, length)), x.shape.lens))


@composite
def var(b: Builder, x: Value, *, axes: Sequence[int] = (), correction: float = 1, keepdims: bool = False) -> Value:
    """sum (x - mean)^2 / (N - correction) over `axes` (aten::var); NaN where N = 1 and correction = 1."""
    axes, wide = front_axes(x, axes), widened(b, x)
    d = centred(b, wide, axes)
    count = max(math.prod(x.shape.lens[a] for a in axes) - correction, 0)
    total = b.reduce_sum(b.mul(d, d), axes=axes)
    return without(b, b.cast(b.div(total, b.full(count, total)), x.shape.type), axes, keepdims)


@composite
def std(b: Builder, x: Value, *, axes: Sequence[int] = (), correction: float = 1, keepdims: bool = False) -> Value:
    """sqrt(var(x)) (aten::std)"""
    return b.sqrt(b.var(x, axes=axes, correction=correction, keepdims=keepdims))


@composite
def logsumexp(b: Builder, x: Value, *, axes: Sequence[int] = (), keepdims: bool = False) -> Value:
    """log(sum(exp(x))) over `axes`, without overflow: inf and rows of -inf as they should be."""
    axes, wide = front_axes(x, axes), widened(b, x)
    top = b.reduce_max(wide, axes=axes)
    top = b.where(b.isinf(top), b.full(0.0, top), top)  # inf - inf would be NaN
    total = b.reduce_sum(b.exp(b.sub(wide, b.broadcast_to(top, x.shape.lens))), axes=axes)
    return without(b, b.cast(b.add(b.log(total), top), x.shape.type), axes, keepdims)
