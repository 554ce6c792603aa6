"""Gradients of operators that torch's own tables do not take apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens, per_dimension, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.converters.convolution import conv, conv_transpose
from torch_migraphx.fx.converters.reduction import reduced

aten = torch.ops.aten


# ---- convolutions ----


@converter(aten.convolution_backward.default)
def convolution_backward(
    b: Builder,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """The gradients of input, weight and bias, each None where the mask does not ask for it."""
    n = rank(input) - 2
    steps, pads, apart = (per_dimension(x, n) for x in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0] and transposed:
        of_input = conv(b, grad_output, weight, None, steps, pads, apart, groups)
    elif output_mask[0]:
        sizes = zip(lens(input)[2:], lens(grad_output)[2:], lens(weight)[2:], pads, steps, apart, strict=True)
        extra = [size - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for size, out, k, p, s, d in sizes]
        of_input = conv_transpose(b, grad_output, weight, None, steps, pads, extra, groups, apart)
    if output_mask[1]:
        read, wrote = (grad_output, input) if transposed else (input, grad_output)
        of_weight = _of_weight(b, read, wrote, lens(weight)[2:], steps, pads, apart, groups)
    if output_mask[2]:
        of_bias = reduced(b, "reduce_sum", grad_output, [0, *range(2, n + 2)], False)
    return of_input, of_weight, of_bias


def _of_weight(
    b: Builder,
    x: Value,
    grad: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """The weight's gradient {O, C / groups, kernel} of a convolution that read x {N, C, ...} and gave {N, O, ...}.

    It is a convolution of x by the gradient, in which the batch is what is summed over and steps and distances change
    places; the rows of x that no window read make it longer than the kernel.
    """
    (batch, channels, *size), (_, outs, *out) = lens(x), lens(grad)
    k = len(size)
    rows = b.view(x, [batch, groups, channels // groups, *size])
    rows = b.view(b.permute(rows, [2, 1, 0, *range(3, 3 + k)]), [channels // groups, groups * batch, *size])
    filters = b.view(grad, [batch, groups, outs // groups, *out])
    filters = b.view(b.permute(filters, [1, 2, 0, *range(3, 3 + k)]), [outs, batch, *out])
    y = conv(b, rows, filters, None, dilation, padding, stride, groups)
    for d, length in enumerate(kernel):
        y = b.cut(y, 2 + d, 0, length)
    return b.permute(y, [1, 0, *range(2, 2 + k)])


# ---- averages: each axis by a matrix ----


def _spread(b: Builder, grad: Value, matrices: Sequence[torch.Tensor]) -> Value:
    """The gradient of averages, of which the last dimensions' are the products with matrices {windows, length}."""
    n = len(matrices)
    for k, matrix in enumerate(matrices):
        d = rank(grad) - n + k
        last = [j for j in range(rank(grad)) if j != d] + [d]
        product = b.matmul(b.permute(grad, last), b.literal(matrix.to(dtype_of(grad))))
        grad = b.permute(product, [last.index(j) for j in range(rank(grad))])
    return grad


def _windows(length: int, out: int, kernel: int, stride: int, pad: int, padded: bool) -> torch.Tensor:
    """{windows, length}: what each place counts in the average of each window; `padded` counts the padding too."""
    starts = torch.arange(out) * stride - pad
    ends = (starts + kernel).clamp(max=length + pad)
    places = torch.arange(length)
    read = ((places >= starts[:, None]) & (places < ends[:, None])).double()
    counts = (ends - starts) if padded else (ends.clamp(max=length) - starts.clamp(min=0))
    return read / counts.clamp(min=1)[:, None]


def _avg_pool_backward(n: int) -> Callable[..., Value]:
    def avg_pool_backward(
        b: Builder,
        grad_output: Value,
        input: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        kernel, pads = per_dimension(kernel_size, n), per_dimension(padding, n)
        steps = per_dimension(stride, n) if stride else kernel
        axes = zip(lens(input)[-n:], lens(grad_output)[-n:], kernel, steps, pads, strict=True)
        matrices = [_windows(int(size), int(out), k, s, p, count_include_pad) for size, out, k, s, p in axes]
        if divisor_override is not None:
            matrices = [(m > 0).double() for m in matrices]
            matrices[0] = matrices[0] / divisor_override
        return _spread(b, grad_output, matrices)

    return avg_pool_backward


converter(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
converter(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))


def _adaptive_windows(length: int, out: int) -> torch.Tensor:
    first = torch.arange(out) * length // out
    behind = -(-(torch.arange(out) + 1) * length // out)
    places = torch.arange(length)
    read = ((places >= first[:, None]) & (places < behind[:, None])).double()
    return read / (behind - first)[:, None]


def _adaptive_avg_pool_backward(n: int) -> Callable[..., Value]:
    def adaptive_avg_pool_backward(b: Builder, grad_output: Value, input: Value) -> Value:
        axes = zip(lens(input)[-n:], lens(grad_output)[-n:], strict=True)
        return _spread(b, grad_output, [_adaptive_windows(*map(int, one)) for one in axes])

    return adaptive_avg_pool_backward


converter(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
converter(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))
