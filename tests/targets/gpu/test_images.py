"""Resampling, regions, boxes, normalisation over channels, determinants on target gpu against ref."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir.shape import Shape
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu import side_by_side
from tests.targets.gpu.side_by_side import built, check, one
from tests.targets.gpu.test_indexing import random
from tests.tiers import few

pytestmark = pytest.mark.usefixtures("everywhere")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    ("lens", "sizes", "type"),
    [
        ((1, 2, 5, 6), (1, 2, 9, 4), "float"),
        ((2, 3, 7), (2, 3, 12), "half"),
        ((3, 4), (5, 6), "double"),
        ((1, 2, 3, 4, 3), (1, 2, 6, 4, 5), "bf16"),
    ],
)
def test_resize(mode, lens, sizes, type):
    check(built(lambda b, x: b.resize(x, sizes=sizes, mode=mode), Shape(type, lens)))


def test_resize_of_layouts_and_filters():
    layout = Shape("half", (2, 20, 5, 6), (600, 1, 120, 20))
    check(built(lambda b, x: b.resize(x, sizes=(2, 20, 10, 12), mode="linear"), layout))
    check(built(lambda b, x: b.resize(x, sizes=(2, 20, 10, 3), mode="nearest"), layout))
    made = built(
        lambda b, x: b.resize(x, sizes=(1, 1, 3, 4), mode="cubic", antialias=True), Shape("float", (1, 1, 9, 11))
    )
    check(made)
    check(built(lambda b, x: b.resize(x, sizes=(4, 6)), Shape("int8", (2, 3))))
    check(built(lambda b, x: b.resize(x, sizes=(2, 3), scales=(1.0, 1.0)), Shape("float", (2, 3))))


@pytest.mark.parametrize("type", ["float", "half", "double"])
def test_lrn(type):
    for lens, size in (((2, 7, 3, 4), 5), ((2, 20), 4), ((1, 33, 2, 2), 3)):
        check(built(one("lrn", size=size, alpha=0.3, beta=0.7, bias=2.0), Shape(type, lens)))


@pytest.mark.parametrize("mode", few(["avg", "max"], "avg"))
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", few([0, 2], 0))
def test_roialign(mode, coordinates, ratio):
    rois = np.array([[1, 1, 6, 5], [0, 0, 2, 2], [3.3, 2.1, 3.4, 2.2], [-4, -3, 12, 9]], np.float32)
    inputs = {"x0": random("float", (2, 3, 7, 8)), "x1": rois, "x2": np.array([0, 1, 1, 0], np.int64)}
    options = {"mode": mode, "coordinate_transformation_mode": coordinates, "sampling_ratio": ratio}
    made = built(
        lambda b, x, r, i: b.roialign(x, r, i, output_height=2, output_width=3, spatial_scale=0.9, **options),
        *[Shape.of(v) for v in inputs.values()],
    )
    compiled = check(made, inputs)
    with pytest.raises(IndexError, match="the image of a region is not one of 2: found 2"):
        compiled.run(inputs | {"x2": np.array([0, 1, 2, 0], np.int64)})
    if not ratio:
        rois = rois.copy()
        rois[1, 2] = 1e9
        with pytest.raises(IndexError, match="samples of a bin"):
            compiled.run(inputs | {"x1": rois})


@pytest.mark.parametrize("centered", few([False, True], False))
def test_non_max_suppression(centered):
    rng = np.random.default_rng(0)
    boxes = rng.random((2, 12, 4)).astype(np.float32)
    boxes[..., 2:] *= 0.5
    scores = rng.integers(0, 12, (2, 3, 12)).astype(np.float32) / 12
    for most, least in ((4, 0.3), (0, 0.0), (100, -1.0)):
        limits = [np.array([v], t) for v, t in ((most, np.int64), (0.3, np.float32), (least, np.float32))]
        values = [boxes, scores, *limits]
        made = built(
            lambda b, *args: b.nonmaxsuppression(*args, center_point_box=centered), *[Shape.of(v) for v in values]
        )
        check(made, {f"x{k}": v for k, v in enumerate(values)})


@pytest.mark.slow
def test_det():
    for lens in ((5, 4, 4), (1, 1), (2, 3, 9, 9), (2, 20, 20)):
        check(built(lambda b, x: b.det(x), Shape("float", lens)), scale=10)
    singular = np.array([[[0, 1], [2, 3]], [[0, 0], [1, 1]], [[1, 2], [2, 4]]], np.float64)
    check(built(lambda b, x: b.det(x), Shape("double", (3, 2, 2))), {"x0": singular})


@pytest.mark.parametrize("type", few(["float", "double"], "float"))
@pytest.mark.parametrize("count", few([1, 311, 700], 311))
def test_random_numbers_are_those_of_numpy(type, count):
    made = built(lambda b, s, x: b.random_uniform(s, x), Shape("uint64", (1,)), Shape(type, (count,)))
    for seed in (0, 5489, 2**32 + 17):
        check(
            made,
            {"x0": np.array([seed], np.uint64), "x1": np.zeros(count, np.float32 if type == "float" else np.float64)},
        )


def test_seeds_differ():
    compiled = compiled_on_gpu(built(lambda b: [b.random_seed(), b.random_seed(dtype="int32")]))
    seen = {int(np.asarray(v)[0]) for _ in range(4) for v in compiled.run({})}
    assert len(seen) == 8 and all(0 <= v < 2**31 for v in seen)


def compiled_on_gpu(made):
    """Compiled; there is nothing to compare."""
    made.compile(GpuTarget(side_by_side.DEVICE()))
    return made


@pytest.mark.parametrize("type", ["float", "half"])
def test_multinomial(type):
    sums = np.cumsum(np.random.default_rng(0).random((3, 40)), 1).astype(np.float16 if type == "half" else np.float32)
    drawn = np.random.default_rng(1).random((3, 50)).astype(sums.dtype)
    for dtype in ("int32", "int64"):
        made = built(one("multinomial", dtype=dtype), Shape.of(sums), Shape.of(drawn))
        check(made, {"x0": sums, "x1": drawn})
