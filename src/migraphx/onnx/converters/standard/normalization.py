"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter
from migraphx.ops.composites.activation import scaled
from migraphx.ops.composites.norm import widened

Value = Instruction


@converter("BatchNormalization")
def batch_normalization(
    b: OnnxBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int = 0,
    is_test: int = 1,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """With the given statistics; in training mode with the batch's own, and the running ones follow."""
    if not spatial:
        raise OnnxError("spatial=0 is not supported")
    channels = x.shape.lens[1] if x.shape.ndim > 1 else 1
    for what, value in (("scale", scale), ("bias", bias), ("mean", mean), ("var", var)):
        expect(value, what, channels)
    if not training_mode:
        return (b.batchnorm(x, scale, bias, mean, var, epsilon=epsilon),)
    y, own_mean, own_var = b.batchnorm_training(x, scale, bias, epsilon=epsilon)
    running = []
    for old, own in ((mean, own_mean), (var, own_var)):
        fresh = b.cast(scaled(b, own, 1 - momentum), old.shape.type)
        running.append(b.add(scaled(b, old, momentum), fresh))
    return (y, *running)


@converter("InstanceNormalization")
def instance_normalization(b: OnnxBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float) -> Value:
    if x.shape.ndim < 3:
        raise OnnxError(f"takes an input of three dimensions or more, got lens {x.shape.lens}")
    expect(scale, "scale", x.shape.lens[1])
    expect(bias, "bias", x.shape.lens[1])
    return b.instance_norm(x, scale, bias, epsilon=epsilon)


@converter("GroupNormalization")
def group_normalization_18(
    b: OnnxBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float, num_groups: int
) -> Value:
    """scale and bias have one value a group."""
    return grouped_norm(b, x, scale, bias, num_groups, epsilon, num_groups)


@converter("GroupNormalization", since=21)
def group_normalization(
    b: OnnxBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float, num_groups: int, stash_type: int
) -> Value:
    """scale and bias have one value a channel."""
    return grouped_norm(b, x, scale, bias, num_groups, epsilon, x.shape.lens[1] if x.shape.ndim > 1 else 0)


def grouped_norm(b: OnnxBuilder, x: Value, scale: Value, bias: Value, groups: int, epsilon: float, count: int) -> Value:
    """`count`: how many values scale and bias have at this opset: one a group or one a channel; files mix these up."""
    if x.shape.ndim < 3:
        raise OnnxError(f"takes an input of three dimensions or more, got lens {x.shape.lens}")
    channels = x.shape.lens[1]
    if groups < 1 or not channels or channels % groups:
        raise OnnxError(f"{groups} groups do not divide the channels of {x.shape.lens}")
    given = scale.shape.elements
    if given != count and given in (groups, channels):
        b.deviates(f"its scale has {given} values, must have {count}")
        count = given
    expect(scale, "scale", count)
    expect(bias, "bias", count)
    wide = [b.repeat_interleave(v, repeats=channels // count, axis=0) for v in (scale, bias)]
    return b.group_norm(x, *(wide if count < channels else (scale, bias)), num_groups=groups, epsilon=epsilon)


@converter("LayerNormalization")
def layer_normalization(
    b: OnnxBuilder,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: int,
) -> Value | tuple[Value, ...]:
    """Over the dimensions from `axis` on. The statistics are outputs, in the type `stash_type`."""
    axes = tuple(range(axis_in(axis, x.shape.ndim), x.shape.ndim))
    if stash_type == 0:
        b.deviates("stash_type is no type; statistics are computed in float")
    y = b.layer_norm(x, scale, bias, axes=axes, epsilon=epsilon)
    if not b.wants(1) and not b.wants(2):
        return y
    return y, *statistics(b, b.cast(x, element_type(stash_type or 1)), axes, epsilon)


def statistics(b: OnnxBuilder, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value]:
    """The mean of x, and 1 / sqrt(variance + epsilon)."""
    mean = b.reduce_mean(x, axes=axes)
    return mean, inverse_deviation(b, b.sub(x, b.broadcast_to(mean, x.shape.lens)), axes, epsilon)


def inverse_deviation(b: OnnxBuilder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """1 / sqrt(mean(x^2) + epsilon)"""
    square = b.reduce_mean(b.mul(x, x), axes=axes)
    return b.rsqrt(b.add(square, b.full(epsilon, square)))


@converter("RMSNormalization")
def rms_normalization(b: OnnxBuilder, x: Value, scale: Value, *, axis: int, epsilon: float, stash_type: int) -> Value:
    axes = tuple(range(axis_in(axis, x.shape.ndim), x.shape.ndim))
    return b.rms_norm(x, scale, axes=axes, epsilon=epsilon)


@converter("LpNormalization")
def lp_normalization(b: OnnxBuilder, x: Value, *, axis: int, p: int) -> Value:
    """x / norm(x), 0 where the norm is 0."""
    if p not in (1, 2):
        raise OnnxError(f"p must be 1 or 2, is {p}")
    wide = widened(b, x)
    length = b.norm(wide, p=float(p), axes=(axis_in(axis, x.shape.ndim),), keepdims=True)
    length = b.where(b.equal(length, b.full(0.0, length)), b.full(1.0, length), length)
    return b.cast(b.div(wide, b.broadcast_to(length, x.shape.lens)), x.shape.type)


@converter("MeanVarianceNormalization")
def mean_variance_normalization(b: OnnxBuilder, x: Value, *, axes: Sequence[int]) -> Value:
    return b.mean_variance_normalization(x, axes=tuple(axes))


@converter("LRN")
def lrn(b: OnnxBuilder, x: Value, *, alpha: float, beta: float, bias: float, size: int) -> Value:
    return b.lrn(x, alpha=alpha, beta=beta, bias=bias, size=size)
