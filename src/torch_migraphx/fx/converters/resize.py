"""Resampling: F.interpolate and the upsample overloads of ATen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens, per_dimension, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.converters.image import adaptive
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten

MODES = ("bilinear", "nearest", "bicubic")
PADDING = ("zeros", "border", "reflection")
"""What the numbers of aten::grid_sampler mean."""

NEAREST = {"nearest": "asymmetric", "nearest-exact": "tf_half_pixel_for_nn"}
ANTIALIASED = {"bilinear": aten._upsample_bilinear2d_aa.default, "bicubic": aten._upsample_bicubic2d_aa.default}
SMOOTH = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def resized(
    b: Builder, x: Value, sizes: Sequence[int], scales: Sequence[float | None], mode: str, align_corners: bool
) -> Value:
    """The spatial dimensions of x as `sizes`; where `scales` are known, they place the elements."""
    n = len(sizes)
    attributes: dict[str, Any] = {"sizes": [*lens(x)[:-n], *sizes]}
    if all(s is not None for s in scales) and not align_corners:
        attributes["scales"] = [1.0, 1.0, *(float(s) for s in scales if s is not None)]
    if mode in NEAREST:
        attributes |= {
            "mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": NEAREST[mode],
        }  # fmt: skip
    elif mode in SMOOTH:
        how = "align_corners" if align_corners else "half_pixel"
        attributes |= {"mode": SMOOTH[mode], "coordinate_transformation_mode": how}
    else:
        raise UnsupportedError(f"interpolate with mode={mode!r}")
    if mode in SMOOTH and not dtype_of(x).is_floating_point:
        raise UnsupportedError(f"{mode} interpolation of {dtype_of(x)}")
    return b.resize(x, **attributes)


@converter(acc_ops.interpolate)
def interpolate(
    b: Builder,
    input: Value,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Value:
    n = rank(input) - 2
    scales: list[float | None] = [None] * n
    if size is None:
        factors = [float(s) for s in ([scale_factor] * n if isinstance(scale_factor, int | float) else scale_factor)]
        size = [math.floor(k * s) for k, s in zip(lens(input)[2:], factors, strict=True)]
        scales = [None] * n if recompute_scale_factor else list(factors)
    sizes = per_dimension(size, n)
    if antialias:
        return antialiased(b, input, sizes, scales, mode, bool(align_corners))
    if mode == "area":
        return adaptive(b, input, n, "average", sizes)
    return resized(b, input, sizes, scales, mode, bool(align_corners))


def antialiased(
    b: Builder, x: Value, sizes: Sequence[int], scales: Sequence[float | None], mode: str, align_corners: bool
) -> Value:
    """A product with a matrix of weights along each axis; torch gives the weights, as its answer for unit images."""
    eager = ANTIALIASED.get(mode)
    own = dtype_of(x)
    if eager is None or not own.is_floating_point or len(sizes) != 2:
        raise UnsupportedError(f"{mode} interpolation with antialias of {own}")
    wide = torch.promote_types(own, torch.float32)
    weights = [
        eager(torch.eye(n, dtype=wide)[None, None], [out, n], align_corners, scale, None)[0, 0]
        for n, out, scale in zip(lens(x)[2:], sizes, scales, strict=True)
    ]
    rows = b.matmul(b.literal(weights[0].contiguous()), b.cast(x, wide))
    return b.cast(b.matmul(rows, b.literal(weights[1].t().contiguous())), own)


def _upsample(mode: str, n: int, antialias: bool = False) -> Callable[..., Value]:
    """The `vec` overloads: an output size, or one scale for each dimension."""

    def upsample(
        b: Builder,
        input: Value,
        output_size: Sequence[int] | None = None,
        scale_factors: Sequence[float] | None = None,
        align_corners: bool = False,
    ) -> Value:
        return interpolate(b, input, output_size, scale_factors, mode, align_corners, antialias=antialias)

    return upsample


def _nearest(mode: str, n: int) -> Callable[..., Value]:
    def nearest(
        b: Builder,
        input: Value,
        output_size: Sequence[int],
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Value:
        given = [scales] if n == 1 else [scales_d, scales_h, scales_w][-n:]
        return resized(b, input, output_size, given, mode, False)

    return nearest


def _smooth(mode: str, n: int, antialias: bool = False) -> Callable[..., Value]:
    def smooth(
        b: Builder,
        input: Value,
        output_size: Sequence[int],
        align_corners: bool,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Value:
        given = [scales] if n == 1 else [scales_d, scales_h, scales_w][-n:]
        return (antialiased if antialias else resized)(b, input, output_size, given, mode, align_corners)

    return smooth


for _n in (1, 2, 3):
    for _prefix, _mode in (("upsample_nearest", "nearest"), ("_upsample_nearest_exact", "nearest-exact")):
        _op = getattr(aten, f"{_prefix}{_n}d")
        converter(_op.default)(_nearest(_mode, _n))
        converter(_op.vec)(_upsample(_mode, _n))
for _word, _n in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2)):
    _op = getattr(aten, f"upsample_{_word}")
    converter(_op.default)(_smooth(_word[:-2], _n))
    converter(_op.vec)(_upsample(_word[:-2], _n))
for _mode in ANTIALIASED:
    _op = getattr(aten, f"_upsample_{_mode}2d_aa")
    converter(_op.default)(_smooth(_mode, 2, True))
    converter(_op.vec)(_upsample(_mode, 2, True))


@converter(
    *(acc_ops.grid_sample, named(aten.grid_sampler.default, interpolation_mode="mode")),
    named(aten.grid_sampler_2d.default, interpolation_mode="mode"),
    named(aten.grid_sampler_3d.default, interpolation_mode="mode"),
)
def grid_sample(
    b: Builder, input: Value, grid: Value, mode: str | int = "bilinear", padding_mode: str | int = "zeros",
    align_corners: bool | None = None,
) -> Value:  # fmt: skip
    return b.grid_sample(
        input, grid, mode=MODES[mode] if isinstance(mode, int) else mode,
        padding_mode=PADDING[padding_mode] if isinstance(padding_mode, int) else padding_mode,
        align_corners=bool(align_corners),
    )  # fmt: skip
