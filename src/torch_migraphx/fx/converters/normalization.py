"""Batch, layer, group, instance and RMS normalization."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten


def _batch_norm(
    b: Builder,
    x: Value,
    mean: Value | None,
    var: Value | None,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    eps: float,
) -> Value:
    if training or mean is None or var is None:
        return b.batchnorm_training(x, weight, bias, epsilon=eps)[0]
    return b.batchnorm(x, weight, bias, mean, var, epsilon=eps)


@converter(acc_ops.batch_norm)
def batch_norm(
    b: Builder,
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None = None,
    bias: Value | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    """With `training`, the batch's own statistics; the tracer lets that through only where none are kept."""
    if training and running_mean is not None:
        raise UnsupportedError("batch_norm in training mode updates its running statistics")
    return _batch_norm(b, input, running_mean, running_var, weight, bias, training, eps)


def _saved(b: Builder, x: Value) -> tuple[Value, Value]:
    """What ATen gives beside an answer whose statistics were not computed: two empty tensors."""
    empty = b.literal(torch.empty(0, dtype=dtype_of(x)))
    return empty, empty


@converter(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    y = _batch_norm(b, input, running_mean, running_var, weight, bias, False, eps)
    return (y, *_saved(b, input))


@converter(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    if training and running_mean is None and running_var is None:
        return _with_statistics(b, input, weight, bias, eps)[:3]
    if training:
        raise UnsupportedError("native_batch_norm in training mode writes its running statistics in place")
    return (_batch_norm(b, input, running_mean, running_var, weight, bias, False, eps), *_saved(b, input))


def _with_statistics(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """(y, mean, 1 / sqrt(variance + eps), variance), of the batch's own statistics."""
    y, mean, var = b.batchnorm_training(x, weight, bias, epsilon=eps)
    return y, mean, b.rsqrt(b.pointwise("add", var, eps)), var


@converter(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """(y, saved mean, saved 1/sqrt(var + eps), new running mean, new running variance)."""
    if not training:
        y = _batch_norm(b, input, running_mean, running_var, weight, bias, False, eps)
        return (y, *_saved(b, input), running_mean, running_var)
    y, mean, scale, var = _with_statistics(b, input, weight, bias, eps)
    sizes = lens(input)
    count = sizes[0]
    for n in sizes[2:]:
        count *= n
    unbiased = b.pointwise("div", b.pointwise("mul", var, count), max(count - 1, 1))
    return y, mean, scale, _mixed(b, running_mean, mean, momentum), _mixed(b, running_var, unbiased, momentum)


def _mixed(b: Builder, old: Value, new: Value, momentum: float) -> Value:
    kept = b.pointwise("mul", old, 1 - momentum)
    return b.add(kept, b.pointwise("mul", b.cast(new, dtype_of(old)), momentum))


@converter(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    b: Builder, input: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, Value, Value]:
    return _with_statistics(b, input, weight, bias, eps)[:3]


@converter(acc_ops.layer_norm, aten.layer_norm.default)
def layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:
    normed = b.layer_norm(input, weight, bias, axes=_last(len(normalized_shape)), epsilon=eps)
    return b.cast(normed, dtype_of(input))  # weights may be wider, as in autocast


def _last(n: int) -> list[int]:
    return list(range(-n, 0))


@converter(aten.native_layer_norm.default)
def native_layer_norm(
    b: Builder, input: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """(y, mean, 1 / sqrt(variance + eps)); what nobody reads is dead code."""
    along = [rank(input) + d for d in _last(len(normalized_shape))]
    wide = b.cast(input, torch.float32) if dtype_of(input) in (torch.float16, torch.bfloat16) else input
    var = b.var(wide, axes=along, correction=0, keepdims=True)
    traced = b.node.meta.get("val") if b.node is not None else None  # torch's kernels differ in the statistics' type
    kind = traced[1].dtype if traced is not None else dtype_of(wide)
    mean, scale = b.reduce_mean(wide, axes=along), b.rsqrt(b.pointwise("add", var, eps))
    return layer_norm(b, input, normalized_shape, weight, bias, eps), b.cast(mean, kind), b.cast(scale, kind)


@converter(acc_ops.rms_norm, aten.rms_norm.default)
def rms_norm(
    b: Builder, input: Value, normalized_shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    epsilon = torch.finfo(dtype_of(input)).eps if eps is None else eps
    return b.rms_norm(input, weight, axes=_last(len(normalized_shape)), epsilon=epsilon)


@converter(acc_ops.group_norm, aten.group_norm.default)
def group_norm(
    b: Builder,
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:
    return b.group_norm(input, weight, bias, num_groups=num_groups, epsilon=eps)


@converter(aten.native_group_norm.default)
def native_group_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """(y, mean {N, group}, 1 / sqrt(variance + eps) {N, group})."""
    flat = b.view(input, [N, group, -1 if not N * group else C // group * HxW])
    mean = b.squeeze(b.reduce_mean(flat, axes=[2]), axes=[2])
    var = b.var(flat, axes=[2], correction=0, keepdims=False)
    scale = b.rsqrt(b.pointwise("add", var, eps))
    return group_norm(b, input, group, weight, bias, eps), mean, scale


@converter(acc_ops.instance_norm)
def instance_norm(
    b: Builder,
    input: Value,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    weight: Value | None = None,
    bias: Value | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value:
    if not use_input_stats:
        return _batch_norm(b, input, running_mean, running_var, weight, bias, False, eps)
    if running_mean is not None:
        raise UnsupportedError("instance_norm updates its running statistics")
    return b.instance_norm(input, weight, bias, epsilon=eps)


@converter(acc_ops.local_response_norm)
def local_response_norm(
    b: Builder, input: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """torch's window starts size // 2 channels before, one earlier than ONNX's where `size` is even."""
    if size % 2 == 1:
        return b.lrn(input, alpha=float(alpha), beta=float(beta), bias=float(k), size=size)
    n, channels = rank(input), lens(input)[1]
    before, behind = [0] * n, [0] * n
    before[1], behind[1] = size // 2, (size - 1) // 2
    wide = b.pad(b.mul(input, input), pads=[*before, *behind])
    total = b.cut(wide, 1, 0, channels)
    for j in range(1, size):
        total = b.add(total, b.cut(wide, 1, j, j + channels))
    inner = b.pointwise("add", b.pointwise("mul", total, alpha / size), k)
    return b.div(input, b.pointwise("pow", inner, beta))
