"""Weights that are inputs: small calls that are alike are one launch, convolutions' weights are copied as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes import fold_norms
from migraphx.targets.common.call import Call
from migraphx.targets.gpu.emit import taps
from migraphx.targets.gpu.kernel import Kernel, Launch
from migraphx.targets.gpu.lower import alike
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few

pytestmark = pytest.mark.usefixtures("everywhere")
WINDOW = ("padding", "stride", "dilation")


def projections(b: Builder, x: Instruction, *weights: Instruction) -> Sequence[Instruction]:
    """Each is read by a sum of its own, so that none is an output's memory."""
    wide = [b.transpose(w, permutation=(1, 0)) for w in weights]
    return [b.reduce_sum(b.dot(x, w), axes=(1,)) for w in wide]


@pytest.mark.parametrize("count", [3, 5])
def test_products_of_one_text_are_one_launch(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a launch takes; those of other sizes apart, unless all are tiny."""
    monkeypatch.setattr(alike, "MOST", 3)
    monkeypatch.setattr(alike, "TINY", 0)
    shapes = [Shape("half", (5, 32)), *[Shape("half", (16, 32))] * count, Shape("half", (48, 32))]
    steps = [s.kernel for s in check(built(projections, *shapes), scale=4).executable.steps]
    assert [s for s in steps if "dot" in s] == {3: ["3 x dot", "dot"], 5: ["3 x dot", "2 x dot", "dot"]}[count]


@pytest.mark.parametrize("type", few(["half", "float"], "half"))
def test_tiny_calls_of_other_sizes_are_one_launch(type: str) -> None:
    """As rotations of queries and of keys: other rows or columns, programs and results that some do not have."""

    def rotated(b: Builder, *heads: Instruction) -> Sequence[Instruction]:
        turned = [b.mul(b.neg(h), b.sin(h)) for h in heads]
        return [b.dot(t, b.transpose(h, permutation=(1, 0))) for t, h in zip(turned, heads, strict=True)]

    for lens in ([(40, 96), (8, 96), (20, 96)], [(3, 640), (3, 16), (3, 336)]):
        steps = [s.kernel for s in check(built(rotated, *(Shape(type, n) for n in lens)), scale=8).executable.steps]
        assert [s for s in steps if "sin" in s] == ["3 x neg sin mul"]


@pytest.mark.parametrize(("text", "alike_only"), [("", False), ("tl.num_programs(0)", True)])
def test_what_counts_its_programs_has_as_many(text: str, alike_only: bool) -> None:
    """Else programs that one call has and another has not would be counted as its own."""
    kernel = Kernel("f", text, ())
    sizes = [alike._sizes(Call(Launch(kernel, (n, 1, 1)), (), (), (n,))) for n in (3, 4)]
    assert (sizes[0] != sizes[1]) == alike_only


def test_what_depends_on_one_another_stays_in_order() -> None:
    """Each product reads the one before, though all are alike."""

    def chain(b: Builder, x: Instruction, *weights: Instruction) -> Instruction:
        for w in weights:
            x = b.dot(x, w)
        return b.relu(b.reduce_sum(x, axes=(1,)))

    shapes = [Shape("half", (4, 32)), *[Shape("half", (32, 32))] * 3]
    steps = [s.kernel for s in check(built(chain, *shapes), scale=30).executable.steps]
    assert sum(s == "dot" for s in steps) == 3


@pytest.mark.parametrize(
    ("type", "weights"),
    [("half", (5, 24, 3, 3)), ("half", (3, 8, 1, 7)), ("float", (130, 4, 2, 2)), ("bf16", (2, 16, 5))],
)
def test_weights_that_are_inputs(type: str, weights: tuple[int, ...]) -> None:
    """Programs that are not full, a window of one and two dimensions, all vector widths."""
    spatial = (13,) * len(weights[2:])
    ones = {"stride": (1,) * len(spatial), "dilation": (1,) * len(spatial), "padding": (0,) * len(spatial)}
    made = built(
        lambda b, x, w: b.convolution(x, w, **ones), Shape(type, (1, weights[1], *spatial)), Shape(type, weights)
    )
    steps = [s.kernel for s in check(made, scale=4).executable.steps]
    assert "copy taps" in steps


@pytest.mark.slow
@pytest.mark.parametrize("type", ["half", "bf16"])
def test_norms_that_are_inputs_scale_weights(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are copied into the kernels' order; weights of any sizes by one launch, windows apart from pixels."""
    monkeypatch.setattr(fold_norms, "LEAST_ROWS", 1)
    monkeypatch.setattr(taps, "PROGRAMS", 2)
    lens = [
        (32, 16, 3, 3),
        (48, 32, 3, 3),
        (272, 48, 1, 1),
        (16, 272, 1, 1),
        (16, 16, 1, 1),
        (5, 16, 2, 2),
        (6, 5, 1, 1),
    ]

    def body(b: Builder, x: Instruction, *given: Instruction) -> Instruction:
        for n, (channels, _, kernel, _) in enumerate(lens):
            x = b.convolution(x, given[3 * n], padding=(kernel // 2,) * 2, stride=(1, 1), dilation=(1, 1))
            wide = [b.multibroadcast(b.cast(b.reshape(v, dims=(channels, 1, 1)), "float"), out_lens=x.shape.lens)
                    for v in given[3 * n + 1 : 3 * n + 3]]  # fmt: skip
            x = b.relu(b.cast(b.add(b.mul(b.cast(x, "float"), wide[0]), wide[1]), type))
        return x

    shapes = [Shape(type, (1, 16, 9, 8))]
    for w in lens:
        shapes += [Shape(type, w), Shape(type, w[:1]), Shape(type, w[:1])]
    rng = np.random.default_rng(0)
    arrays = {f"x{n}": rng.uniform(-1, 1, s.lens).astype(dtypes.to_numpy(type)) for n, s in enumerate(shapes)}
    steps = [s.kernel for s in check(built(body, *shapes), arrays, scale=8).executable.steps]
    assert [s for s in steps if "taps" in s] == ["2 x copy scaled taps", "3 x copy scaled taps", "copy scaled taps"]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "words"), [(32, "convolution add relu"), (31, "convolution convert")])
def test_which_norms_scale_weights(rows: int, words: str) -> None:
    """From 1,024 rows on, of which the offset is no part of the epilogue, as libraries have it."""

    def body(b: Builder, x: Instruction, w: Instruction, *norm: Instruction) -> Instruction:
        y = b.convolution(x, w, padding=(0, 0), stride=(1, 1), dilation=(1, 1))
        scale, offset = (b.cast(b.reshape(v, dims=(16, 1, 1)), "float") for v in norm)
        wide = [b.multibroadcast(v, out_lens=y.shape.lens) for v in (scale, b.sub(offset, b.mul(scale, scale)))]
        return b.relu(b.cast(b.add(b.mul(b.cast(y, "float"), wide[0]), wide[1]), "half"))

    shapes = (Shape("half", s) for s in ((1, 16, rows, 32), (16, 16, 1, 1), (16,), (16,)))
    steps = [s.kernel for s in check(built(body, *shapes), scale=8).executable.steps]
    assert [s.startswith(words) for s in steps if "convolution" in s] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["a number", "themselves", "weights"])
def test_weights_that_are_computed_otherwise(by: str) -> None:
    """In float, and rounded, as a norm scales them, but by no number a row."""

    def body(b: Builder, x: Instruction, w: Instruction, v: Instruction) -> Instruction:
        wide = b.cast(w, "float")
        factor = {"a number": b.full(0.3, wide), "themselves": wide, "weights": v}[by]
        y = b.convolution(x, b.cast(b.mul(wide, factor), "half"), padding=(1, 1), stride=(1, 1), dilation=(1, 1))
        return b.relu(b.reduce_sum(y, axes=(1,)))

    shapes = Shape("half", (1, 16, 9, 8)), Shape("half", (24, 16, 3, 3)), Shape("float", (24, 16, 3, 3))
    steps = [s.kernel for s in check(built(body, *shapes), scale=8).executable.steps]
    assert "copy taps" in steps and "copy scaled taps" not in steps


def test_weights_that_are_no_vectors_are_copied_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0)}
    for most, channels in ((taps.MOST_TAPS, 12), (8, 16)):
        monkeypatch.setattr(taps, "MOST_TAPS", most)
        shapes = Shape("half", (1, channels, 5, 5)), Shape("half", (4, channels, 3, 3))
        made = built(lambda b, x, w: b.convolution(x, w, **ones), *shapes)
        assert "copy taps" not in [s.kernel for s in check(made, scale=4).executable.steps]


@pytest.mark.parametrize("lens", [(2, 24, 4, 4), (1, 6, 35)])
def test_group_norm_with_weights_that_are_inputs(lens: tuple[int, ...]) -> None:
    """No float goes through memory between the norm and its weights, and these are converted where they are read."""
    groups, channels = (lens[0], 3, lens[1] // 3, *lens[2:]), (lens[1], *(1,) * len(lens[2:]))
    axes = tuple(range(2, len(groups)))

    def norm(b: Builder, x: Instruction, *weights: Instruction) -> Instruction:
        values = b.reshape(b.cast(x, "float"), dims=groups)
        wide = lambda v, of=groups: b.multibroadcast(v, out_lens=of)  # noqa: E731
        centred = b.sub(values, wide(b.reduce_mean(values, axes=axes)))
        variance = b.reduce_mean(b.mul(centred, centred), axes=axes)
        y = b.mul(centred, wide(b.rsqrt(b.add(variance, b.full(1e-5, variance)))))
        gamma, beta = (wide(b.cast(b.reshape(w, dims=channels), "float"), lens) for w in weights)
        return b.tanh(b.cast(b.add(b.mul(b.reshape(y, dims=lens), gamma), beta), "half"))

    made = built(norm, *(Shape("half", s) for s in (lens, lens[1:2], lens[1:2])))
    steps = [s.kernel for s in check(made, scale=4).executable.steps]
    assert "reduce_mean" in steps[0] and steps[0].endswith("tanh") and steps[1:] in ([], ["copy"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type", "image", "weights", "how"),
    [
        ("half", (2, 16, 5, 6), (70, 16, 3, 3), {"padding": (1, 1), "stride": (1, 1), "dilation": (1, 1)}),
        ("float", (1, 8, 9, 7), (40, 8, 2, 3), {"padding": (1, 0), "stride": (2, 1), "dilation": (1, 2)}),
        ("bf16", (2, 24, 9), (24, 24, 5), {"padding": (2,), "stride": (1,), "dilation": (1,)}),
        ("float", (1, 4, 3, 5, 4), (64, 4, 2, 2, 2), {f: (n,) * 3 for f, n in zip(WINDOW, (0, 1, 1), strict=True)}),
    ],
)
def test_windows_are_copied_where_they_are_less(
    type: str, image: tuple[int, ...], weights: tuple[int, ...], how: dict[str, Any]
) -> None:
    """The weights are read as they came; one to three dimensions, windows that leave the image, an epilogue."""

    def body(b: Builder, x: Instruction, w: Instruction, bias: Instruction) -> Instruction:
        y = b.convolution(x, w, **how)
        return b.relu(b.add(y, b.broadcast(bias, axis=1, out_lens=y.shape.lens)))

    shapes = Shape(type, image), Shape(type, weights), Shape(type, weights[:1])
    steps = [s.kernel for s in check(built(body, *shapes), scale=4).executable.steps]
    assert steps[:3] == ["copy", "copy patches", "convolution add relu"]
