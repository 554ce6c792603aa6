"""Resizing, transposed convolution and normalisation over channels on cpu against ref."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.ops.vision import COORDINATES, Resize
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

RNG = np.random.default_rng(7)


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


def weight(*lens: int, type: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(lens).astype(type)


def resized(*sizes: int, **options):
    return lambda b, x: b.resize(x, sizes=sizes, **options)


def nhwc(*lens: int, type: str = "float") -> Shape:
    return permuted(type, lens, (0, *range(2, len(lens)), 1))


@pytest.mark.parametrize("mode", few(Resize.MODES, "linear"))
def test_resize(mode: str) -> None:
    at = [{"coordinate_transformation_mode": c} for c in COORDINATES if c != "tf_crop_and_resize"]
    at += [{"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (0, 0, 0.1, 0.3, 1, 1, 0.8, 1.2)}]
    cases = [
        Case(f"image_{n}", resized(2, 19, 11, 16, mode=mode, **how), (shape(2, 19, 5, 9),)) for n, how in enumerate(at)
    ]
    cases += [
        Case("smaller", resized(1, 37, 3, 4, mode=mode), (shape(1, 37, 9, 7),)),
        Case("channels_last", resized(1, 21, 7, 12, mode=mode), (nhwc(1, 21, 4, 5),)),
        Case("half", resized(1, 21, 7, 12, mode=mode), (shape(1, 21, 4, 5, type="half"),)),
        Case("bf16", resized(1, 21, 7, 12, mode=mode), (shape(1, 21, 4, 5, type="bf16"),)),
        Case("double", resized(1, 3, 7, 12, mode=mode), (shape(1, 3, 4, 5, type="double"),)),
        Case("one_axis", resized(2, 3, 4, 12, mode=mode), (shape(2, 3, 4, 5),)),
        Case("1d", resized(2, 5, 13, mode=mode), (shape(2, 5, 6),)),
        Case("1d_channels_last", resized(2, 20, 13, mode=mode), (nhwc(2, 20, 6),)),
        Case("3d", resized(2, 3, 8, 3, 7, mode=mode), (shape(2, 3, 4, 5, 5),)),
        Case("3d_half", resized(1, 18, 8, 3, 7, mode=mode), (nhwc(1, 18, 4, 5, 5, type="half"),)),
        Case("every_axis", resized(3, 5, 4, 2, mode=mode), (shape(2, 3, 3, 5),)),
        Case("plain", resized(9, 4, mode=mode), (shape(4, 6),)),
        Case("unchanged", resized(2, 3, 4, mode=mode), (shape(2, 3, 4),)),
        Case("scales", lambda b, x: b.resize(x, scales=(1, 1, 2.5, 0.7), mode=mode), (shape(1, 6, 5, 9),)),
        Case("not_finite", resized(1, 18, 7, 12, mode=mode), (shape(1, 18, 4, 5),), sparse=True),
        Case(
            "between",
            lambda b, x: b.relu(b.resize(b.relu(x), sizes=(1, 20, 8, 8), mode=mode)),
            (nhwc(1, 20, 4, 4),),
        ),
    ]
    check([Case(c.name, c.build, c.inputs, 10, sparse=c.sparse) for c in cases])


@pytest.mark.slow
@pytest.mark.parametrize("mode", Resize.MODES)
def test_planes(mode: str) -> None:
    """Results in which columns are innermost, whatever the source's order; what shrinks goes by pixels."""
    filters = {"antialias": True} if mode != "nearest" else {}

    def answer(*sizes: int):
        return lambda b, x: b.layout(b.resize(x, sizes=sizes, mode=mode), permutation=(0, 1, 2, 3))

    def joined(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.relu(b.concat(y, b.resize(x, sizes=(2, 3, 9, 40), mode=mode), y, axis=1))

    cases = [
        Case("wider", resized(2, 5, 11, 70, mode=mode), (shape(2, 5, 4, 9),)),
        Case("taller", resized(1, 3, 40, 5, mode=mode), (shape(1, 3, 7, 9),)),
        Case("narrower", resized(1, 3, 40, 5, mode=mode), (shape(1, 3, 7, 33),)),
        Case("narrower, filtered", resized(1, 3, 40, 5, mode=mode, **filters), (shape(1, 3, 7, 33),)),
        Case("hardly wider", resized(1, 3, 20, 41, mode=mode), (shape(1, 3, 19, 40),)),
        Case("one channel", resized(2, 1, 16, 24, mode=mode), (nhwc(2, 1, 5, 8),)),
        Case("a column", resized(1, 4, 5, 16, mode=mode), (shape(1, 4, 5, 1),)),
        Case("an answer", answer(1, 21, 30, 31), (nhwc(1, 21, 7, 6),)),
        Case("an answer of half", answer(1, 21, 30, 31), (nhwc(1, 21, 7, 6, type="half"),)),
        Case("an answer of bf16", answer(1, 21, 30, 31), (nhwc(1, 21, 7, 6, type="bf16"),)),
        Case("a smaller answer", answer(1, 21, 5, 3), (nhwc(1, 21, 7, 6),)),
        Case("a part", joined, (shape(2, 3, 3, 20), shape(2, 2, 9, 40))),
        Case("not finite", answer(1, 21, 30, 31), (nhwc(1, 21, 7, 6),), sparse=True),
    ]
    check([Case(c.name, c.build, c.inputs, 10, sparse=c.sparse) for c in cases])


@pytest.mark.parametrize("mode", few(Resize.MODES, "nearest"))
def test_repetition(mode: str) -> None:
    """Images of one pixel: alone, joined with others, in arithmetic."""

    def joined(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.concat(y, b.resize(x, sizes=(2, 5, 7, 6), mode=mode), axis=1)

    def added(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.add(b.resize(x, sizes=(2, 5, 7, 6), mode=mode), b.relu(y))

    small, large = shape(2, 5, 1, 1), shape(2, 5, 7, 6)
    cases = [
        Case("alone", resized(2, 5, 7, 6, mode=mode), (small,)),
        Case("half", resized(2, 5, 7, 6, mode=mode), (shape(2, 5, 1, 1, type="half"),)),
        Case("joined", joined, (small, large)),
        Case("joined pixels", joined, (nhwc(2, 5, 1, 1), nhwc(2, 5, 7, 6))),
        Case("added", added, (small, large)),
        Case("added pixels", added, (small, nhwc(2, 5, 7, 6))),
        Case("rows", resized(1, 3, 8, mode=mode), (shape(1, 3, 1),)),
        Case("not finite", resized(2, 5, 7, 6, mode=mode), (small,), sparse=True),
    ]
    check([Case(c.name, c.build, c.inputs, 10, sparse=c.sparse) for c in cases])


@pytest.mark.slow
def test_nearest_takes_any_type() -> None:
    types = ("bool", "int8", "uint8", "int32", "int64")
    check([Case(t, resized(1, 20, 7, 12), (shape(1, 20, 4, 5, type=t),)) for t in types])
    check([Case(m, resized(1, 3, 7, 12, nearest_mode=m), (shape(1, 3, 4, 5),)) for m in Resize.ROUNDINGS])


def transposed(w: np.ndarray, **attributes):
    rank = w.ndim - 2
    same = {"stride": (1,) * rank, "dilation": (1,) * rank, "padding": (0,) * rank} | attributes
    return lambda b, x: b.convolution_backwards(x, b.literal(w), **same)


@pytest.mark.slow
def test_transposed_convolutions() -> None:
    def run_time(group: int):
        return lambda b, x, w: b.convolution_backwards(
            x, w, stride=(2, 3), dilation=(1, 2), padding=(1, 0), group=group
        )

    cases = [
        Case("plain", transposed(weight(8, 21, 3, 3)), (shape(2, 8, 5, 6),)),
        Case("doubling", transposed(weight(8, 40, 2, 2), stride=(2, 2)), (shape(1, 8, 5, 6),)),
        Case("decoder", transposed(weight(8, 5, 4, 4), stride=(2, 2), padding=(1, 1)), (nhwc(1, 8, 5, 6),)),
        Case("uneven", transposed(weight(8, 5, 3, 5), stride=(2, 3), padding=(1, 0, 0, 2)), (shape(1, 8, 5, 6),)),
        Case("gaps", transposed(weight(8, 5, 2, 1), stride=(3, 2)), (shape(1, 8, 5, 6),)),
        Case(
            "dilated",
            transposed(weight(8, 5, 3, 3), stride=(2, 2), dilation=(3, 2), padding=(2, 1)),
            (shape(1, 8, 5, 6),),
        ),
        Case("grouped", transposed(weight(12, 5, 3, 3), stride=(2, 1), group=3), (shape(2, 12, 4, 5),)),
        Case("1d", transposed(weight(6, 5, 4), stride=(2,), padding=(1,)), (shape(2, 6, 9),)),
        Case("3d", transposed(weight(6, 5, 2, 3, 2), stride=(2, 1, 2)), (shape(1, 6, 3, 4, 5),)),
        Case("half", transposed(weight(8, 5, 3, 3, type=np.float16), stride=(2, 2)), (shape(1, 8, 5, 6, type="half"),)),
        Case("run_time", run_time(1), (shape(1, 8, 5, 6), shape(8, 40, 3, 4))),
        Case("run_time_grouped", run_time(2), (shape(1, 8, 5, 6), shape(8, 3, 3, 4))),
    ]
    check([Case(c.name, c.build, c.inputs, 10) for c in cases])


def test_lrn() -> None:
    cases = [
        Case("plain", lambda b, x: b.lrn(x, size=5, alpha=0.01, beta=0.75, bias=1.5), (shape(2, 37, 4, 5),)),
        Case("even", lambda b, x: b.lrn(x, size=4, alpha=0.3), (nhwc(1, 21, 4, 5),)),
        Case("no number", lambda b, x: b.lrn(x, size=3, alpha=np.nan, beta=np.inf), (shape(1, 3, 4, 5),)),
        Case("wide", lambda b, x: b.lrn(x, size=9), (shape(1, 3, 4, 5),)),
        Case("flat", lambda b, x: b.lrn(x, size=3, alpha=1.0), (shape(7, 20),)),
        Case("half", lambda b, x: b.lrn(x, size=3, alpha=1.0), (shape(1, 20, 3, 3, type="half"),)),
        Case("double", lambda b, x: b.lrn(x, size=3, alpha=1.0), (shape(1, 20, 3, 3, type="double"),)),
    ]
    check([Case(c.name, c.build, c.inputs, 3) for c in cases])
