"""Acc operators: pooling, padding, resizing, pixel shuffles. Inputs are (N, C, ...) or (C, ...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import NodeBuilder, acc_mapper, declare

# A `stride` of None is kernel_size, an `output_size` of None keeps an axis.

# With `return_indices` they give (maxima, where these lie in the input's last axes, flattened).
_ARGUMENTS = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
_max_pools = [
    declare(f"max_pool1d({_ARGUMENTS})", F.max_pool1d, torch.max_pool1d),
    declare(f"max_pool2d({_ARGUMENTS})", F.max_pool2d, torch.max_pool2d),
    declare(f"max_pool3d({_ARGUMENTS})", F.max_pool3d, torch.max_pool3d),
]
_adaptive_max_pools = [
    declare(f"{f.__name__}(input, output_size, return_indices=False)", f)
    for f in (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
]


def _register_with_indices(pool: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Map a function that is what a pool is with `return_indices`, which torch's modules call instead."""

    @acc_mapper(function)
    def mapper(
        b: NodeBuilder,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> Any:
        window = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
        return b(pool, input=input, **window, ceil_mode=ceil_mode, return_indices=True)


def _register_adaptive_with_indices(pool: Callable[..., Any], function: Callable[..., Any]) -> None:
    """The same of pools whose windows follow from `output_size`."""

    @acc_mapper(function)
    def mapper(b: NodeBuilder, input: Any, output_size: Any, return_indices: bool = True) -> Any:
        return b(pool, input=input, output_size=output_size, return_indices=True)


_WITH = (F.max_pool1d_with_indices, F.max_pool2d_with_indices, F.max_pool3d_with_indices)
for _pool, _function in zip(_max_pools, _WITH, strict=True):
    _register_with_indices(_pool, _function)
_WITH = (F.adaptive_max_pool1d_with_indices, F.adaptive_max_pool2d_with_indices, F.adaptive_max_pool3d_with_indices)
for _pool, _function in zip(_adaptive_max_pools, _WITH, strict=True):
    _register_adaptive_with_indices(_pool, _function)
for _rank, _function in enumerate([F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d], 1):
    declare(f"adaptive_avg_pool{_rank}d(input, output_size)", _function)

_WINDOW = "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True"
declare(f"avg_pool1d({_WINDOW})", F.avg_pool1d)
declare(f"avg_pool2d({_WINDOW}, divisor_override=None)", F.avg_pool2d)
declare(f"avg_pool3d({_WINDOW}, divisor_override=None)", F.avg_pool3d)
declare("lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False)", F.lp_pool1d)
declare("lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False)", F.lp_pool2d)

# the second target is what Dynamo, which inlines F.pad, calls
_pad = declare("pad(input, pad, mode='constant', value=None)", F.pad, vars(torch)["_C"]._nn.pad)


@acc_mapper(torch.constant_pad_nd)
def _constant_pad(b: NodeBuilder, input: Any, pad: Sequence[int], value: float = 0) -> Any:
    return b(_pad, input=input, pad=pad, mode="constant", value=value)


declare(
    "interpolate(input, size=None, scale_factor=None, mode='nearest', align_corners=None, "
    "recompute_scale_factor=None, antialias=False)",
    F.interpolate,
)
declare("pixel_shuffle(input, upscale_factor)", F.pixel_shuffle, torch.pixel_shuffle)
declare("pixel_unshuffle(input, downscale_factor)", F.pixel_unshuffle)
declare("channel_shuffle(input, groups)", F.channel_shuffle)
declare("unfold(input, kernel_size, dilation=1, padding=0, stride=1)", F.unfold)
declare("grid_sample(input, grid, mode='bilinear', padding_mode='zeros', align_corners=None)", F.grid_sample)
