"""Norms over places and runs of channels, in three kernels, against ref on every device."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.gpu.emit import spread
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few_rows

pytestmark = pytest.mark.usefixtures("everywhere")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms of few elements as long ones."""
    monkeypatch.setattr(spread, "LEAST", 16)


def group_norm(b: Builder, x: Instruction, gamma: Instruction, beta: Instruction, *more: Instruction) -> Instruction:
    """Of {N, groups, channels, spatial...}, what `more` adds included; with SiLU."""
    lens = x.shape.lens
    axes, wide = tuple(range(2, len(lens))), lambda v: b.multibroadcast(v, out_lens=lens)
    for other in more:
        x = b.add(x, wide(other))
    values = b.convert(x, target_type="float")
    centred = b.sub(values, wide(b.reduce_mean(values, axes=axes)))
    variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
    scale = wide(b.rsqrt(b.add(variance, b.full(1e-5, variance))))
    made = b.convert(b.add(b.mul(b.mul(centred, scale), wide(gamma)), wide(beta)), target_type=x.shape.type)
    return b.mul(made, b.sigmoid(made))


def images(type: str, *lens: int) -> Shape:
    """{N, groups, channels, spatial...} with channels last."""
    return permuted(type, lens, (0, *range(3, len(lens)), 1, 2))


def steps_of(shape: Shape, *more: Shape, inputs: dict[str, np.ndarray] | None = None, scale: float = 1.0) -> list[str]:
    factors = Shape("float", (*shape.lens[1:3], *(1,) * (len(shape.lens) - 3)))
    made = check(built(group_norm, shape, factors, factors, *more), inputs, scale=scale)
    return [s.kernel for s in made.executable.steps if s.kernel != "copy"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type", "lens"),
    [
        ("half", (2, 4, 16, 8, 8)),  # whole tiles
        ("half", (2, 4, 10, 8, 8)),  # runs that are no power of two
        ("bf16", (1, 3, 5, 9, 11)),  # one image, lanes and places beyond the end
        ("float", (2, 32, 3, 70)),  # one axis, norms of two tiles
    ],
)
def test_norms_in_three_kernels(type: str, lens: tuple[int, ...]) -> None:
    assert len(steps_of(images(type, *lens), scale=2)) == 3


@pytest.mark.parametrize(("channels", "size"), few_rows([(16, (16, 32)), (5, (19, 37)), (16, (10, 33))], (5, (19, 37))))
def test_large_images(channels: int, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of several tiles, of which the last may have none, with a mean far from zero."""
    monkeypatch.setattr(spread, "MOST_PARTS", 4)
    lens = (2, 4, channels, *size)
    factors = {f"x{k}": np.ones((4, channels, 1, 1), np.float32) * k for k in (1, 2)}
    x = np.random.default_rng(0).standard_normal(lens, np.float32)
    assert len(steps_of(images("half", *lens), inputs={"x0": x.astype(np.float16), **factors}, scale=4)) == 3
    assert len(steps_of(images("float", *lens), inputs={"x0": x + 1000, **factors}, scale=100)) == 3


def test_what_a_norm_adds() -> None:
    """Something for each image and channel, and for each pixel."""
    lens = (2, 4, 6, 7, 9)
    more = Shape("half", (*lens[:3], 1, 1)), images("half", *lens)
    assert len(steps_of(images("half", *lens), *more, scale=2)) == 3


def test_a_mean_far_from_zero() -> None:
    """Squares about the mean of each part: nothing is lost where values differ by little."""
    lens = (2, 4, 8, 16, 4)
    x = (np.random.default_rng(0).standard_normal(lens) + 3000).astype(np.float32)
    ones = np.ones((4, 8, 1, 1), np.float32)
    assert len(steps_of(images("float", *lens), inputs={"x0": x, "x1": ones, "x2": ones}, scale=100)) == 3


def test_norms_that_are_no_runs_of_channels() -> None:
    """Channels first: each norm's elements follow one another, and one kernel holds them."""
    assert len(steps_of(Shape("half", (2, 4, 16, 8, 8)), scale=2)) == 1


def test_norms_of_more_images_than_a_grid_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "MOST_BESIDE", 2)
    assert len(steps_of(images("half", 2, 2, 4, 3, 3), scale=2)) == 3
    assert len(steps_of(images("half", 3, 2, 4, 3, 3), scale=2)) == 1


def test_doubles_stay_doubles() -> None:
    """Parts are floats: of doubles another kernel has them."""

    def norm(b: Builder, x: Instruction) -> Instruction:
        mean = b.reduce_mean(x, axes=(2, 3))
        centred = b.sub(x, b.multibroadcast(mean, out_lens=x.shape.lens))
        variance = b.reduce_mean(b.mul(centred, centred), axes=(2, 3))
        return b.mul(centred, b.multibroadcast(b.rsqrt(variance), out_lens=x.shape.lens))

    check(built(norm, images("double", 2, 4, 8, 20)))
