"""Resampling, regions of interest, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.operation import operation
from migraphx.ir.shape import broadcast_lens
from migraphx.ir.size import is_open, whole
from migraphx.onnx.builder import OnnxBuilder, axes_in
from migraphx.onnx.converters.standard.indexing import as_found
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter
from migraphx.ops.vision import Resize

Value = Instruction


def _scaled(length: int, factor: float) -> int:
    """floor(length * factor), as float32 has it where the factor is no whole number."""
    if float(factor).is_integer():
        return whole(length) * int(factor)
    return int(np.floor(np.float32(length) * np.float32(factor)))


@converter("Resize")
def resize_10(b: OnnxBuilder, x: Value, scales: Value, *, mode: str) -> Value:
    """The nearest is the next one before, but behind where a dimension shrinks."""
    factors = b.known(scales, "scales").reshape(-1).tolist()
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest" and min(factors, default=1) < 1:
        x = resampled(b, x, scales=[min(f, 1.0) for f in factors], nearest_mode="ceil", **how)
        factors = [max(f, 1.0) for f in factors]
    return resampled(b, x, scales=factors, **how)


@converter("Upsample")
def upsample(
    b: OnnxBuilder, x: Value, scales: Any = None, third: Value | None = None, *, mode: str, **old: float
) -> Value:
    """Scales are an input from opset 9 on, before that an attribute, in opset 1 two of them.

    Some files hold them as the third input, as Resize has them.
    """
    scales = third if scales is None else scales
    if isinstance(scales, Instruction):
        scales = b.known(scales, "scales").reshape(-1).tolist()
    if scales is None and old.keys() != {"height_scale", "width_scale"}:
        raise OnnxError("has no scales")
    if scales is None:
        scales = [1.0, 1.0, old["height_scale"], old["width_scale"]]
    mode = "linear" if mode == "bilinear" else mode
    return resampled(b, x, scales=list(scales), mode=mode, coordinate_transformation_mode="asymmetric")


@converter("Resize", since=11)
def resize(
    b: OnnxBuilder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str,
    cubic_coeff_a: float,
    exclude_outside: int,
    extrapolation_value: float,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str,
    nearest_mode: str,
) -> Value:
    ndim = x.shape.ndim
    dims = tuple(range(ndim)) if axes is None else axes_in(axes, ndim)
    if keep_aspect_ratio_policy not in POLICIES:
        raise OnnxError(f"keep_aspect_ratio_policy must be {' or '.join(POLICIES)}, is {keep_aspect_ratio_policy!r}")
    if scales is None and sizes is None and roi is not None:
        b.deviates("its scales stand where roi would")
        scales, roi = roi, None
    factors = [] if scales is None else b.known(scales, "scales").reshape(-1).tolist()
    lengths = list(b.ints(sizes, "sizes") or ())
    if factors and lengths:
        raise OnnxError(f"scales {factors} and sizes {lengths} exclude each other")
    if factors:
        factors = full(factors, dims, [1.0] * ndim)
        lengths = [_scaled(n, f) for n, f in zip(x.shape.lens, factors, strict=True)]
    elif lengths:
        factors, lengths = kept_aspect(x.shape.lens, lengths, dims, keep_aspect_ratio_policy)
    region: list[float] = []
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            raise OnnxError("tf_crop_and_resize needs roi")
        starts, ends = b.known(roi, "roi").reshape(2, -1).tolist()
        region = full(starts, dims, [0.0] * ndim) + full(ends, dims, [1.0] * ndim)
    made = resampled(
        b,
        x,
        scales=factors,
        sizes=lengths,
        mode=mode,
        cubic_coeff_a=cubic_coeff_a,
        coordinate_transformation_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        antialias=bool(antialias),
        exclude_outside=bool(exclude_outside),
        roi=[float(v) for v in region],
    )
    return extrapolated(b, x, made, factors, region, extrapolation_value) if region else made


def extrapolated(b: OnnxBuilder, x: Value, y: Value, scales: list[float], region: list[float], value: float) -> Value:
    """`value` where y lies outside x."""
    op = Resize(
        scales=tuple(scales),
        sizes=y.shape.lens,
        coordinate_transformation_mode="tf_crop_and_resize",
        roi=tuple(map(float, region)),
    )
    outside = np.zeros((1,) * x.shape.ndim, np.bool_)
    for axis, n in enumerate(x.shape.lens):
        at = op.positions(x.shape.lens, axis).reshape(-1, *(1,) * (x.shape.ndim - 1 - axis))
        outside = outside | (at < 0) | (at > n - 1)
    return b.where(b.literal(outside), b.full(value, y), y) if outside.any() else y


def full(values: Sequence[Any], dims: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """`others` with `values` in the dimensions `dims`."""
    if len(values) != len(dims):
        raise OnnxError(f"{len(values)} values for {len(dims)} axes")
    out = list(others)
    for axis, value in zip(dims, values, strict=True):
        out[axis] = value
    return out


POLICIES = ("stretch", "not_larger", "not_smaller")


def kept_aspect(
    lens: Sequence[int], sizes: Sequence[int], dims: Sequence[int], policy: str
) -> tuple[list[float], list[int]]:
    """The scales and lens that `sizes` ask for: one scale for all unless the policy is `stretch`, which needs none."""
    wanted = full(sizes, dims, lens)
    if policy == "stretch":
        return [], wanted
    factors = [wanted[a] / lens[a] for a in dims]
    factor = min(factors) if policy == "not_larger" else max(factors)
    lengths = [int(np.floor(factor * lens[a] + 0.5)) for a in dims]
    return full([factor] * len(dims), dims, [1.0] * len(lens)), full(lengths, dims, lens)


def resampled(b: OnnxBuilder, x: Value, *, scales: list[float], mode: str, **attributes: Any) -> Value:
    """Integers take the road through float. Nothing stays nothing."""
    if not is_open(x.shape.lens) and not x.shape.elements:
        lens = attributes.get("sizes") or [int(n * s) for n, s in zip(x.shape.lens, scales, strict=True)]
        return b.literal(np.zeros(lens), x.shape.type)
    wide = x if mode == "nearest" or x.shape.type in dtypes.FLOATS else b.cast(x, "float")
    y = b.resize(wide, scales=tuple(scales), mode=mode, **attributes)
    return b.cast(y if wide is x else b.nearbyint(y), x.shape.type)


@converter("RoiAlign")
def roi_align(
    b: OnnxBuilder,
    x: Value,
    rois: Value,
    images: Value,
    *,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> Value:
    return b.roialign(
        x,
        rois,
        images,
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )


@converter("MaxRoiPool")
def max_roi_pool(b: OnnxBuilder, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float) -> Value:
    """The largest of each bin of regions (1504.08083): {R, C, *pooled_shape}, 0 for a bin that has no element.

    rois {R, 5}: image, then left, top, right and bottom, all of which belong to the region.
    """
    columns = [b.slice(rois, axes=(1,), starts=(k,), ends=(k + 1,)) for k in range(5)]
    images = b.reshape(b.cast(columns[0], "int64"), dims=(-1,))
    at = [rounded(b, b.mul(v, b.full(spatial_scale, v))) for v in columns[1:]]
    in_row = bins(b, at[1], at[3], pooled_shape[0], x.shape.lens[2])
    in_column = bins(b, at[0], at[2], pooled_shape[1], x.shape.lens[3])
    y = b.gather(x, images, axis=0)
    y = largest(b, b.unsqueeze(in_column, axes=(1, 2)), b.unsqueeze(y, axes=(3,)), 4)
    y = largest(b, b.unsqueeze(in_row, axes=(1, 4)), b.unsqueeze(y, axes=(2,)), 3)
    found, across = (b.reduce_any(v, axes=(2,)) for v in (in_row, in_column))
    some = b.logical_and(*b.common(found, b.transpose(across, permutation=(0, 2, 1))))
    return b.where(b.broadcast_to(b.unsqueeze(some, axes=(1,)), y.shape.lens), y, b.full(0.0, y))


def rounded(b: OnnxBuilder, x: Value) -> Value:
    """To the nearest whole number, halves away from 0."""
    return b.mul(b.sign(x), b.floor(b.add(b.abs(x), b.full(0.5, x))))


def bins(b: OnnxBuilder, first: Value, last: Value, count: int, length: int) -> Value:
    """Which of `length` elements the `count` bins of regions from `first` to `last` {R, 1} hold.

    bool {R, count, length}. Bins may share elements.
    """
    size = b.add(b.sub(last, first), b.full(1.0, last))
    step = b.mul(b.max(size, b.full(1.0, size)), b.full(1 / count, size))
    number = b.literal(np.arange(count, dtype=np.float64), first.shape.type)
    start = b.add(*b.common(b.floor(b.mul(*b.common(step, number))), first))
    end = b.add(*b.common(b.ceil(b.mul(*b.common(step, b.add(number, b.full(1.0, number))))), first))
    at = b.literal(np.arange(length, dtype=np.float64), first.shape.type)
    start, end = (b.common(b.unsqueeze(v, axes=(2,)), at) for v in (start, end))
    return b.logical_and(b.greater_or_equal(start[1], start[0]), b.less(end[1], end[0]))


def largest(b: OnnxBuilder, seen: Value, x: Value, axis: int) -> Value:
    """The largest of what is seen along `axis`, which goes; -inf for nothing."""
    lens = broadcast_lens(seen.shape.lens, x.shape.lens)
    seen, x = (b.broadcast_to(v, lens) for v in (seen, x))
    return b.squeeze(b.reduce_max(b.where(seen, x, b.full(-np.inf, x)), axes=(axis,)), axes=(axis,))


@converter("NonMaxSuppression")
def non_max_suppression(
    b: OnnxBuilder,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
    *,
    center_point_box: int,
) -> Value:
    """The number of boxes found depends on the data."""
    limits = (
        b.literal(np.array([0], np.int64)) if most is None else most,
        b.literal(np.array([0], np.float32)) if overlap is None else overlap,
        b.literal(np.array([-np.inf], np.float32)) if least is None else least,
    )
    if center_point_box not in (0, 1):
        raise OnnxError(f"center_point_box {center_point_box} is neither 0 nor 1")
    op = operation("nonmaxsuppression", center_point_box=bool(center_point_box), use_dyn_output=True)
    return as_found(b, op, [boxes, scores, *limits])
