"""Acc operators: activation functions, softmax, dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..acc_normalizer import NodeBuilder, acc_mapper, acc_op

# `inplace` is part of torch's call and is kept in the graph; the tracer has made every acc node functional,
# so it is False there.


@acc_op(F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_")
def relu(*, input: Any, inplace: bool = False) -> Any:
    """max(x, 0)"""
    return F.relu(input, inplace)


@acc_op(F.relu6)
def relu6(*, input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)"""
    return F.relu6(input, inplace)


@acc_op(F.leaky_relu, F.leaky_relu_)
def leaky_relu(*, input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where x > 0, else negative_slope * x"""
    return F.leaky_relu(input, negative_slope, inplace)


@acc_op(F.elu, F.elu_)
def elu(*, input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1)"""
    return F.elu(input, alpha, inplace)


@acc_op(F.celu, torch.celu, torch.celu_)
def celu(*, input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)"""
    return F.celu(input, alpha, inplace)


@acc_op(F.selu, torch.selu, torch.selu_)
def selu(*, input: Any, inplace: bool = False) -> Any:
    """The self-normalizing elu."""
    return F.selu(input, inplace)


@acc_op(F.gelu)
def gelu(*, input: Any, approximate: str = "none") -> Any:
    """x * Phi(x); `approximate` is "none" (erf) or "tanh"."""
    return F.gelu(input, approximate=approximate)


@acc_op(F.silu)
def silu(*, input: Any, inplace: bool = False) -> Any:
    """x * sigmoid(x)"""
    return F.silu(input, inplace)


@acc_op(F.mish)
def mish(*, input: Any, inplace: bool = False) -> Any:
    """x * tanh(softplus(x))"""
    return F.mish(input, inplace)


@acc_op(F.hardswish)
def hardswish(*, input: Any, inplace: bool = False) -> Any:
    """x * min(max(x + 3, 0), 6) / 6"""
    return F.hardswish(input, inplace)


@acc_op(F.hardsigmoid)
def hardsigmoid(*, input: Any, inplace: bool = False) -> Any:
    """min(max(x + 3, 0), 6) / 6"""
    return F.hardsigmoid(input, inplace)


@acc_op(F.hardtanh, F.hardtanh_)
def hardtanh(*, input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """min(max(x, min_val), max_val)"""
    return F.hardtanh(input, min_val, max_val, inplace)


@acc_op(F.softplus)
def softplus(*, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold."""
    return F.softplus(input, beta, threshold)


@acc_op(F.softsign)
def softsign(*, input: Any) -> Any:
    """x / (1 + |x|)"""
    return F.softsign(input)


@acc_op(F.softshrink)
def softshrink(*, input: Any, lambd: float = 0.5) -> Any:
    """x - lambd above lambd, x + lambd below -lambd, else 0."""
    return F.softshrink(input, lambd)


@acc_op(F.hardshrink, torch.hardshrink, "hardshrink")
def hardshrink(*, input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    return torch.hardshrink(input, lambd)


@acc_op(F.tanhshrink)
def tanhshrink(*, input: Any) -> Any:
    """x - tanh(x)"""
    return F.tanhshrink(input)


@acc_op(torch.sigmoid, torch.sigmoid_, F.sigmoid, torch.special.expit, "sigmoid", "sigmoid_")
def sigmoid(*, input: Any) -> Any:
    """1 / (1 + exp(-x))"""
    return torch.sigmoid(input)


@acc_op(F.logsigmoid)
def logsigmoid(*, input: Any) -> Any:
    """log(sigmoid(x))"""
    return F.logsigmoid(input)


@acc_op(torch.tanh, torch.tanh_, F.tanh, "tanh", "tanh_")
def tanh(*, input: Any) -> Any:
    """The hyperbolic tangent."""
    return torch.tanh(input)


@acc_op(F.prelu, "prelu")
def prelu(*, input: Any, weight: Any) -> Any:
    """x where x > 0, else weight * x, one weight for all channels (axis 1) or one for each."""
    return F.prelu(input, weight)


@acc_op(F.glu)
def glu(*, input: Any, dim: int = -1) -> Any:
    """a * sigmoid(b), where a and b are the halves of x along `dim`."""
    return F.glu(input, dim)


@acc_op(F.threshold, torch.threshold, torch.threshold_)
def threshold(*, input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where x > threshold, else value."""
    return F.threshold(input, threshold, value, inplace)


@acc_op(torch.softmax, torch.special.softmax, "softmax")
def softmax(*, input: Any, dim: int, dtype: torch.dtype | None = None) -> Any:
    """exp(x) / sum(exp(x)) along `dim`, in `dtype` where it is given."""
    return torch.softmax(input, dim, dtype)


@acc_op(torch.log_softmax, torch.special.log_softmax, "log_softmax")
def log_softmax(*, input: Any, dim: int, dtype: torch.dtype | None = None) -> Any:
    """log(softmax(x)) along `dim`, in `dtype` where it is given."""
    return torch.log_softmax(input, dim, dtype)


def _old_default_dim(b: NodeBuilder, input: Any, dim: int | None) -> int:
    """The axis that F.softmax takes where `dim` is None: 0 for ranks 0, 1 and 3, else 1."""
    return dim if dim is not None else int(b.rank(input) not in (0, 1, 3))


@acc_mapper(F.softmax)
def softmax_mapper(b: NodeBuilder, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """F.softmax, whose `dim` may be None."""
    given = {} if dtype is None else {"dtype": dtype}
    return b(softmax, input=input, dim=_old_default_dim(b, input, dim), **given)


@acc_mapper(F.log_softmax)
def log_softmax_mapper(b: NodeBuilder, input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """F.log_softmax, whose `dim` may be None."""
    given = {} if dtype is None else {"dtype": dtype}
    return b(log_softmax, input=input, dim=_old_default_dim(b, input, dim), **given)


@acc_mapper(F.rrelu, torch.rrelu)
def rrelu_mapper(
    b: NodeBuilder,
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """In inference form the slope is the middle of [lower, upper]."""
    return b(leaky_relu, input=input, negative_slope=(lower + upper) / 2)


@acc_mapper(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)
def dropout_mapper(b: NodeBuilder, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """In inference form dropout is the identity."""
    return input


@acc_mapper(torch.dropout, torch.dropout_, torch.feature_dropout, torch.alpha_dropout)
def native_dropout_mapper(b: NodeBuilder, input: Any, p: float, train: bool) -> Any:
    """In inference form dropout is the identity."""
    return input
