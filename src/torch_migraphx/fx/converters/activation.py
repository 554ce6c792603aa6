"""Activation functions, softmax."""

from __future__ import annotations

import math

import torch

from torch_migraphx.fx.builder import Builder, UnsupportedError, Value, axis, dtype_of, lens, rank
from torch_migraphx.fx.converter_registry import converter
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten


@converter(acc_ops.relu, aten.relu.default)
def relu(b: Builder, input: Value) -> Value:
    return b.relu(input)


@converter(acc_ops.hardtanh, aten.hardtanh.default)
def hardtanh(b: Builder, input: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return b.pointwise("clip", input, min_val, max_val, dtype=dtype_of(input))


@converter(acc_ops.relu6, aten.relu6.default)
def relu6(b: Builder, input: Value) -> Value:
    return hardtanh(b, input, 0, 6)


@converter(acc_ops.leaky_relu, aten.leaky_relu.default)
def leaky_relu(b: Builder, input: Value, negative_slope: float = 0.01) -> Value:
    return b.leaky_relu(input, alpha=negative_slope)


@converter(acc_ops.elu, aten.elu.default)
def elu(b: Builder, input: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) elsewhere."""
    x = input
    if input_scale != 1:
        inner = b.expm1(b.pointwise("mul", x, input_scale))
        below = b.pointwise("mul", inner, alpha)
        y = b.where(b.pointwise("greater", x, 0), x, below)
    else:
        y = b.elu(x, alpha=float(alpha))
    return y if scale == 1 else b.pointwise("mul", y, scale)


@converter(acc_ops.celu, aten.celu.default)
def celu(b: Builder, input: Value, alpha: float = 1.0) -> Value:
    return b.celu(input, alpha=alpha)


@converter(acc_ops.selu, aten.selu.default)
def selu(b: Builder, input: Value) -> Value:
    return b.selu(input)


@converter(acc_ops.gelu, aten.gelu.default)
def gelu(b: Builder, input: Value, approximate: str = "none") -> Value:
    return b.gelu(input, approximate=approximate)


@converter(acc_ops.silu, aten.silu.default)
def silu(b: Builder, input: Value) -> Value:
    return b.silu(input)


@converter(acc_ops.softplus, aten.softplus.default)
def softplus(b: Builder, input: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    return b.softplus(input, beta=float(beta), threshold=float(threshold))


@converter(acc_ops.mish, aten.mish.default)
def mish(b: Builder, input: Value) -> Value:
    return b.mish(input)


@converter(acc_ops.hardsigmoid, aten.hardsigmoid.default)
def hardsigmoid(b: Builder, input: Value) -> Value:
    return b.hardsigmoid(input)


@converter(acc_ops.hardswish, aten.hardswish.default)
def hardswish(b: Builder, input: Value) -> Value:
    return b.hardswish(input)


@converter(acc_ops.softsign)
def softsign(b: Builder, input: Value) -> Value:
    return b.softsign(input)


@converter(acc_ops.softshrink, aten.softshrink.default)
def softshrink(b: Builder, input: Value, lambd: float = 0.5) -> Value:
    return b.softshrink(input, lambd=lambd)


@converter(acc_ops.hardshrink, aten.hardshrink.default)
def hardshrink(b: Builder, input: Value, lambd: float = 0.5) -> Value:
    return b.hardshrink(input, lambd=lambd)


@converter(acc_ops.tanhshrink)
def tanhshrink(b: Builder, input: Value) -> Value:
    return b.tanhshrink(input)


@converter(acc_ops.logsigmoid)
def logsigmoid(b: Builder, input: Value) -> Value:
    return b.logsigmoid(input)


@converter(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(b: Builder, input: Value) -> tuple[Value, Value]:
    """The second result is a buffer of the backward; on the CPU it holds exp(-|x|)."""
    return logsigmoid(b, input), b.exp(b.neg(b.abs(input)))


@converter(acc_ops.prelu, aten.prelu.default, aten._prelu_kernel.default)
def prelu(b: Builder, input: Value, weight: Value) -> Value:
    if rank(weight) == 1 and rank(input) > 1:  # one for each channel
        weight = b.view(weight, [1, lens(weight)[0], *[1] * (rank(input) - 2)])
    return b.prelu(input, b.expand(b.view(weight, [1] * rank(input)) if rank(weight) < 2 else weight, lens(input)))


@converter(acc_ops.glu, aten.glu.default)
def glu(b: Builder, input: Value, dim: int = -1) -> Value:
    return b.glu(input, axis=axis(dim, rank(input)))


@converter(acc_ops.threshold, aten.threshold.default)
def threshold(b: Builder, input: Value, threshold: float, value: float) -> Value:
    return b.threshold(input, threshold=threshold, value=value)


def _along(b: Builder, operator: str, x: Value, dim: int, dtype: torch.dtype | None) -> Value:
    x = x if dtype is None else b.cast(x, dtype)
    if not dtype_of(x).is_floating_point:
        raise UnsupportedError(f"{operator} of integers is an error in torch")
    if rank(x) == 0:
        return b.view(_along(b, operator, b.view(x, [1]), 0, None), [])
    return getattr(b, operator)(x, axis=axis(dim, rank(x)))


@converter(acc_ops.softmax, aten.softmax.int)
def softmax(b: Builder, input: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    return _along(b, "softmax", input, dim, dtype)


@converter(acc_ops.log_softmax, aten.log_softmax.int)
def log_softmax(b: Builder, input: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    return _along(b, "logsoftmax", input, dim, dtype)


@converter(aten._softmax.default)
def _softmax(b: Builder, input: Value, dim: int, half_to_float: bool) -> Value:
    return _along(b, "softmax", input, dim, torch.float32 if half_to_float else None)


@converter(aten._log_softmax.default)
def _log_softmax(b: Builder, input: Value, dim: int, half_to_float: bool) -> Value:
    return _along(b, "logsoftmax", input, dim, torch.float32 if half_to_float else None)


@converter(aten._safe_softmax.default)
def _safe_softmax(b: Builder, input: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """Softmax in which a row of -inf gives zeros."""
    y = _along(b, "softmax", input, dim, dtype)
    d = axis(dim, rank(input))
    hidden = b.reduce_all(b.pointwise("equal", input, -math.inf), axes=[d])
    return b.where(b.expand(hidden, lens(y)), b.full(0, dtype_of(y), lens(y)), y)
