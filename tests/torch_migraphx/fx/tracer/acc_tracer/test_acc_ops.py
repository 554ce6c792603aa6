"""Every spelling of an operation becomes its acc operators, with eager's answer."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.torch_migraphx.fx.tracer.acc_tracer.graphs import Call, traced_names
from torch_migraphx.fx.tracer.acc_tracer import acc_ops, acc_tracer
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import (
    ACC_OPS_MODULE,
    find_mapping,
    register_acc_op,
    register_acc_op_mapping,
    register_custom_acc_mapper_fn,
)
from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import acc_ops as registered

# Functions of one tensor; their methods of the same name are tried too.
UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "neg",
    "rad2deg",
    "reciprocal",
    "rsqrt",
    "sgn",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "trunc",
    "relu",
    "sigmoid",
    "tanh",
]
BINARY = [
    "atan2",
    "fmax",
    "fmin",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "xlogy",
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
]
RENAMED = {"floor_divide": "floor_div"}

# acc operators, then the spelling: a function of the first tensors of INPUTS[rank].
ROWS: list[tuple[str, int, Callable[..., Any]]] = [
    ("add", 2, lambda x, y: x + y),
    ("add", 2, lambda x, y: 1 + x),
    ("sub", 2, lambda x, y: 2 - x),
    ("mul add", 2, lambda x, y: torch.add(x, y, alpha=3)),
    ("mul sub", 2, lambda x, y: x.sub(y, alpha=2)),
    ("sub", 2, lambda x, y: torch.rsub(x, y)),
    ("div", 2, lambda x, y: 1 / x),
    ("pow", 2, lambda x, y: 2**x),
    ("floor_div", 2, lambda x, y: torch.div(x, y, rounding_mode="floor")),
    ("trunc_div", 2, lambda x, y: x.div(y, rounding_mode="trunc")),
    ("floor_div", 2, lambda x, y: x // y),
    ("remainder", 2, lambda x, y: x % y),
    ("neg", 2, lambda x, y: -x),
    ("abs", 2, lambda x, y: abs(x)),
    ("mul mul", 2, lambda x, y: x.mul(2).mul_(y)),
    ("mul add", 2, lambda x, y: operator.iadd(x * 1, y)),
    ("gt where", 2, lambda x, y: torch.where(x > y, x, y)),
    ("gt where", 2, lambda x, y: x.where(x > 0, y)),
    ("lt masked_fill", 2, lambda x, y: x.masked_fill(x < 0, 3.0)),
    ("round", 2, lambda x, y: x.round(decimals=1)),
    ("clamp", 2, lambda x, y: x.clamp(min=0)),
    ("clamp", 2, lambda x, y: torch.clip(x, -1, 1)),
    ("clamp", 2, lambda x, y: x.clamp_min(0.1)),
    ("clamp", 2, lambda x, y: torch.clamp_max(x, 0.1)),
    ("lerp", 2, lambda x, y: torch.lerp(x, y, 0.3)),
    ("nan_to_num", 2, lambda x, y: torch.log(x).nan_to_num(0)),
    ("addcmul", 2, lambda x, y: torch.addcmul(x, x, y, value=2)),
    ("addcdiv", 2, lambda x, y: x.addcdiv(x, y)),
    ("logit", 2, lambda x, y: torch.logit(x, 0.1)),
    ("embedding_bag", 2, lambda x, y: F.embedding_bag((x * 2).long(), y, mode="sum")),
    ("relu", 2, lambda x, y: F.relu(x)),
    ("relu6", 2, lambda x, y: F.relu6(x)),
    ("elu", 2, lambda x, y: F.elu(x, 2.0)),
    ("leaky_relu", 2, lambda x, y: F.leaky_relu(x, 0.2)),
    ("celu", 2, lambda x, y: F.celu(x, 0.5)),
    ("selu", 2, lambda x, y: F.selu(x)),
    ("gelu", 2, lambda x, y: F.gelu(x, approximate="tanh")),
    ("silu", 2, lambda x, y: F.silu(x)),
    ("mish", 2, lambda x, y: F.mish(x)),
    ("glu", 2, lambda x, y: F.glu(x, 1)),
    ("hardswish", 2, lambda x, y: F.hardswish(x)),
    ("hardsigmoid", 2, lambda x, y: F.hardsigmoid(x)),
    ("hardtanh", 2, lambda x, y: F.hardtanh(x, -0.5, 0.5)),
    ("softplus", 2, lambda x, y: F.softplus(x, 2)),
    ("softsign", 2, lambda x, y: F.softsign(x)),
    ("softshrink", 2, lambda x, y: F.softshrink(x)),
    ("hardshrink", 2, lambda x, y: F.hardshrink(x)),
    ("tanhshrink", 2, lambda x, y: F.tanhshrink(x)),
    ("logsigmoid", 2, lambda x, y: F.logsigmoid(x)),
    ("prelu", 2, lambda x, y: F.prelu(x, y[0])),
    ("threshold", 2, lambda x, y: F.threshold(x, 0.1, 5)),
    ("leaky_relu", 2, lambda x, y: F.rrelu(x, 0.1, 0.3)),
    ("softmax", 2, lambda x, y: F.softmax(x, -1)),
    ("softmax", 2, lambda x, y: x.softmax(dim=0)),
    ("softmax", 2, lambda x, y: torch.softmax(x, 1, torch.float64)),
    ("", 2, lambda x, y: F.dropout(x, 0.5, False)),
    ("log_softmax", 2, lambda x, y: F.log_softmax(x, 1)),
    ("log_softmax", 2, lambda x, y: x.log_softmax(0)),
    ("linear", 2, lambda x, y: F.linear(x, y)),
    ("matmul", 2, lambda x, y: x @ y.t()),
    ("matmul", 2, lambda x, y: x.mm(y.T)),
    ("matmul", 3, lambda x, y: torch.bmm(x, y.mT)),
    ("matmul", 2, lambda x, y: torch.mv(x, y[0])),
    ("matmul", 2, lambda x, y: x[0].dot(y[0])),
    ("addmm", 2, lambda x, y: torch.addmm(x[:, :3], x, y.t(), beta=2)),
    ("baddbmm", 3, lambda x, y: torch.baddbmm(x[:, :, :3], x, y.transpose(1, 2), alpha=0.5)),
    ("matmul mul add", 2, lambda x, y: torch.addmv(x[:, 0], x, y[0], alpha=2)),
    ("einsum", 2, lambda x, y: torch.einsum("ij,kj->ik", x, y)),
    ("einsum", 2, lambda x, y: torch.outer(x[0], y[0])),
    ("bilinear", 2, lambda x, y: F.bilinear(x, y, torch.ones(2, 4, 4))),
    ("conv1d", 3, lambda x, y: F.conv1d(x, torch.ones(2, 3, 2), stride=2)),
    ("conv2d", 4, lambda x, y: F.conv2d(x, torch.ones(4, 1, 3, 3), padding="same", groups=4)),
    ("conv3d", 5, lambda x, y: F.conv3d(x, torch.ones(2, 3, 2, 2, 2), padding=1)),
    ("conv_transpose1d", 3, lambda x, y: F.conv_transpose1d(x, torch.ones(3, 2, 2))),
    ("conv_transpose2d", 4, lambda x, y: F.conv_transpose2d(x, torch.ones(4, 2, 2, 2), stride=2)),
    ("conv_transpose3d", 5, lambda x, y: F.conv_transpose3d(x, torch.ones(3, 2, 2, 2, 2))),
    ("batch_norm", 2, lambda x, y: torch.batch_norm(x, None, None, y[0], y[0] ** 2, False, 0.1, 1e-5, False)),
    ("layer_norm", 3, lambda x, y: F.layer_norm(x, (4,))),
    ("layer_norm", 3, lambda x, y: torch.layer_norm(x, [4])),
    ("rms_norm", 3, lambda x, y: F.rms_norm(x, (4,), y[0, 0])),
    ("group_norm", 4, lambda x, y: F.group_norm(x, 2)),
    ("instance_norm", 4, lambda x, y: F.instance_norm(x)),
    ("local_response_norm", 4, lambda x, y: F.local_response_norm(x, 2)),
    ("norm clamp expand div", 2, lambda x, y: F.normalize(x)),
    ("scaled_dot_product_attention", 4, lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True)),
    ("to_dtype embedding", 2, lambda x, y: F.embedding(x.long(), y)),
    ("one_hot", 2, lambda x, y: F.one_hot(x.long(), 4)),
    ("max_pool1d", 3, lambda x, y: F.max_pool1d(x, 2)),
    ("max_pool2d", 4, lambda x, y: F.max_pool2d(x, 3, 2, 1)),
    ("max_pool3d", 5, lambda x, y: F.max_pool3d(x, 2)),
    ("avg_pool1d", 3, lambda x, y: F.avg_pool1d(x, 2)),
    ("avg_pool2d", 4, lambda x, y: F.avg_pool2d(x, 2, ceil_mode=True)),
    ("avg_pool3d", 5, lambda x, y: F.avg_pool3d(x, 2)),
    ("adaptive_avg_pool1d", 3, lambda x, y: F.adaptive_avg_pool1d(x, 2)),
    ("adaptive_avg_pool2d", 4, lambda x, y: F.adaptive_avg_pool2d(x, (None, 2))),
    ("adaptive_avg_pool3d", 5, lambda x, y: F.adaptive_avg_pool3d(x, 1)),
    ("adaptive_max_pool1d", 3, lambda x, y: F.adaptive_max_pool1d(x, 2)),
    ("adaptive_max_pool2d", 4, lambda x, y: F.adaptive_max_pool2d(x, 2)),
    ("adaptive_max_pool3d", 5, lambda x, y: F.adaptive_max_pool3d(x, 1)),
    ("lp_pool1d", 3, lambda x, y: F.lp_pool1d(x, 2, 2)),
    ("lp_pool2d", 4, lambda x, y: F.lp_pool2d(x, 2.0, 2)),
    ("pad", 4, lambda x, y: F.pad(x, (1, 1, 2, 0), "reflect")),
    ("pad", 2, lambda x, y: F.pad(x, (0, 1), value=3)),
    ("interpolate", 4, lambda x, y: F.interpolate(x, scale_factor=2, mode="bilinear")),
    ("pixel_shuffle", 4, lambda x, y: F.pixel_shuffle(x, 2)),
    ("channel_shuffle", 4, lambda x, y: F.channel_shuffle(x, 2)),
    ("pixel_unshuffle", 4, lambda x, y: F.pixel_unshuffle(x[..., :4, :4], 2)),
    ("unfold", 4, lambda x, y: F.unfold(x, 2)),
    ("grid_sample", 4, lambda x, y: F.grid_sample(x, torch.zeros(2, 3, 3, 2) + 0.3, align_corners=False)),
    ("sum", 3, lambda x, y: x.sum(1, keepdim=True)),
    ("mean", 3, lambda x, y: torch.mean(x, (1, 2))),
    ("sum", 3, lambda x, y: torch.sum(x)),
    ("prod", 3, lambda x, y: x.prod(1)),
    ("prod", 3, lambda x, y: torch.prod(x)),
    ("amax", 3, lambda x, y: x.amax((0, 1))),
    ("amin", 3, lambda x, y: torch.amin(x, dim=1, keepdim=True)),
    ("argmax", 3, lambda x, y: x.argmax(-1)),
    ("argmin", 3, lambda x, y: torch.argmin(x)),
    ("any", 3, lambda x, y: torch.any(x > 1, 1)),
    ("all", 3, lambda x, y: (x > 0).all()),
    ("logsumexp", 3, lambda x, y: x.logsumexp(1)),
    ("count_nonzero", 3, lambda x, y: torch.count_nonzero(x, 1)),
    ("std", 3, lambda x, y: x.std(1)),
    ("std", 3, lambda x, y: torch.std(x, False)),
    ("var", 3, lambda x, y: x.var(1, unbiased=False)),
    ("var mean", 3, lambda x, y: torch.var_mean(x, 1, correction=0)),
    ("norm", 3, lambda x, y: x.norm(dim=1)),
    ("var", 3, lambda x, y: torch.var(x, dim=(0, 1), correction=2, keepdim=True)),
    ("norm", 3, lambda x, y: torch.norm(x, 1)),
    ("norm", 3, lambda x, y: torch.linalg.vector_norm(x, dim=-1)),
    ("max_full_reduce", 3, lambda x, y: x.max()),
    ("min_full_reduce", 3, lambda x, y: torch.min(x)),
    ("max_dim_reduce", 3, lambda x, y: x.max(1)),
    ("min_dim_reduce", 3, lambda x, y: torch.min(x, dim=1, keepdim=True)),
    ("maximum", 3, lambda x, y: torch.max(x, y)),
    ("max_dim_reduce getitem", 3, lambda x, y: x.max(dim=1).values),
    ("minimum", 3, lambda x, y: x.min(other=y)),
    ("topk getitem getitem", 3, lambda x, y: operator.add(*x.topk(2))),
    ("sort", 3, lambda x, y: x.sort(1, descending=True)),
    ("argsort", 3, lambda x, y: x.argsort(1)),
    ("cumsum", 3, lambda x, y: x.cumsum(1)),
    ("cumprod", 3, lambda x, y: x.cumprod(dim=1)),
    ("reshape", 3, lambda x, y: x.view(2, -1)),
    ("reshape", 3, lambda x, y: x.reshape((6, 4))),
    ("reshape", 3, lambda x, y: x.view_as(y)),
    ("flatten", 3, lambda x, y: x.flatten(1)),
    ("flatten", 3, lambda x, y: torch.flatten(x)),
    ("flatten", 3, lambda x, y: x.ravel()),
    ("unflatten", 3, lambda x, y: x.unflatten(2, (2, -1))),
    ("squeeze", 3, lambda x, y: x[:1].squeeze()),
    ("squeeze", 3, lambda x, y: x[:1].squeeze(0)),
    ("unsqueeze", 3, lambda x, y: x.unsqueeze(-1)),
    ("clone", 3, lambda x, y: x.clone()),
    ("permute contiguous", 3, lambda x, y: x.transpose(0, 2).contiguous()),
    ("permute", 3, lambda x, y: x.permute(2, 0, 1)),
    ("permute", 3, lambda x, y: torch.permute(x, (2, 0, 1))),
    ("permute", 2, lambda x, y: x.t()),
    ("permute", 2, lambda x, y: x.T),
    ("permute", 3, lambda x, y: x.mT),
    ("permute", 3, lambda x, y: torch.ops.aten.mT(x)),
    ("permute", 2, lambda x, y: torch.ops.aten.numpy_T(x)),
    ("permute", 3, lambda x, y: torch.ops.aten.mH(x)),
    ("permute", 2, lambda x, y: torch.ops.aten.matrix_H(x)),
    ("permute", 3, lambda x, y: x.movedim(0, -1)),
    ("permute", 4, lambda x, y: torch.moveaxis(x, (0, 1), (2, 3))),
    ("permute", 3, lambda x, y: x.swapaxes(0, 1)),
    ("permute", 3, lambda x, y: x.adjoint()),
    ("", 3, lambda x, y: x.detach()),
    ("roll", 3, lambda x, y: x.roll(1, 0)),
    ("flip", 3, lambda x, y: x.flip(0, 1)),
    ("flip", 3, lambda x, y: torch.flip(x, [1])),
    ("expand", 3, lambda x, y: x[:, :1].expand(-1, 5, -1)),
    ("expand", 3, lambda x, y: x[:1].expand_as(y)),
    ("expand", 3, lambda x, y: torch.broadcast_to(x, (2, 2, 3, 4))),
    ("tile", 3, lambda x, y: x.repeat(2, 1, 1, 1)),
    ("tile", 3, lambda x, y: torch.tile(x, (2,))),
    ("repeat_interleave", 3, lambda x, y: x.repeat_interleave(2, 1)),
    ("cat", 3, lambda x, y: torch.cat([x, y], 1)),
    ("stack", 3, lambda x, y: torch.stack((x, y), dim=1)),
    ("cat", 3, lambda x, y: torch.hstack([x, y])),
    ("cat", 3, lambda x, y: torch.vstack([x, y])),
    ("chunk", 3, lambda x, y: x.chunk(2, -1)),
    ("split", 3, lambda x, y: x.split(2, dim=2)),
    ("split", 3, lambda x, y: torch.split(x, [1, 2], 1)),
    ("tensor_split", 3, lambda x, y: x.tensor_split(2, 2)),
    ("unbind", 3, lambda x, y: x.unbind(1)),
    ("unbind getitem getitem add", 3, lambda x, y: operator.add(*x.unbind(0))),
    ("getitem", 3, lambda x, y: x[:, None, ..., 1:-1]),
    ("slice_tensor", 3, lambda x, y: x.narrow(2, 1, 2)),
    ("slice_tensor", 3, lambda x, y: torch.narrow(x, 2, -2, 2)),
    ("select", 3, lambda x, y: x.select(1, -1)),
    ("diagonal", 3, lambda x, y: x.diagonal(dim1=1, dim2=2)),
    ("tril", 3, lambda x, y: torch.tril(x)),
    ("triu", 3, lambda x, y: x.triu(diagonal=1)),
    ("index_select", 3, lambda x, y: x.index_select(1, torch.tensor([2, 0]))),
    ("gather", 3, lambda x, y: x.gather(1, torch.zeros(2, 1, 4, dtype=torch.long))),
    ("scatter", 3, lambda x, y: x.scatter(1, torch.zeros(2, 1, 4, dtype=torch.long), y)),
    ("scatter", 3, lambda x, y: torch.scatter(x, 1, torch.zeros(2, 1, 4, dtype=torch.long), 5.0)),
    ("scatter_add", 3, lambda x, y: x.scatter_add(1, torch.zeros(2, 3, 4, dtype=torch.long), y)),
    ("to_dtype", 3, lambda x, y: x.half()),
    ("to_dtype", 3, lambda x, y: x.to(torch.float64)),
    ("", 3, lambda x, y: x.float()),
    ("to_dtype", 3, lambda x, y: x.to("cpu", torch.float64)),
    ("", 3, lambda x, y: x.to(y)),
    ("", 3, lambda x, y: x.type_as(y)),
    ("to_dtype", 3, lambda x, y: x.type(torch.int32)),
    ("clone", 3, lambda x, y: x.to(torch.float32, copy=True)),
    ("full", 3, lambda x, y: torch.zeros_like(x)),
    ("full", 3, lambda x, y: x.new_ones(2, 3)),
    ("full", 3, lambda x, y: x.new_full((2,), 7)),
    ("full", 3, lambda x, y: torch.full_like(x, 3)),
    ("clone full", 3, lambda x, y: x.clone().fill_(2)),
    ("reshape expand", 2, lambda x, y: torch.meshgrid(x[0], y[1], indexing="xy")),
    ("mul copy", 3, lambda x, y: (x * 2).copy_(y)),
]
MODULES = [
    ("linear", 3, nn.Linear(4, 5)),
    ("conv1d", 3, nn.Conv1d(3, 2, 2)),
    ("conv2d", 4, nn.Conv2d(4, 2, 3, bias=False)),
    ("conv3d", 5, nn.Conv3d(3, 2, 2)),
    ("conv_transpose2d", 4, nn.ConvTranspose2d(4, 2, 2)),
    ("batch_norm", 4, nn.BatchNorm2d(4)),
    ("batch_norm", 4, nn.BatchNorm2d(4, track_running_stats=False)),
    ("layer_norm", 3, nn.LayerNorm(4)),
    ("group_norm", 4, nn.GroupNorm(2, 4)),
    ("rms_norm", 3, nn.RMSNorm(4)),
    ("instance_norm", 4, nn.InstanceNorm2d(4)),
    ("relu", 3, nn.ReLU()),
    ("gelu", 3, nn.GELU()),
    ("", 3, nn.Dropout()),
    ("softmax", 3, nn.Softmax(-1)),
    ("softmax", 3, nn.Softmax()),
    ("hardtanh", 3, nn.Hardtanh()),
    ("", 3, nn.Identity()),
    ("prelu", 3, nn.PReLU(3)),
    ("max_pool2d", 4, nn.MaxPool2d(2)),
    ("flatten", 3, nn.Flatten()),
    ("adaptive_avg_pool2d", 4, nn.AdaptiveAvgPool2d(1)),
    ("avg_pool2d", 4, nn.AvgPool2d(2)),
    ("unflatten", 3, nn.Unflatten(2, (2, 2))),
    ("interpolate", 4, nn.Upsample(scale_factor=2)),
    ("pixel_shuffle", 4, nn.PixelShuffle(2)),
    ("pad", 4, nn.ZeroPad2d(1)),
    ("lstm getitem getitem getitem getitem", 3, nn.LSTM(4, 2)),
    ("gru getitem getitem", 3, nn.GRU(4, 2, bidirectional=True)),
    ("rnn_tanh getitem getitem", 3, nn.RNN(4, 2)),
    ("rnn_relu getitem getitem", 3, nn.RNN(4, 2, nonlinearity="relu")),
    ("add relu", 3, nn.Sequential(Call(lambda x: x + 1), nn.ReLU(inplace=True))),
]


BY_OTHERS = {"arange", "as_strided", "dtype", "numel", "size", "tuple_construct"}
"""Operators of numbers, which are constants of the trace, or of the form that upstream's tracer gives."""


def inputs_of_rank(rank: int) -> list[torch.Tensor]:
    """Two positive tensors of (2, 3, 4), (2, 4, 5, 6) ... as the rank asks."""
    shape = {2: (3, 4), 3: (2, 3, 4), 4: (2, 4, 5, 6), 5: (2, 3, 4, 4, 4)}[rank]
    generator = torch.Generator().manual_seed(rank)
    return [torch.rand(shape, generator=generator) + 0.2 for _ in range(2)]


def is_subsequence(wanted: list[str], found: list[str]) -> bool:
    rest = iter(found)
    return all(name in rest for name in wanted)


@pytest.mark.parametrize(("names", "rank", "function"), ROWS, ids=range(len(ROWS)))
def test_functions_and_methods(names: str, rank: int, function: Callable[..., Any]) -> None:
    found = traced_names(Call(function), inputs_of_rank(rank))
    wanted = names.replace("copy", "").split()
    assert is_subsequence(wanted, found), f"{found}, want {wanted}"
    if not wanted:
        assert found == []


@pytest.mark.parametrize(("name", "rank", "module"), MODULES, ids=lambda v: type(v).__name__)
def test_modules(name: str, rank: int, module: nn.Module) -> None:
    assert traced_names(module, inputs_of_rank(rank)[:1]) == name.split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    """As a function, as a method, and in place."""
    x = torch.arange(6) if name == "bitwise_not" else torch.rand(2, 3) * 0.9 + (1 if name == "acosh" else 0)
    function: Any = getattr(torch, name)
    spelt, wanted = [function, lambda x: getattr(x, name)()], [name, name]
    if hasattr(torch.Tensor, name + "_") and function(x).dtype == x.dtype:
        spelt.append(lambda x: getattr(x.clone(), name + "_")())
        wanted += ["clone", name]
    assert traced_names(Call(lambda x: [spelling(x) for spelling in spelt]), [x]) == wanted


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    x, y = torch.rand(2, 3) + 0.5, torch.rand(3) + 0.5
    if name.startswith("bitwise"):
        x, y = torch.arange(6), torch.arange(6).flip(0)
    both = Call(lambda x, y: (getattr(torch, name)(x, y), getattr(x, name)(y)))
    assert traced_names(both, [x, y]) == [RENAMED.get(name, name)] * 2


def test_rows_reach_every_acc_op() -> None:
    reached = {n for names, *_ in [*ROWS, *MODULES] for n in names.split()} | {*UNARY, *BINARY, "copy"}
    reached = {RENAMED.get(n, n) for n in reached}
    assert set(acc_ops.__all__) - reached == BY_OTHERS


def test_acc_ops_are_found_by_their_printed_name() -> None:
    assert acc_ops.__all__ == list(registered())
    for name in acc_ops.__all__:
        op = getattr(acc_ops, name)
        assert (op.__module__, op.__qualname__) == (ACC_OPS_MODULE, name)
        assert op.__doc__


def test_registering_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        register_acc_op_mapping(("call_function", torch.mul))(acc_ops.mul)
    with pytest.raises(ValueError, match="twice"):
        register_custom_acc_mapper_fn(("call_method", "transpose"))(lambda b, input: input)
    with pytest.raises(ValueError, match="twice"):
        register_acc_op(acc_ops.mul)
    with pytest.raises(ValueError, match="keyword-only"):
        register_acc_op(lambda x: x)
    with pytest.raises(ValueError, match="call_function"):
        register_acc_op_mapping(("call_module", torch.mul))(acc_ops.mul)


def test_an_acc_op_takes_what_it_declares() -> None:
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(acc_ops.celu(input=x, alpha=2.0), F.celu(x, 2.0))
    assert acc_ops.add(input=1, other=2) == 3
    with pytest.raises(TypeError, match="'other'"):
        acc_ops.add(input=x)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="'beta'"):
        acc_ops.celu(input=x, beta=1.0)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("name", ["add_", "logical_and_", "eq_", "__imul__"])
def test_what_is_changed_in_place_keeps_its_type(name: str) -> None:
    call = Call(lambda x, y: getattr(x.clone(), name)(y))
    x, y = torch.rand(2, 3).half(), torch.rand(2, 3)
    want, got = call(x, y), acc_tracer.trace(call, [x, y])(x, y)
    assert got.dtype == want.dtype
    assert torch.equal(got, want)


def test_unhashable_targets_have_no_mapping() -> None:
    assert find_mapping("call_function", [1]) is None
