"""Convolutions, the depthwise ones behind them and 1x1 ones behind those, band by band, on cpu against ref."""

from collections.abc import Callable

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.lower import depthwise
from migraphx.targets.cpu.target import translate
from migraphx.targets.cpu.toolchain import Features
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

RNG = np.random.default_rng(0)
AVX512 = Features(lanes=16, bf16_words=True, amx=False)  # whatever processor the tests run on
Finish = Callable[[Builder, Instruction], Instruction]


def convolution(
    b: Builder, x: Instruction, channels: int, kernel: int, stride: int, before: int, behind: int, group: int = 1
) -> Instruction:
    """With a bias; padding before and behind each axis."""
    w = RNG.standard_normal((channels, x.shape.lens[1] // group, kernel, kernel)).astype(np.float32) / kernel
    padding = (before, before, behind, behind)
    y = b.convolution(x, b.literal(w), stride=(stride, stride), padding=padding, dilation=(1, 1), group=group)
    bias = b.literal(RNG.standard_normal(channels).astype(np.float32))
    return b.add(y, b.broadcast(bias, axis=1, out_lens=y.shape.lens))


def pair(channels: int, first: tuple[int, ...], second: tuple[int, ...], finish: Finish, again: bool = False):
    """`first` and `second`: kernel, stride, padding before and behind; `again`: what lies between is an output, too."""

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        between = finish(b, convolution(b, x, channels, *first))
        y = finish(b, convolution(b, between, channels, *second, group=channels))
        return [y, b.relu(between)] if again else [y]

    return build


def residual(
    channels: int, out: int, second: tuple[int, ...], last: tuple[int, ...], finish: Finish, again: bool = False
):
    """An expansion, a depthwise convolution and a `last` one; `again`: what lies before that is an output, too."""

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        between = finish(b, convolution(b, x, channels, 1, 1, 0, 0))
        behind = finish(b, convolution(b, between, channels, *second, group=channels))
        y = convolution(b, behind, out, *last)
        y = b.add(y, x) if y.shape.lens == x.shape.lens else y
        return [y, b.relu(behind)] if again else [y]

    return build


def relu(b: Builder, x: Instruction) -> Instruction:
    return b.relu(x)


def silu(b: Builder, x: Instruction) -> Instruction:
    return b.silu(x)


PAIRS = {
    "expansion": ((1, 5, 61, 30), pair(96, (1, 1, 0, 0), (3, 1, 1, 1), relu)),
    "stride 2": ((1, 5, 60, 31), pair(100, (1, 1, 0, 0), (3, 2, 0, 1), silu)),
    "large windows": ((1, 4, 50, 40), pair(96, (1, 1, 0, 0), (5, 2, 2, 2), relu)),
    "first layer": ((1, 3, 101, 64), pair(64, (3, 2, 1, 1), (3, 1, 1, 1), relu)),
    "first layer, more channels": ((1, 6, 101, 64), pair(64, (3, 2, 1, 1), (3, 1, 1, 1), relu)),
    "pictures": ((3, 3, 33, 30), pair(24, (5, 2, 2, 2), (5, 2, 2, 2), silu)),
    "images": ((3, 4, 33, 30), pair(96, (1, 1, 0, 0), (3, 1, 1, 1), relu)),
    "rows that read nothing": ((1, 3, 6, 9), pair(24, (3, 1, 1, 1), (3, 1, 5, 4), relu)),
    "few rows": ((1, 3, 3, 20), pair(24, (3, 1, 1, 1), (5, 1, 2, 2), relu)),
}
RESIDUALS = {
    "added to its input": ((1, 6, 51, 40), residual(96, 6, (3, 1, 1, 1), (1, 1, 0, 0), relu)),
    "stride 2 behind": ((1, 5, 60, 31), residual(100, 40, (3, 2, 0, 1), (1, 1, 0, 0), silu)),
    "images added": ((3, 8, 21, 30), residual(96, 8, (3, 1, 1, 1), (1, 1, 0, 0), relu)),
}
NO_RESIDUALS = {
    "what lies before is used twice": ((1, 4, 9, 8), residual(24, 4, (3, 1, 1, 1), (1, 1, 0, 0), relu, again=True)),
    "a last kernel with a stride": ((1, 4, 9, 8), residual(24, 7, (3, 1, 1, 1), (1, 2, 0, 0), relu)),
    "a last kernel with padding": ((1, 4, 9, 8), residual(24, 7, (3, 1, 1, 1), (1, 1, 1, 1), relu)),
    "a last kernel of three": ((1, 4, 9, 8), residual(24, 7, (3, 1, 1, 1), (3, 2, 1, 1), relu)),
}
APART = {
    "used twice": ((1, 4, 9, 8), pair(24, (1, 1, 0, 0), (3, 1, 1, 1), relu, again=True)),
    "a padded kernel of one": ((1, 6, 9, 8), pair(24, (1, 1, 1, 1), (3, 1, 1, 1), relu)),
}


EVERY = {**PAIRS, **APART, **RESIDUALS, **NO_RESIDUALS}


@pytest.mark.parametrize("names", few([["added to its input"], [*EVERY]], at=[0]), ids=["one", "all"])
def test_bands_equal_whole_images(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "BETWEEN", 1)
    cases = {name: EVERY[name] for name in names}
    check([Case(name, build, (Shape("float", lens),)) for name, (lens, build) in cases.items()])


def test_who_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that a call of several counts the operations of all."""
    for least in (1, depthwise.BETWEEN):
        monkeypatch.setattr(depthwise, "BETWEEN", least)
        for name, (lens, build) in EVERY.items():
            program = migraphx.program().graph
            program.main.add_return(build(Builder(program.main), program.main.add_parameter("x", Shape("float", lens))))
            made = translate(program, CompileOptions(), AVX512)
            labels = [call.label for call in made.lowered.calls]
            assert any(", depthwise" in label for label in labels) == (least == 1 and name not in APART), name
            assert any(", convolution" in label for label in labels) == (least == 1 and name in RESIDUALS), name
            flops = sum(i.flops for i in program.main)
            assert sum(step.flops for step in made.outline.steps) == flops, name


@pytest.mark.parametrize(
    ("depth", "size", "banded"), [(8, 32, True), (8, 31, False), (64, 75, True), (64, 60, False), (128, 75, False)]
)
def test_what_lies_between_pays_for_its_depth(depth: int, size: int, banded: bool) -> None:
    program = migraphx.program().graph
    build = pair(256, (1, 1, 0, 0), (3, 1, 1, 1), relu)
    x = program.main.add_parameter("x", Shape("float", (1, depth, size, size)))
    program.main.add_return(build(Builder(program.main), x))
    made = translate(program, CompileOptions(), AVX512)
    assert any(", depthwise" in call.label for call in made.lowered.calls) == banded
