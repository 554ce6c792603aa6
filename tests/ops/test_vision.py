from typing import Any

import numpy as np
import pytest
import torch.nn.functional as F
from onnx import helper

from migraphx.ir.operation import ShapeError, operation
from migraphx.ir.shape import Shape
from tests.onnx.one_node import model, theirs
from tests.ops.one_operator import FLOATS, apply, infer, random, tensor
from tests.ops.onnx_oracle import onnx_answer
from tests.tolerances import assert_close


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(19)


# ---- resize ----


@pytest.mark.parametrize("type", FLOATS)
@pytest.mark.parametrize("size", [(14, 18), (5, 4), (11, 9), (1, 1), (7, 20)])
@pytest.mark.parametrize(
    ("mode", "aligned", "ours"),
    [
        ("nearest", None, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
        ("nearest-exact", None, {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}),
        ("bilinear", False, {"mode": "linear"}),
        ("bilinear", True, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("bicubic", False, {"mode": "cubic"}),
        ("bicubic", True, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
    ],
)
def test_resize_against_torch(mode, aligned, ours, size, type, rng):
    x = random(rng, (2, 3, 7, 9), type)
    want = F.interpolate(tensor(x), size, mode=mode, align_corners=aligned)
    assert_close(apply("resize", x, sizes=(2, 3, *size), **ours), want.numpy(), x.dtype, scale=4)


@pytest.mark.parametrize("scale", [2.0, 0.6, 1.3, 1.6, 4 / 3, (1.5, 3.0)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_resize_by_scales_against_torch(mode, scale, rng):
    x = random(rng, (1, 2, 8, 6))
    ours = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}[mode]
    how = "asymmetric" if mode == "nearest" else "half_pixel"
    scales = (1.0, 1.0, *np.broadcast_to(scale, 2))
    want = F.interpolate(tensor(x), scale_factor=scale, mode=mode).numpy()
    got = apply("resize", x, scales=scales, mode=ours, coordinate_transformation_mode=how)
    assert_close(got, want, scale=4)


@pytest.mark.parametrize("lens", [(1, 2, 5), (1, 2, 3, 4, 5)])
def test_resize_of_other_ranks(lens, rng):
    x = random(rng, lens)
    size = tuple(2 * n + 1 for n in lens[2:])
    mode = {3: "linear", 5: "trilinear"}[len(lens)]
    want = F.interpolate(tensor(x), size, mode=mode, align_corners=False).numpy()
    assert_close(apply("resize", x, sizes=(1, 2, *size), mode="linear"), want, scale=4)


@pytest.mark.parametrize(
    "how", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("scale", [2.0, 0.625, 1.375])  # whole in float: the evaluator takes double
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_against_onnx(mode, how, scale, rng):
    x = random(rng, (1, 1, 5, 8))
    scales = np.array([1, 1, scale, scale], np.float32)
    roundings = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
    for rounding in roundings if mode == "nearest" else ["floor"]:
        attributes = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": rounding}
        want = onnx_answer("Resize", x, None, scales, **attributes)
        assert_close(apply("resize", x, scales=tuple(scales), **attributes), want, scale=8)


@pytest.mark.parametrize("attributes", [{"antialias": 1}, {"exclude_outside": 1}])
@pytest.mark.parametrize("scale", [0.3, 0.65, 1.4])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_other_filters_against_onnx(mode, scale, attributes, rng):
    x = random(rng, (1, 1, 9, 8))
    scales = np.array([1, 1, scale, scale], np.float32)
    want = onnx_answer("Resize", x, None, scales, mode=mode, **attributes)
    assert_close(apply("resize", x, scales=tuple(scales), mode=mode, **attributes), want, scale=8)


@pytest.mark.parametrize("lens", [(1, 2, 1, 1), (1, 2, 1, 3)])
def test_infinities_of_one_row_against_onnxruntime(lens, rng):
    """Both neighbours are the one element that there is, and none has a weight of 0, which would make NaN of it."""
    x = random(rng, lens)
    x[0, 0, 0, 0], x[0, 1, -1, -1] = np.inf, np.nan
    scales = np.array([1, 1, 7, 5], np.float32)
    data = model(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")], {"x": x}, ["y"], {"scales": scales}
    )
    (want,) = theirs(data, {"x": x})
    got = apply("resize", x, scales=tuple(scales), mode="linear")
    assert np.isposinf(got[0, 0, :3, :2]).all()
    assert_close(got, want, scale=8)


def test_resize_of_integers_and_layout(rng):
    x = random(rng, (1, 2, 3, 4), "int8")
    got = apply("resize", x, sizes=(1, 2, 6, 8), coordinate_transformation_mode="asymmetric")
    np.testing.assert_array_equal(got, x.repeat(2, 2).repeat(2, 3))
    nhwc = Shape("float", (1, 3, 4, 4), (48, 1, 12, 3))
    assert infer("resize", nhwc, sizes=(1, 3, 8, 8)).strides == (192, 1, 24, 3)
    np.testing.assert_array_equal(apply("resize", x, sizes=x.shape), x)


# ---- regions and boxes ----


def regions(rng: np.random.Generator, n: int, size: float) -> np.ndarray:
    """Random boxes x1, y1, x2, y2, some of which reach outside."""
    corners = rng.uniform(-2, size + 2, (n, 2, 2)).astype(np.float32)
    return np.concatenate([corners.min(1), corners.max(1)], 1)


@pytest.mark.parametrize("how", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roialign(mode, samples, how, rng):
    x, rois, images = random(rng, (2, 3, 12, 10)), regions(rng, 6, 20), rng.integers(0, 2, 6)
    attributes = {"mode": mode, "output_height": 2, "output_width": 3, "sampling_ratio": samples}
    attributes |= {"coordinate_transformation_mode": how, "spatial_scale": 0.5}
    want = onnx_answer("RoiAlign", x, rois, images, **attributes)
    assert_close(apply("roialign", x, rois, images, **attributes), want, scale=4)


def test_roialign_names_a_wrong_image(rng):
    with pytest.raises(IndexError, match="roialign: image 2 of region 0"):
        apply("roialign", random(rng, (2, 1, 4, 4)), regions(rng, 1, 4), np.array([2]))


@pytest.mark.parametrize("edge", [1e30, np.inf, np.nan])
def test_roialign_of_a_region_without_bound(edge, rng):
    """A region is an input: it must not keep the machine busy for ever."""
    x, images = random(rng, (1, 1, 4, 4)), np.array([0])
    with pytest.raises(IndexError, match="more than 4096 samples"):
        apply("roialign", x, np.array([[0, 0, edge, 2]], np.float32), images)
    assert not apply("roialign", x, np.array([[0, 0, -1e30, 2]], np.float32), images).any()


@pytest.mark.parametrize("centered", [False, True])
def test_nonmaxsuppression(centered, rng):
    boxes = np.stack([regions(rng, 30, 10) for _ in range(2)])
    scores = rng.random((2, 3, 30)).astype(np.float32)
    given = boxes
    if centered:
        given = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    limits = np.array([5]), np.array([0.3], np.float32), np.array([0.2], np.float32)
    got = apply("nonmaxsuppression", given, scores, *limits, center_point_box=centered)
    want = onnx_answer("NonMaxSuppression", given, scores, *limits, center_point_box=int(centered))
    assert len(want) > 6
    np.testing.assert_array_equal(got[: len(want)], want)
    assert got.shape == (180, 3) and not got[len(want) :].any()


def test_im2col(rng):
    x, w = random(rng, (1, 3, 6, 7)), random(rng, (4, 3, 3, 2))
    got = apply("im2col", x, w, padding=(1, 0), stride=(2, 1))
    want = F.unfold(tensor(x), (3, 2), padding=(1, 0), stride=(2, 1))[0].T
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize(
    ("name", "lens", "attributes", "why"),
    [
        ("resize", [(1, 2, 3)], {}, "needs scales or sizes"),
        ("resize", [(1, 2, 3)], {"sizes": (4,)}, "sizes needs 3"),
        ("resize", [(1, 2, 3)], {"sizes": (1, 2, 0)}, "sizes needs 3"),
        ("resize", [(1, 2, 3)], {"scales": (1, 1, 0.1)}, "output is empty"),
        ("resize", [(1, 2, 0)], {"sizes": (1, 2, 3)}, "input is empty"),
        ("resize", [(1, 2, 3)], {"sizes": (1, 2, 6), "mode": "bilinear"}, "mode must be"),
        ("resize", [(1, 2, 3)], {"sizes": (1, 2, 6), "nearest_mode": "round"}, "nearest_mode must be"),
        ("resize", [(1, 2, 3)], {"sizes": (1, 2, 6), "coordinate_transformation_mode": "corners"},
         "coordinate_transformation_mode must be"),
        ("resize", [(1, 2, 3)], {"sizes": (1, 2, 6), "coordinate_transformation_mode": "tf_crop_and_resize"},
         "roi needs 6 values"),
        ("resize", [(1, 2)], {"scales": (1, float("inf"))}, "must be finite"),
        ("resize", [(1, 2)], {"sizes": (1, 3), "roi": (0, float("nan"), 1, 1)}, "must be finite"),
        ("roialign", [(1, 2, 3, 4), (5, 3), (5,)], {}, "needs x"),
        ("roialign", [(1, 2, 3, 4), (5, 4), (5,)], {"mode": "sum"}, "mode must be"),
        ("roialign", [(1, 2, 0, 4), (5, 4), (5,)], {}, "images are empty"),
        ("roialign", [(1, 2, 3, 4), (5, 4), (5,)], {"sampling_ratio": 2**62}, "sampling_ratio"),
        ("nonmaxsuppression", [(1, 9, 4), (1, 2, 8), (1,), (1,), (1,)], {}, "needs boxes"),
        ("im2col", [(2, 3, 4, 4), (1, 3, 2, 2)], {}, "one image"),
    ],
)  # fmt: skip
def test_bad_input(name, lens, attributes, why):
    shapes = [Shape("float", some) for some in lens]
    with pytest.raises(ShapeError, match=why) as error:
        infer(name, *shapes, **attributes)
    assert all(word in str(error.value) for word in (f"{name}: ", *map(str, shapes)))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_places_that_are_no_numbers(mode):
    """1e308 + 0 * inf: what is read lies in the input all the same."""
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (1e308, -1e308)}
    resize: Any = operation("resize", sizes=(4,), mode=mode, **crop)
    taps = resize.taps((3,), 0)
    assert taps is not None and taps[0].min() >= 0 and taps[0].max() < 3


def test_linear_resize_refuses_integers():
    with pytest.raises(ShapeError, match="linear takes floats"):
        infer("resize", Shape("int32", (1, 2, 3)), sizes=(1, 2, 6), mode="linear")
