"""Pooling and padding. Inputs are (N, C, spatial...) or (C, spatial...)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens, per_dimension, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten

Ints = int | Sequence[int]


def batched(b: Builder, x: Value, n: int, fn: Callable[[Value], Any]) -> Any:
    """fn(x) of {N, C, `n` spatial dimensions}; a missing batch dimension is added and dropped again."""
    if rank(x) == n + 2:
        return fn(x)
    y = fn(b.unsqueeze(x, axes=[0]))
    return b.squeeze(y, axes=[0])


def pool(
    b: Builder,
    x: Value,
    n: int,
    mode: str,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    **more: Any,
) -> Value:
    lengths = per_dimension(kernel, n)
    return batched(
        b, x, n,
        lambda v: b.pooling(
            v, mode=mode, padding=per_dimension(padding, n), stride=per_dimension(stride or lengths, n),
            lengths=lengths, dilations=per_dimension(dilation, n), ceil_mode=ceil_mode, **more,
        ),
    )  # fmt: skip


def _avg_pool(n: int) -> Callable[..., Value]:
    def avg_pool(
        b: Builder,
        input: Value,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        if divisor_override is None:
            include = {"count_include_pad": count_include_pad}
            return pool(b, input, n, "average", kernel_size, stride, padding, 1, ceil_mode, **include)
        mean = pool(b, input, n, "average", kernel_size, stride, padding, 1, ceil_mode, count_include_pad=False)
        ones = torch.ones(1, *map(int, lens(input)[-n:]), dtype=torch.float64)
        eager: Any = {2: F.avg_pool2d, 3: F.avg_pool3d}[n]
        counts = eager(ones, kernel_size, stride, padding, ceil_mode, divisor_override=1)[0]
        return b.pointwise("mul", mean, b.literal(counts / divisor_override), dtype=dtype_of(input))

    return avg_pool


converter(acc_ops.avg_pool1d, aten.avg_pool1d.default)(_avg_pool(1))
converter(acc_ops.avg_pool2d, aten.avg_pool2d.default)(_avg_pool(2))
converter(acc_ops.avg_pool3d, aten.avg_pool3d.default)(_avg_pool(3))


def _max_pool_with_indices(n: int) -> Callable[..., tuple[Value, Value]]:
    def max_pool_with_indices(
        b: Builder,
        input: Value,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ) -> tuple[Value, Value]:
        y = pool(b, input, n, "max", kernel_size, stride, padding, dilation, ceil_mode)
        lengths = per_dimension(kernel_size, n)
        steps = per_dimension(stride or lengths, n)
        taps = []
        for out, k, step, pad, apart in zip(
            lens(y)[-n:], lengths, steps, per_dimension(padding, n), per_dimension(dilation, n), strict=True
        ):
            starts = b.pointwise("sub", b.pointwise("mul", b.counted(out), step), pad)
            taps.append(_sums(b, starts, b.literal(torch.arange(k) * apart)))
        return y, _indices(b, input, taps)

    return max_pool_with_indices


def _max_pool(n: int) -> Callable[..., Any]:
    with_indices = _max_pool_with_indices(n)

    def max_pool(
        b: Builder,
        input: Value,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices:
            return with_indices(b, input, kernel_size, stride, padding, dilation, ceil_mode)
        return pool(b, input, n, "max", kernel_size, stride, padding, dilation, ceil_mode)

    return max_pool


converter(acc_ops.max_pool1d, aten.max_pool1d.default)(_max_pool(1))
converter(acc_ops.max_pool2d, aten.max_pool2d.default)(_max_pool(2))
converter(acc_ops.max_pool3d, aten.max_pool3d.default)(_max_pool(3))


def _sums(b: Builder, rows: Value, columns: Value) -> Value:
    """{rows, columns} of all sums."""
    return b.pointwise("add", b.unsqueeze(rows, axes=[1]), columns)


def _indices(b: Builder, x: Value, taps: Sequence[Value]) -> Value:
    """Where in the flattened spatial dimensions the maximum of each window is.

    It is the first of equal ones, the last of several NaN. Dead code unless it is read.
    `taps`: for each dimension, the positions that the windows read {windows, positions}. Those outside the image become
    others of the window, which changes no maximum and not the first place that has it.
    """
    n = len(taps)
    outer, sizes = lens(x)[:-n], lens(x)[-n:]
    flat = b.literal(torch.zeros(1, 1, dtype=torch.int64))
    for size, positions in zip(sizes, taps, strict=True):
        inside = b.logical_and(b.not_(b.pointwise("less", positions, 0)), b.pointwise("less", positions, size))
        others = b.where(inside, positions, b.full(size - 1, torch.int64, lens(positions)))
        own = b.where(inside, positions, b.expand(b.reduce_min(others, axes=[1]), lens(positions)))
        (rows, columns), (before, wide) = lens(own), lens(flat)
        flat = b.view(b.pointwise("mul", flat, size), [before, 1, wide, 1])
        flat = b.view(b.pointwise("add", flat, b.view(own, [1, rows, 1, columns])), [before * rows, wide * columns])
    windows = b.gather(b.view(x, [*outer, math.prod(sizes)]), flat, axis=len(outer))
    best = b.argmax(windows, axis=len(outer) + 1)
    positions = b.expand(flat, lens(windows))
    read = b.gather_elements(positions, best, axis=len(outer) + 1)
    if dtype_of(x).is_floating_point:  # positions grow along a window, and the argmax is the first NaN
        none = b.full(0, torch.int64, lens(windows))
        last = b.reduce_max(b.where(b.isnan(windows), positions, none), axes=[len(outer) + 1])
        read = b.max(read, last)
    return b.view(read, [*outer, *(lens(positions)[0] for positions in taps)])


converter(aten.max_pool2d_with_indices.default)(_max_pool_with_indices(2))
converter(aten.max_pool3d_with_indices.default)(_max_pool_with_indices(3))


# ---- adaptive pooling ----


def adaptive(b: Builder, x: Value, n: int, mode: str, output_size: Any) -> Value:
    """Window k of an axis is floor(k * length / out) to ceil((k + 1) * length / out)."""
    wanted = [output_size] * n if isinstance(output_size, int) or output_size is None else list(output_size)
    sizes = lens(x)[-n:]
    out = [s if w is None else w for s, w in zip(sizes, wanted * (n if len(wanted) == 1 else 1), strict=True)]
    if any(s == 0 for s in sizes):
        raise UnsupportedError("adaptive pooling of an empty axis")
    if all(o == 1 for o in out):
        along = list(range(rank(x) - n, rank(x)))
        return getattr(b, "reduce_max" if mode == "max" else "reduce_mean")(x, axes=along)
    if all(s % o == 0 for s, o in zip(sizes, out, strict=True)):
        lengths = [s // o for s, o in zip(sizes, out, strict=True)]
        return pool(b, x, n, mode, lengths, lengths, 0, 1, False)
    for k in range(n):
        x = _adaptive_axis(b, x, rank(x) - n + k, mode, out[k])
    return x


def _adaptive_axis(b: Builder, x: Value, dim: int, mode: str, out: int) -> Value:
    n = lens(x)[dim]
    if n == out:
        return x
    reduce = b.reduce_max if mode == "max" else b.reduce_mean
    pieces = [
        reduce(b.cut(x, dim, k * n // out, -(-(k + 1) * n // out)), axes=[dim])
        for k in range(out)
    ]  # fmt: skip
    return pieces[0] if len(pieces) == 1 else b.concat(*pieces, axis=dim)


def _adaptive_pool(n: int, mode: str) -> Callable[..., Value]:
    def adaptive_pool(b: Builder, input: Value, output_size: Any) -> Value:
        return adaptive(b, input, n, mode, output_size)

    return adaptive_pool


converter(acc_ops.adaptive_avg_pool1d, aten.adaptive_avg_pool1d.default)(_adaptive_pool(1, "average"))
converter(
    *(acc_ops.adaptive_avg_pool2d, aten.adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d.default)
)(_adaptive_pool(2, "average"))  # fmt: skip
converter(
    *(acc_ops.adaptive_avg_pool3d, aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default)
)(_adaptive_pool(3, "average"))  # fmt: skip


def _adaptive_with_indices(n: int) -> Callable[..., tuple[Value, Value]]:
    def adaptive_max_pool_with_indices(b: Builder, input: Value, output_size: Any) -> tuple[Value, Value]:
        y = adaptive(b, input, n, "max", output_size)
        taps = []
        for size, out in zip(lens(input)[-n:], lens(y)[-n:], strict=True):
            scaled = b.pointwise("mul", b.counted(out), size)  # window k is k * size / out to (k + 1) * size / out
            behind = b.pointwise("add", scaled, size - 1)
            first, last = (b.pointwise("floor_divide", ends, out) for ends in (scaled, behind))
            most = size // out if size % out == 0 else size // out + 2
            taps.append(b.pointwise("min", _sums(b, first, b.counted(most)), b.unsqueeze(last, axes=[1])))
        return y, _indices(b, input, taps)

    return adaptive_max_pool_with_indices


def _adaptive_max_pool(n: int) -> Callable[..., Any]:
    alone, with_indices = _adaptive_pool(n, "max"), _adaptive_with_indices(n)

    def adaptive_max_pool(b: Builder, input: Value, output_size: Any, return_indices: bool = False) -> Any:
        return (with_indices if return_indices else alone)(b, input, output_size)

    return adaptive_max_pool


converter(acc_ops.adaptive_max_pool1d)(_adaptive_max_pool(1))
converter(acc_ops.adaptive_max_pool2d)(_adaptive_max_pool(2))
converter(acc_ops.adaptive_max_pool3d)(_adaptive_max_pool(3))
converter(aten.adaptive_max_pool2d.default)(_adaptive_with_indices(2))
converter(aten.adaptive_max_pool3d.default)(_adaptive_with_indices(3))


# ---- p-norm pooling ----


def _lp_pool(n: int) -> Callable[..., Value]:
    def lp_pool(
        b: Builder,
        input: Value,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Value:
        """torch sums x ** p, not |x| ** p: the root of a negative sum is NaN."""
        p = float(norm_type)
        powered = b.mul(input, input) if p == 2 else b.pointwise("pow", input, p)
        mean = pool(b, powered, n, "average", kernel_size, stride, 0, 1, ceil_mode, count_include_pad=True)
        total = b.pointwise("mul", mean, math.prod(per_dimension(kernel_size, n)))
        return b.pointwise("pow", total, 1 / p)

    return lp_pool


converter(acc_ops.lp_pool1d)(_lp_pool(1))
converter(acc_ops.lp_pool2d)(_lp_pool(2))


# ---- padding ----


@converter(acc_ops.pad, aten.pad.default)
def pad(b: Builder, input: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Value:
    """`pad` has (before, behind) of the last axis, then of the one before it; negative values cut."""
    n = rank(input)
    before, behind = [0] * n, [0] * n
    for k in range(len(pad) // 2):
        before[n - 1 - k], behind[n - 1 - k] = pad[2 * k], pad[2 * k + 1]
    x = input
    if mode == "replicate" and min(*before, *behind) < 0:  # what is cut is repeated all the same
        for d, size in enumerate(lens(input)):
            positions = b.pointwise("sub", b.counted(size + before[d] + behind[d]), before[d])
            x = b.gather(x, b.pointwise("min", b.pointwise("max", positions, 0), size - 1), axis=d)
        return x
    for d in range(n):
        if before[d] < 0 or behind[d] < 0:
            x = b.cut(x, d, max(-before[d], 0), lens(x)[d] - max(-behind[d], 0))
    before, behind = [max(v, 0) for v in before], [max(v, 0) for v in behind]
    if mode == "circular":
        return _wrapped(b, x, before, behind)
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in names:
        raise UnsupportedError(f"padding mode {mode!r}")
    if not any(before) and not any(behind):
        return x
    number = float(value or 0)
    if dtype_of(x) == torch.bool:
        number = float(bool(number))
    return b.pad(x, pads=[*before, *behind], mode=names[mode], value=number)


def _wrapped(b: Builder, x: Value, before: list[int], behind: list[int]) -> Value:
    for d, (first, last) in enumerate(zip(before, behind, strict=True)):
        n = lens(x)[d]
        pieces = [b.cut(x, d, n - first, n)] * (first > 0) + [x] + [b.cut(x, d, 0, last)] * (last > 0)
        x = x if len(pieces) == 1 else b.concat(*pieces, axis=d)
    return x


@converter(aten.constant_pad_nd.default)
def constant_pad_nd(b: Builder, input: Value, pad: Sequence[int], value: float = 0) -> Value:
    return _pad(b, input, pad, "constant", value)


@converter(
    *(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default),
)
def reflection_pad(b: Builder, input: Value, padding: Sequence[int]) -> Value:
    return _pad(b, input, padding, "reflect")


@converter(
    *(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default),
)
def replication_pad(b: Builder, input: Value, padding: Sequence[int]) -> Value:
    return _pad(b, input, padding, "replicate")


_pad = pad
