"""Activation functions, softmax."""

from __future__ import annotations

import math

import torch

from torch_migraphx.fx.builder import Builder, Value, axis, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten


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


@converter(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(b: Builder, input: Value) -> tuple[Value, Value]:
    """The second result is a buffer of the backward; on the CPU it holds exp(-|x|)."""
    return b.logsigmoid(input), b.exp(b.neg(b.abs(input)))


@converter(acc_ops.prelu, aten.prelu.default, aten._prelu_kernel.default)
def prelu(b: Builder, input: Value, weight: Value) -> Value:
    if rank(weight) == 1 and rank(input) > 1:  # one for each channel
        weight = b.view(weight, [1, lens(weight)[0], *[1] * (rank(input) - 2)])
    return b.prelu(input, b.expand(b.view(weight, [1] * rank(input)) if rank(weight) < 2 else weight, lens(input)))


@converter(acc_ops.glu, aten.glu.default)
def glu(b: Builder, input: Value, dim: int = -1) -> Value:
    return b.glu(input, axis=axis(dim, rank(input)))


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
