"""Operators of image models: resampling, regions of interest, boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.ops.convolution import both_sides, check_padding, check_windows, window_lens, windows
from migraphx.ops.indexing import check_indices
from migraphx.ops.movement import keep_layout

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip


class Resize(Operation, name="resize"):
    """Resample each dimension to `sizes`, or by `scales` (ONNX Resize, aten::upsample_*).

    sizes and scales have one value for each dimension. Where both are given, `sizes` are the output's lens
    and `scales` place its elements on the input. mode: `nearest`, `linear` or `cubic` (of `cubic_coeff_a`).
    `antialias` widens the filter by what a dimension shrinks; `exclude_outside` gives elements beyond the edge no
    weight, instead of the edge's value. `tf_crop_and_resize` resamples the region `roi`: starts, then ends, as
    shares of each dimension.
    """

    MODES: ClassVar[tuple[str, ...]] = ("nearest", "linear", "cubic")
    ROUNDINGS: ClassVar[tuple[str, ...]] = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    arity = 1
    spatial = True
    scales: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    nearest_mode: str = "floor"
    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    roi: tuple[float, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        for what, value, known in (
            ("mode", self.mode, self.MODES),
            ("nearest_mode", self.nearest_mode, self.ROUNDINGS),
            ("coordinate_transformation_mode", self.coordinate_transformation_mode, COORDINATES),
        ):
            self.require(value in known, inputs, f"{what} must be one of {', '.join(known)}")
        numbers = (*self.scales, *self.roi)
        self.require(all(map(math.isfinite, numbers)), inputs, "scales and roi must be finite")  # they become indices
        for what, values in (("scales", self.scales), ("sizes", self.sizes)):
            right = not values or (len(values) == x.ndim and all(v > 0 for v in values))
            self.require(right, inputs, f"{what} needs {x.ndim} positive values")
        self.require(bool(self.scales or self.sizes), inputs, "needs scales or sizes")
        cropped = self.coordinate_transformation_mode == "tf_crop_and_resize"
        self.require(not cropped or len(self.roi) == 2 * x.ndim, inputs, f"roi needs {2 * x.ndim} values")
        self.require(self.mode == "nearest" or x.type in dtypes.FLOATS, inputs, f"{self.mode} takes floats")
        self.require(x.elements > 0, inputs, "the input is empty")
        lens = self.out_lens(x.lens)
        self.require(all(n > 0 for n in lens), inputs, "the output is empty")
        return keep_layout(x, lens)

    def out_lens(self, lens: Sequence[int]) -> tuple[int, ...]:
        return self.sizes or tuple(math.floor(n * s) for n, s in zip(lens, self.scales, strict=True))

    def taps(self, lens: Sequence[int], axis: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Along `axis`: indices {taps, out} into the input and their weights {taps, out}; None: unchanged."""
        n, out = lens[axis], self.out_lens(lens)[axis]
        scale = self.scales[axis] if self.scales else out / n
        whole = not self.roi or (self.roi[axis], self.roi[len(lens) + axis]) == (0, 1)
        if n == out and scale == 1 and whole:
            return None
        at = self.positions(lens, axis)
        if self.mode == "nearest":
            rounding: dict[str, Callable[[np.ndarray], np.ndarray]] = {
                "floor": np.floor,
                "ceil": np.ceil,
                "round_prefer_floor": lambda v: np.ceil(v - 0.5),
                "round_prefer_ceil": lambda v: np.floor(v + 0.5),
            }
            return _indices(rounding[self.nearest_mode](at), n)[None], np.ones((1, out))
        left = np.floor(at)
        squeeze = min(scale, 1.0) if self.antialias else 1.0
        reach = math.ceil((1 if self.mode == "linear" else 2) / squeeze)
        offsets = np.arange(1 - reach, reach + 1)[:, None]
        distance = np.abs(offsets - (at - left)) * squeeze
        weights = np.maximum(1 - distance, 0) if self.mode == "linear" else cubic_weights(distance, self.cubic_coeff_a)
        positions = left + offsets
        if self.exclude_outside:
            weights = weights * ((positions >= 0) & (positions < n))
        if self.exclude_outside or squeeze < 1:
            weights = weights / weights.sum(0)
        indices = _indices(positions, n)
        if self.mode == "linear" and reach == 1 and not self.exclude_outside:
            # Beyond an edge both neighbours are one element. With a weight of 0 infinities would become NaN there.
            weights = np.where(indices[0] == indices[1], 0.5, weights)
        return indices, weights

    def repeats(self, lens: Sequence[int]) -> bool:
        """Whether there is one element along each dimension that is resampled, which all of the output is then."""
        if any(m not in (1, n) for m, n in zip(lens, self.out_lens(lens), strict=True)):
            return False
        taps = [(n, t[1]) for d, n in enumerate(lens) if (t := self.taps(lens, d)) is not None]
        return all(n == 1 and bool((w > 0).all() and (w.sum(0) == 1).all()) for n, w in taps)

    def positions(self, lens: Sequence[int], axis: int) -> np.ndarray:
        """Where each element along `axis` of the output lies on the input, in elements."""
        n, out = lens[axis], self.out_lens(lens)[axis]
        scale = self.scales[axis] if self.scales else out / n
        how = self.coordinate_transformation_mode
        single = bool(self.scales) and self.mode == "nearest" and how != "half_pixel_symmetric"
        i = np.arange(out, dtype=np.float32 if single else np.float64)  # scales are floats: 4 / 1.3333334 is meant as 3
        scale = np.float32(scale) if single else scale

        def step(v: np.ndarray) -> np.ndarray:
            return v / scale if self.scales else v * n / out  # the latter is exact

        last = n * scale - 1 if self.scales else out - 1  # of a length that may be no whole number
        if how == "align_corners":
            return i * (n - 1) / last if last else np.zeros(out)
        if how == "tf_crop_and_resize":
            start, end = self.roi[axis], self.roi[len(lens) + axis]
            return (n - 1) * (start + (i / last if last else i + 0.5) * (end - start))
        if how == "asymmetric":
            return step(i)
        if how == "tf_half_pixel_for_nn":
            return step(i + 0.5)
        if how == "pytorch_half_pixel" and out == 1:
            return np.zeros(1)
        shift = n / 2 * (1 - out / (n * scale)) if how == "half_pixel_symmetric" else 0.0
        return shift + step(i + 0.5) - 0.5

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        y = x if self.mode == "nearest" else dtypes.wide(x)
        for axis in range(x.ndim):
            taps = self.taps(x.shape, axis)
            if taps is None:
                continue
            column = (-1, *(1,) * (x.ndim - 1 - axis))
            pairs = zip(*taps, strict=True)
            if self.mode == "nearest":
                y = np.take(y, taps[0][0], axis)
            else:
                parts = [np.take(y, i, axis) * w.astype(y.dtype).reshape(column) for i, w in pairs]
                y = np.sum(parts, 0, dtype=y.dtype)
        return y.astype(x.dtype)


def _indices(positions: np.ndarray, n: int) -> np.ndarray:
    """Clamped to 0 .. n - 1; roi and scales may be such that a place is no number."""
    return np.clip(np.nan_to_num(positions), 0, n - 1).astype(np.int64)


def cubic_weights(d: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution weights of neighbours at distances `d`; 0 from 2 on."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


class Im2col(Operation, name="im2col"):
    """The windows that a kernel of one group sees: {1, C, H, W} and weights -> {positions, C * kernel}."""

    arity = 2
    padding: tuple[int, ...] = (0, 0)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)

    def infer(self, *inputs: Shape) -> Shape:
        x, w = inputs
        check_windows(self, inputs, stride=self.stride, dilation=self.dilation)
        check_padding(self, inputs, self.padding, 0)
        right = x.lens[0] == 1 and w.ndim == x.ndim and w.lens[1] == x.lens[1]
        self.require(right, inputs, "needs one image and weights of its channels")
        lens = self.out_lens(x.lens[2:], w.lens[2:])
        self.require(all(n >= 1 for n in lens), inputs, "the kernel exceeds the padded input")
        return Shape(x.type, (math.prod(lens), math.prod(w.lens[1:])))

    def sides(self, lens: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Padding before, and behind, each of the spatial dimensions."""
        both = both_sides(self.padding, len(lens))
        return tuple(b for b, _ in both), tuple(e for _, e in both)

    def out_lens(self, lens: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """How many positions the kernel has along each spatial dimension."""
        return window_lens(lens, kernel, both_sides(self.padding, len(lens)), self.stride, self.dilation)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, w = args
        padded = np.pad(x, [(0, 0), (0, 0), *both_sides(self.padding, x.ndim - 2)])
        view = windows(padded, w.shape[2:], self.stride, self.dilation)[0]
        out = view.shape[1 : x.ndim - 1]
        return np.moveaxis(view, 0, x.ndim - 2).reshape(math.prod(out), math.prod(w.shape[1:]))


class RoiAlign(Operation, name="roialign"):
    """Bilinear samples of regions of {N, C, H, W}, pooled to {rois, C, height, width} (ONNX RoiAlign).

    Inputs: x, rois {rois, 4} as x1, y1, x2, y2, and each one's image {rois}. sampling_ratio 0: as many
    samples a bin as input elements. mode: `avg` or `max` of a bin's samples. With `half_pixel`, coordinates
    move by half an element and regions may be empty; with `output_half_pixel`, sides are at least 1
    (torchvision's aligned=True and aligned=False).
    """

    MODES: ClassVar[tuple[str, ...]] = ("avg", "max")
    COORDINATES: ClassVar[tuple[str, ...]] = ("half_pixel", "output_half_pixel")
    MOST_SAMPLES: ClassVar[int] = 4096  # of a bin along an axis: a region is an input, and may be of any size
    arity = 3
    can_fail = True
    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    def infer(self, *inputs: Shape) -> Shape:
        x, rois, images = inputs
        for what, value, known in (
            ("mode", self.mode, self.MODES),
            ("coordinate_transformation_mode", self.coordinate_transformation_mode, self.COORDINATES),
        ):
            self.require(value in known, inputs, f"{what} must be one of {', '.join(known)}")
        self.require(x.type == rois.type, inputs, "x and rois differ in type")
        right = x.ndim == 4 and rois.ndim == 2 and rois.lens[1:] == (4,) and images.lens == rois.lens[:1]
        self.require(right, inputs, "needs x {N, C, H, W}, rois {rois, 4}, images {rois}")
        self.require(all(n >= 1 for n in x.lens[2:]), inputs, "the images are empty")
        self.require(x.type in dtypes.FLOATS, inputs, "takes floats")
        check_indices(self, inputs, images)
        self.require(min(self.output_height, self.output_width) >= 1, inputs, "the output is empty")
        right = 0 <= self.sampling_ratio <= self.MOST_SAMPLES
        self.require(right, inputs, f"sampling_ratio is not in 0 .. {self.MOST_SAMPLES}")
        return Shape(x.type, (rois.lens[0], x.lens[1], self.output_height, self.output_width))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        """Four weighted corners a sample; where the regions decide how many samples, as for two along an axis."""
        return output.elements * (self.sampling_ratio or 2) ** 2 * 8

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, rois, images = args
        pooled = np.zeros((len(rois), x.shape[1], self.output_height, self.output_width))
        for n, (roi, image) in enumerate(zip(dtypes.wide(rois), images, strict=True)):
            if not 0 <= image < len(x):
                raise IndexError(f"roialign: image {image} of region {n} is not one of {len(x)}")
            pooled[n] = self._pool(dtypes.wide(x[image]), roi)
        return pooled.astype(x.dtype)

    def _pool(self, x: np.ndarray, roi: np.ndarray) -> np.ndarray:
        """One region of {C, H, W}."""
        half = 0.5 if self.coordinate_transformation_mode == "half_pixel" else 0.0
        x1, y1, x2, y2 = (float(v) * self.spatial_scale - half for v in roi)
        height, width = y2 - y1, x2 - x1
        if not half:
            height, width = max(height, 1.0), max(width, 1.0)
        ys = self._samples(y1, height, self.output_height)
        xs = self._samples(x1, width, self.output_width)
        if not len(ys) or not len(xs):
            return np.zeros(1)
        (y0, wy), (x0, wx) = sample_weights(ys, x.shape[1]), sample_weights(xs, x.shape[2])
        corners = np.stack([
            wy[a][:, None] * wx[b] * x[:, y0[a][:, None], x0[b]] for a in range(2) for b in range(2)
        ])  # fmt: skip
        grid = (x.shape[0], self.output_height, len(ys) // self.output_height, self.output_width, -1)
        if self.mode == "max":  # ONNX takes the largest weighted corner, not the largest sample
            return corners.max(0).reshape(grid).max((2, 4))
        return corners.sum(0).reshape(grid).mean((2, 4))

    def _samples(self, start: float, length: float, bins: int) -> np.ndarray:
        """Coordinates of the samples of every bin, in order."""
        if not (self.sampling_ratio or length / bins <= self.MOST_SAMPLES):
            raise IndexError(f"roialign: a bin of a region has more than {self.MOST_SAMPLES} samples, or NaN")
        per_bin = self.sampling_ratio or math.ceil(max(length / bins, 0))
        return start + (np.arange(bins * max(per_bin, 0)) + 0.5) * (length / bins / max(per_bin, 1))


def sample_weights(at: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two neighbours {2, samples} of each coordinate and their weights; 0 beyond one element outside."""
    inside = (at >= -1) & (at <= n)
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int64)
    t = at - low
    return np.stack([low, np.minimum(low + 1, n - 1)]), np.stack([1 - t, t]) * inside


class NonMaxSuppression(Operation, name="nonmaxsuppression"):
    """The best boxes of each class that do not overlap a better one (ONNX NonMaxSuppression).

    Inputs: boxes {N, boxes, 4}, scores {N, classes, boxes}, then one-element inputs: the most boxes a class,
    the overlap (intersection over union) above which a box is dropped, the score below which it is. Gives
    rows (image, class, box), {N * classes * boxes, 3}; rows behind the last one found are 0;
    with `use_dyn_output` there are none.
    """

    arity = 5
    center_point_box: bool = False
    use_dyn_output: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        boxes, scores, *limits = inputs
        right = boxes.ndim == scores.ndim == 3 and boxes.lens[2] == 4
        right = right and (boxes.lens[0], boxes.lens[1]) == (scores.lens[0], scores.lens[2])
        self.require(right, inputs, "needs boxes {N, boxes, 4} and scores {N, classes, boxes}")
        self.require(all(s.elements == 1 for s in limits), inputs, "limits must have one element")
        if self.use_dyn_output:
            return Shape("int64", dyn_dims=(DynamicDimension(0, scores.elements), DynamicDimension(3, 3)))
        return Shape("int64", (scores.elements, 3))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        boxes, scores = (a.astype(np.float32) for a in args[:2])
        most, overlap, least = (a.reshape(-1)[0] for a in args[2:])
        corners = box_corners(boxes, self.center_point_box)
        rows = [
            (n, c, i)
            for n, c in np.ndindex(*scores.shape[:2])
            for i in best_boxes(corners[n], scores[n, c], int(most), float(overlap), float(least))
        ]
        out = np.zeros((len(rows) if self.use_dyn_output else scores.size, 3), np.int64)
        out[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        return out


def box_corners(boxes: np.ndarray, centered: bool) -> np.ndarray:
    """Lower and upper corners (two coordinates each) of boxes given by any two, or by centre and size."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:
        return np.concatenate([a - b / 2, a + b / 2], -1)
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], -1)


def best_boxes(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    """Indices of the boxes kept, best first; equal scores keep their order."""
    kept: list[int] = []
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], -1)
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) >= most:
            break
        sides = np.minimum(boxes[i, 2:], boxes[kept, 2:]) - np.maximum(boxes[i, :2], boxes[kept, :2])
        shared = np.prod(np.maximum(sides, 0), -1)
        union = areas[i] + areas[kept] - shared
        if scores[i] > least and not np.any(shared > overlap * union):
            kept.append(int(i))
    return kept
