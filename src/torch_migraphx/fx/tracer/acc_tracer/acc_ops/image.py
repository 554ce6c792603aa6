"""Acc operators: pooling, padding, resizing, pixel shuffles. Inputs are (N, C, ...) or (C, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import NodeBuilder, acc_mapper, declare, narrower

# A `stride` of None is kernel_size, an `output_size` of None keeps an axis.

_INDICES = "the indices of the maxima are asked for"
for _rank, _functions in enumerate(
    [(torch.max_pool1d, F.max_pool1d), (torch.max_pool2d, F.max_pool2d), (torch.max_pool3d, F.max_pool3d)], 1
):
    _arguments = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False"
    _op = declare(f"max_pool{_rank}d({_arguments})", _functions[0], mapped=False)
    narrower(_op, f"max_pool({_arguments}, return_indices=False)", *_functions, return_indices=_INDICES)
for _rank, _function in enumerate([F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d], 1):
    _arguments = "input, output_size"
    _op = declare(f"adaptive_max_pool{_rank}d({_arguments})", _function, mapped=False)
    narrower(_op, f"adaptive_max_pool({_arguments}, return_indices=False)", _function, return_indices=_INDICES)
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
