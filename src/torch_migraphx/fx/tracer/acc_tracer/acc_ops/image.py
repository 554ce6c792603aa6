"""Acc operators: pooling, padding, resizing, pixel shuffles. Inputs are (N, C, ...) or (C, ...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..acc_normalizer import NodeBuilder, Unmappable, acc_mapper, acc_op

Ints = Any  # an int or several; torch's stubs spell that differently at each function


def _max_pool(rank: int, fn: Callable[..., Any], *targets: Callable[..., Any]) -> Callable[..., Any]:
    """The row of max_pool over `rank` axes; the form that also gives indices has no acc operator."""

    def max_pool(
        *,
        input: Any,
        kernel_size: Ints,
        stride: Any = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
    ) -> Any:
        return fn(input, kernel_size, stride, padding, dilation, ceil_mode)

    def mapper(
        b: NodeBuilder,
        input: Any,
        kernel_size: Ints,
        stride: Any = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices:
            raise Unmappable("the indices of the maxima are asked for")
        return b(
            op,
            input=input,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
        )

    max_pool.__name__ = f"max_pool{rank}d"
    max_pool.__doc__ = f"The largest element of each window over {rank} axes; stride None is kernel_size."
    op = acc_op()(max_pool)
    acc_mapper(fn, *targets)(mapper)
    return op


max_pool1d = _max_pool(1, torch.max_pool1d, F.max_pool1d)
max_pool2d = _max_pool(2, torch.max_pool2d, F.max_pool2d)
max_pool3d = _max_pool(3, torch.max_pool3d, F.max_pool3d)


@acc_op(F.avg_pool1d)
def avg_pool1d(
    *,
    input: Any,
    kernel_size: Ints,
    stride: Any = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window over one axis; stride None is kernel_size."""
    return F.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@acc_op(F.avg_pool2d)
def avg_pool2d(
    *,
    input: Any,
    kernel_size: Ints,
    stride: Any = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window over two axes; stride None is kernel_size."""
    return F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@acc_op(F.avg_pool3d)
def avg_pool3d(
    *,
    input: Any,
    kernel_size: Ints,
    stride: Any = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window over three axes; stride None is kernel_size."""
    return F.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@acc_op(F.adaptive_avg_pool1d)
def adaptive_avg_pool1d(*, input: Any, output_size: Ints) -> Any:
    """Means over one axis, windows chosen so that `output_size` come out."""
    return F.adaptive_avg_pool1d(input, output_size)  # type: ignore[arg-type]


@acc_op(F.adaptive_avg_pool2d)
def adaptive_avg_pool2d(*, input: Any, output_size: Any) -> Any:
    """Means over two axes, windows chosen so that `output_size` come out; None keeps an axis."""
    return F.adaptive_avg_pool2d(input, output_size)


@acc_op(F.adaptive_avg_pool3d)
def adaptive_avg_pool3d(*, input: Any, output_size: Any) -> Any:
    """Means over three axes, windows chosen so that `output_size` come out; None keeps an axis."""
    return F.adaptive_avg_pool3d(input, output_size)


def _adaptive_max_pool(rank: int, fn: Callable[..., Any], *targets: Callable[..., Any]) -> Callable[..., Any]:
    """The row of adaptive_max_pool over `rank` axes, without indices."""

    def adaptive_max_pool(*, input: Any, output_size: Any) -> Any:
        return fn(input, output_size)

    def mapper(b: NodeBuilder, input: Any, output_size: Any, return_indices: bool = False) -> Any:
        if return_indices:
            raise Unmappable("the indices of the maxima are asked for")
        return b(op, input=input, output_size=output_size)

    adaptive_max_pool.__name__ = f"adaptive_max_pool{rank}d"
    adaptive_max_pool.__doc__ = f"Maxima over {rank} axes, windows chosen so that `output_size` come out."
    op = acc_op()(adaptive_max_pool)
    acc_mapper(fn, *targets)(mapper)
    return op


adaptive_max_pool1d = _adaptive_max_pool(1, F.adaptive_max_pool1d)
adaptive_max_pool2d = _adaptive_max_pool(2, F.adaptive_max_pool2d)
adaptive_max_pool3d = _adaptive_max_pool(3, F.adaptive_max_pool3d)


@acc_op(F.lp_pool1d)
def lp_pool1d(*, input: Any, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False) -> Any:
    """(sum of x ** norm_type over each window) ** (1 / norm_type), over one axis."""
    return F.lp_pool1d(input, norm_type, kernel_size, stride, ceil_mode)


@acc_op(F.lp_pool2d)
def lp_pool2d(*, input: Any, norm_type: float, kernel_size: Ints, stride: Any = None, ceil_mode: bool = False) -> Any:
    """(sum of x ** norm_type over each window) ** (1 / norm_type), over two axes."""
    return F.lp_pool2d(input, norm_type, kernel_size, stride, ceil_mode)  # type: ignore[arg-type]


@acc_op(F.pad, torch._C._nn.pad)  # type: ignore[attr-defined]  # the second is what Dynamo, which inlines F.pad, calls
def pad(*, input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Elements added (or cut, where negative) before and after each axis, the last axis first."""
    return F.pad(input, pad, mode, value)  # type: ignore[arg-type]


_pad = pad  # an argument of the mapper below has this name


@acc_mapper(torch.constant_pad_nd)
def _constant_pad(b: NodeBuilder, input: Any, pad: Sequence[int], value: float = 0) -> Any:
    return b(_pad, input=input, pad=pad, mode="constant", value=value)


@acc_op(F.interpolate)
def interpolate(
    *,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """The input resized to `size`, or by `scale_factor`, as F.interpolate defines each mode."""
    return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


@acc_op(F.pixel_shuffle, torch.pixel_shuffle)
def pixel_shuffle(*, input: Any, upscale_factor: int) -> Any:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)"""
    return F.pixel_shuffle(input, upscale_factor)


@acc_op(F.pixel_unshuffle)
def pixel_unshuffle(*, input: Any, downscale_factor: int) -> Any:
    """(..., C, H * r, W * r) to (..., C * r * r, H, W)"""
    return F.pixel_unshuffle(input, downscale_factor)


@acc_op(F.channel_shuffle)
def channel_shuffle(*, input: Any, groups: int) -> Any:
    """Channels (axis 1) seen as (groups, C / groups), transposed."""
    return F.channel_shuffle(input, groups)


@acc_op(F.unfold)
def unfold(*, input: Any, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Any:
    """(N, C, H, W) to (N, C * window, windows): im2col."""
    return F.unfold(input, kernel_size, dilation, padding, stride)


@acc_op(F.grid_sample)
def grid_sample(
    *,
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """The input read at the points of `grid`, (N, H, W, 2) in [-1, 1]."""
    return F.grid_sample(input, grid, mode, padding_mode, align_corners)
