"""Convolutions and transposed convolutions over 1 to 3 spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, lens, per_dimension, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten

Ints = int | Sequence[int]


def with_bias(b: Builder, x: Value, bias: Value | None) -> Value:
    """x + bias along axis 1."""
    if bias is None:
        return x
    return b.add(x, b.broadcast(bias, axis=1, out_lens=list(lens(x))))


def _pads(padding: Ints | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Elements before each spatial dimension, then behind each."""
    n = len(kernel)
    if padding == "valid":
        return [0] * (2 * n)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise UnsupportedError("padding='same' with a stride is an error in torch")
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [t // 2 for t in total] + [t - t // 2 for t in total]
    if isinstance(padding, str):
        raise UnsupportedError(f"padding={padding!r}")
    return per_dimension(padding, n) * 2


@converter(
    *(acc_ops.conv1d, acc_ops.conv2d, acc_ops.conv3d),
    *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    *(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding),
)
def conv(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Value:
    n = rank(weight) - 2
    if rank(input) == n + 1:  # no batch dimension
        y = conv(b, b.unsqueeze(input, axes=[0]), weight, bias, stride, padding, dilation, groups)
        return b.squeeze(y, axes=[0])
    stride, dilation = per_dimension(stride, n), per_dimension(dilation, n)
    pads = _pads(padding, lens(weight)[2:], stride, dilation)
    y = b.convolution(input, weight, padding=pads, stride=stride, dilation=dilation, group=groups)
    return with_bias(b, y, bias)


@converter(
    *(acc_ops.conv_transpose1d, acc_ops.conv_transpose2d, acc_ops.conv_transpose3d),
    *(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input),
)
def conv_transpose(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Value:
    """`output_padding` lengthens the end: less is cut from the full result, or zeros are added where it ends."""
    n = rank(weight) - 2
    if rank(input) == n + 1:
        y = conv_transpose(
            b, b.unsqueeze(input, axes=[0]), weight, bias, stride, padding, output_padding, groups, dilation
        )
        return b.squeeze(y, axes=[0])
    pads, extra = per_dimension(padding, n), per_dimension(output_padding, n)
    behind = [p - e for p, e in zip(pads, extra, strict=True)]
    y = b.convolution_backwards(
        input,
        weight,
        padding=[*pads, *(max(p, 0) for p in behind)],
        stride=per_dimension(stride, n),
        dilation=per_dimension(dilation, n),
        group=groups,
    )
    missing = [max(-p, 0) for p in behind]
    if any(missing):
        y = b.pad(y, pads=[0] * (n + 4) + missing)
    return with_bias(b, y, bias)


@converter(aten.convolution.default)
def convolution(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    if transposed:
        return conv_transpose(b, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(b, input, weight, bias, stride, padding, dilation, groups)
