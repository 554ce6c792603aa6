"""Acc operators: activation functions, softmax, dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import NodeBuilder, Unmappable, acc_mapper, declare

aten = torch.ops.aten

# `inplace` is part of torch's call and is kept in the graph; the tracer has made every acc node functional,
# so it is False there.

declare(
    "relu(input, inplace=False)",
    *(F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_"),
    aten=aten.relu.default,
    direct="relu",
)
declare("relu6(input, inplace=False)", F.relu6)
leaky_relu = declare("leaky_relu(input, negative_slope=0.01, inplace=False)", F.leaky_relu, F.leaky_relu_)
declare("elu(input, alpha=1.0, inplace=False)", F.elu, F.elu_)
declare(
    *("celu(input, alpha=1.0, inplace=False)", F.celu, torch.celu, torch.celu_),
    aten=aten.celu.default,
    direct="celu",
)
declare("selu(input, inplace=False)", F.selu, torch.selu, torch.selu_, aten=aten.selu.default, direct="selu")
declare("gelu(input, approximate='none')", F.gelu, aten=aten.gelu.default, direct="gelu")
declare("silu(input, inplace=False)", F.silu, aten=aten.silu.default, direct="silu")
declare("mish(input, inplace=False)", F.mish, aten=aten.mish.default, direct="mish")
declare("hardswish(input, inplace=False)", F.hardswish, aten=aten.hardswish.default, direct="hardswish")
declare("hardsigmoid(input, inplace=False)", F.hardsigmoid, aten=aten.hardsigmoid.default, direct="hardsigmoid")
declare("hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False)", F.hardtanh, F.hardtanh_)
declare("softplus(input, beta=1.0, threshold=20.0)", F.softplus, aten=aten.softplus.default, direct="softplus")
declare("softsign(input)", F.softsign, direct="softsign")
declare("softshrink(input, lambd=0.5)", F.softshrink, aten=aten.softshrink.default, direct="softshrink")
declare(
    *("hardshrink(input, lambd=0.5)", F.hardshrink, torch.hardshrink, "hardshrink"),
    aten=aten.hardshrink.default,
    direct="hardshrink",
)
declare("tanhshrink(input)", F.tanhshrink, direct="tanhshrink")
declare("logsigmoid(input)", F.logsigmoid, direct="logsigmoid")
declare(
    *("sigmoid(input)", torch.sigmoid, torch.sigmoid_, F.sigmoid, torch.special.expit, "sigmoid", "sigmoid_"),
    aten=aten.sigmoid.default,
    unary="sigmoid",
)
declare(
    *("tanh(input)", torch.tanh, torch.tanh_, F.tanh, "tanh", "tanh_"),
    aten=aten.tanh.default,
    unary="tanh",
)
declare("prelu(input, weight)", F.prelu, "prelu")
declare("glu(input, dim=-1)", F.glu)
declare(
    *("threshold(input, threshold, value, inplace=False)", F.threshold, torch.threshold, torch.threshold_),
    aten=aten.threshold.default,
    direct="threshold",
)
softmax = declare("softmax(input, dim, dtype=None)", torch.softmax, torch.special.softmax, "softmax")
log_softmax = declare(
    "log_softmax(input, dim, dtype=None)", torch.log_softmax, torch.special.log_softmax, "log_softmax"
)


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
    """The identity, unless the model itself asks for the form of training."""
    if training and p:
        raise Unmappable("draws random numbers")
    return input


@acc_mapper(torch.dropout, torch.dropout_, torch.feature_dropout, torch.alpha_dropout)
def native_dropout_mapper(b: NodeBuilder, input: Any, p: float, train: bool) -> Any:
    return dropout_mapper(b, input, p, train)
