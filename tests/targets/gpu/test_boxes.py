"""Convolutions whose tiles are boxes of pixels, and those of images that nearest neighbours made larger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.convolutions import described_convolutions
from migraphx.targets.gpu.emit.spatial import Conv
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.facts import KNOWN
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu import side_by_side
from tests.targets.gpu.side_by_side import built, check
from tests.targets.gpu.test_contractions import weight
from tests.tiers import few, few_rows

pytestmark = pytest.mark.usefixtures("everywhere")


def channels_last(type: str, *lens: int) -> Shape:
    return permuted(type, lens, (0, *range(2, len(lens)), 1))


def with_bias(b: Builder, x: Instruction, w: np.ndarray, **how: object) -> Instruction:
    given = {"stride": (1,) * (w.ndim - 2), "dilation": (1,) * (w.ndim - 2), **how}
    y = b.convolution(x, b.literal(w), **given)
    bias = weight(w.shape[0], type=str(x.shape.type))
    return b.relu(b.add(y, b.broadcast(b.literal(bias), axis=1, out_lens=y.shape.lens)))


IMAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "whole boxes": ((2, 32, 8, 8), (3, 3), {"padding": (1, 1)}),
    "boxes that end outside": ((3, 32, 5, 7), (3, 3), {"padding": (1, 1)}),
    "no padding, gaps": ((1, 64, 9, 12), (3, 2), {"padding": (0, 0), "dilation": (2, 3)}),
    "more padding behind": ((2, 32, 4, 5), (2, 3), {"padding": (0, 1, 2, 3)}),
    "a line": ((3, 32, 21), (3,), {"padding": (1,)}),
}


@pytest.mark.parametrize("split", few([1, 3], 1))
@pytest.mark.parametrize("case", IMAGES)
def test_boxes(case: str, split: int, always: Callable[..., None]) -> None:
    """Of one image and of several, beyond the edges, behind which are zeros; and the depth in parts."""
    lens, window, how = IMAGES[case]
    always(Config("described", 32, 16, 32, split))
    made = check(
        built(lambda b, x: with_bias(b, x, weight(40, lens[1], *window), **how), channels_last("half", *lens)), scale=4
    )
    (kernel, *_) = cast(GpuExecutable, made.executable).plan.kernels
    assert "described_convolution_sums" in kernel.source


def test_a_part_of_wider_images(always: Callable[..., None]) -> None:
    """The descriptor ends where the channels do: what lies behind them in memory is not read."""
    always(Config("described", 32, 16, 32))

    def build(b: Builder, x: Instruction) -> Instruction:
        part = b.slice(x, axes=(1,), starts=(16,), ends=(48,))
        return with_bias(b, part, weight(24, 32, 3, 3), padding=(1, 1))

    check(built(build, channels_last("half", 2, 80, 6, 5)), scale=4)


TWICE: dict[str, Any] = {"sizes": (1, 32, 8, 6), "coordinate_transformation_mode": "asymmetric"}
UPSAMPLED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "twice": ((2, 32, 4, 5), (2, 2), (3, 3), (1, 1)),
    "of one axis": ((1, 32, 4, 6), (1, 2), (3, 3), (1, 1)),
    "three and four times": ((1, 32, 6, 5), (3, 4), (4, 5), (1, 2, 2, 2)),
    "five times": ((1, 32, 5, 6), (2, 5), (5, 1), (2, 0)),
    "a line": ((2, 32, 9), (2,), (3,), (1,)),
}
UNEVEN: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "three and four times": ((1, 32, 6, 5), (3, 4), (5, 3), (2, 1)),
    "an even window": ((1, 32, 5, 6), (2, 2), (4, 2), (1, 1, 2, 0)),
}


@pytest.mark.parametrize("kernel", few(["convolution", "described"], "described"))
@pytest.mark.parametrize(
    ("case", "split"),
    few_rows([*((case, 1) for case in UPSAMPLED), ("three and four times", 2), ("a line", 2)], at=[0, 1]),
)
def test_upsampled(case: str, kernel: str, split: int, always: Callable[..., None]) -> None:
    """The large images are never stored: one kernel reads the small ones, and adds bias and ReLU."""
    lens, times, window, padding = UPSAMPLED[case]
    always(Config(kernel, 32, 16, 32, split))
    made = check(built(lambda b, x: upsampled(b, x, times, window, padding), channels_last("half", *lens)), scale=4)
    assert {s.kernel for s in made.executable.steps} == {"convolution add relu", "copy"}  # the result as asked for


def upsampled(
    b: Builder, x: Instruction, times: Sequence[int], window: Sequence[int], padding: Sequence[int], **how: object
) -> Instruction:
    scales = (1.0, 1.0, *map(float, times))
    large = b.resize(x, scales=scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    return with_bias(b, large, weight(24, x.shape.lens[1], *window), padding=tuple(padding), **how)


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], int]] = {
    # {N, C, spatial}, window, attributes, kernels
    "of a decoder": ((2, 32, 5, 6), (4, 4), {"stride": (2, 2), "padding": (1, 1)}, 1),
    "as wide as its stride": ((1, 32, 5, 6), (2, 2), {"stride": (2, 2), "padding": (0, 0)}, 1),
    "more taken off behind": ((1, 32, 6, 6), (4, 6), {"stride": (2, 3), "padding": (0, 1, 2, 2)}, 1),
    "a line": ((2, 32, 40), (8,), {"stride": (4,), "padding": (2,)}, 1),
    "phases of fewer taps": ((1, 32, 5, 6), (3, 3), {"stride": (2, 2), "padding": (1, 1, 0, 0)}, 4),
    "pixels left over": ((1, 32, 5, 6), (4, 4), {"stride": (2, 2), "padding": (0, 0)}, 4),
}


@pytest.mark.parametrize("kernel", few(["convolution", "described"], "described"))
@pytest.mark.parametrize("case", few(TRANSPOSED, at=[0, 1]))
def test_transposed(case: str, kernel: str, always: Callable[..., None]) -> None:
    """One kernel where each phase has as many taps, which finishes what follows."""
    lens, window, how, count = TRANSPOSED[case]
    always(Config(kernel, 32, 16, 32))
    w, ones = weight(32, 24, *window), (1,) * len(window)

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.relu(b.convolution_backwards(x, b.literal(w), dilation=ones, **how))

    made = check(built(build, channels_last("half", *lens)), scale=4)
    assert [s.kernel for s in made.executable.steps if s.kernel != "copy"] == ["convolution_backwards relu"] * count


@pytest.mark.parametrize("columns", [16, 17])
def test_boxes_of_few_channels(columns: int) -> None:
    """Tiles of 64 of them would be nearly empty."""
    x = View(Buffer("input", 0), "half", (2, 64, 16, 16), (64 * 256, 1, 64 * 16, 64))
    w = View(Buffer("weight", 0), "half", (columns, 9, 64), (576, 64, 1))
    window = Window.of((16, 16), (16, 16), (3, 3), (1, 1), (1, 1), (1, 1))
    found = described_convolutions(Conv(x, w, window, 1), KNOWN["cuda:90"])
    assert bool(found) is (columns > 16) and all(c.n == 64 for c in found)


@pytest.mark.parametrize("type", few(["half", "bf16", "float"], "half"))
@pytest.mark.parametrize("case", [name for name, (*_, count) in TRANSPOSED.items() if count == 1])
def test_phases_of_few_channels(case: str, type: str) -> None:
    lens, window, how, _ = TRANSPOSED[case]
    w, ones = weight(32, 3, *window, type=type), (1,) * len(window)

    def build(b: Builder, x: Instruction) -> Instruction:
        y = b.convolution_backwards(x, b.literal(w), dilation=ones, **how)
        bias = b.broadcast(b.literal(weight(3, type=type)), axis=1, out_lens=y.shape.lens)
        return b.tanh(b.add(y, bias))

    made = check(built(build, channels_last(type, *lens)), scale=4)
    assert "convolution_backwards add tanh" in [s.kernel for s in made.executable.steps]


def not_a_number(build: Callable[[Builder, Instruction], Instruction], *lens: int) -> None:
    """Where one pixel is NaN, the same results are NaN as on ref."""
    made, x = built(build, channels_last("half", *lens)), weight(*lens)
    x[0, 3, *(1 for _ in lens[2:])] = np.nan
    oracle = made.clone()
    oracle.compile(migraphx.get_target("ref"))
    made.compile(GpuTarget(side_by_side.DEVICE()))
    got, want = (np.asarray(p.run({"x0": x})[0]) for p in (made, oracle))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.slow
@pytest.mark.parametrize("case", UPSAMPLED)
def test_what_is_no_number_in_small_images(case: str) -> None:
    lens, times, window, padding = UPSAMPLED[case]
    not_a_number(lambda b, x: upsampled(b, x, times, window, padding), *lens)


@pytest.mark.slow
@pytest.mark.parametrize("case", UNEVEN)
def test_phases_that_see_fewer_pixels(case: str) -> None:
    """The large images are made: nothing is multiplied by 0."""
    lens, times, window, padding = UNEVEN[case]
    build = lambda b, x: upsampled(b, x, times, window, padding)  # noqa: E731
    made = check(built(build, channels_last("half", *lens)), scale=4)
    assert "resize" in [s.kernel for s in made.executable.steps]
    not_a_number(build, *lens)


@pytest.mark.slow
@pytest.mark.parametrize("case", TRANSPOSED)
def test_what_is_no_number_in_transposed_convolutions(case: str) -> None:
    lens, window, how, _ = TRANSPOSED[case]
    w, ones = weight(32, 24, *window), (1,) * len(window)
    not_a_number(lambda b, x: b.convolution_backwards(x, b.literal(w), dilation=ones, **how), *lens)


def test_large_images_that_others_read() -> None:
    def build(b: Builder, x: Instruction) -> list[Instruction]:
        large = b.resize(x, **TWICE)
        return [with_bias(b, large, weight(24, 32, 3, 3), padding=(1, 1)), b.relu(large), b.tanh(large)]

    made = check(built(build, channels_last("half", 1, 32, 4, 3)), scale=4)
    assert "resize" in [s.kernel for s in made.executable.steps]


APART: dict[str, dict[str, Any]] = {
    "linear": {"mode": "linear"},
    "aligned": {"coordinate_transformation_mode": "align_corners"},
    "by the pixels' middles, rounded down": {"coordinate_transformation_mode": "half_pixel"},
    "not a whole number": {"sizes": (1, 32, 9, 6)},
    "fewer": {"sizes": (1, 32, 3, 3)},
    "images, too": {"sizes": (2, 32, 8, 6)},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", APART)
def test_what_is_no_repetition_is_resized(case: str) -> None:
    """And gives the answers that it gave before."""

    def build(b: Builder, x: Instruction) -> Instruction:
        large = b.resize(x, **{**TWICE, **APART[case]})
        return with_bias(b, large, weight(24, 32, 3, 3), padding=(1, 1))

    made = check(built(build, channels_last("half", 1, 32, 4, 3)), scale=4)
    assert "resize" in [s.kernel for s in made.executable.steps]


def test_sums_are_no_fp8() -> None:
    """Which keeps three bits of them: the large images are made."""

    def build(b: Builder, x: Instruction) -> Instruction:
        large = b.resize(x, **TWICE)
        given: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": (1, 1)}
        return b.convolution(large, b.literal(weight(24, 32, 3, 3, type="fp8e4m3fn")), **given)

    made = check(built(build, channels_last("fp8e4m3fn", 1, 32, 4, 3)), scale=4)
    assert "resize" in [s.kernel for s in made.executable.steps]


def test_weights_whose_sums_are_no_numbers() -> None:
    """Of halves: each of them is one, and so is the answer."""

    def build(b: Builder, x: Instruction) -> Instruction:
        large = b.resize(x, **TWICE)
        weights = weight(24, 32, 3, 3)
        weights[0] = 40000
        return b.convolution(large, b.literal(weights), padding=(1, 1), stride=(1, 1), dilation=(1, 1))

    x = weight(1, 32, 4, 3) * np.float16(1e-3)
    check(built(build, channels_last("half", 1, 32, 4, 3)), {"x0": x}, scale=4)


@pytest.mark.parametrize("how", [{"stride": (2, 2)}, {"dilation": (2, 2)}, {"padding": (0, 0)}], ids=str)
def test_other_windows_of_large_images(how: dict[str, tuple[int, ...]]) -> None:
    given = {"padding": (1, 1), **how}
    padding = given.pop("padding")
    made = check(
        built(lambda b, x: upsampled(b, x, (2, 2), (3, 3), padding, **given), channels_last("half", 1, 32, 4, 5)),
        scale=4,
    )
    assert "resize" in [s.kernel for s in made.executable.steps]
