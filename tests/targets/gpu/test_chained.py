"""Products of what products make, in one kernel, against ref; and where they stay two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.passes import fold_norms
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.choices import APART, Choices, Config, Problem
from migraphx.targets.gpu.target import GpuTarget
from tests.targets.gpu.interpreted import InterpretedDevice
from tests.targets.gpu.side_by_side import built, check, either
from tests.tiers import few

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(11)
CHAINED = Config("chained", 64, 64, 32, stages=2)


def weight(*lens: int, type: str = "half") -> np.ndarray:
    return (RNG.standard_normal(lens) / np.sqrt(lens[1])).astype(dtypes.to_numpy(type))


def image(type: str, *lens: int) -> Shape:
    return permuted(type, lens, (0, 2, 3, 1))


@pytest.fixture
def chained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the choice of each chain this one, and that of each product its first candidate."""

    def choose(config: Config = CHAINED) -> None:
        def pick(self: Choices, problem: Problem, candidates: Sequence[Config], *_: Any) -> Config:
            return config if problem.family == "chained" else next(iter(candidates))

        monkeypatch.setattr(Choices, "pick", pick)

    return choose


def wide(b: Builder, x: Instruction, residual: Instruction, n: int = 128) -> Instruction:
    """As a residual block ends."""
    type = x.shape.type
    sums = b.convolution(x, b.literal(weight(n, x.shape.lens[1], 1, 1, type=type)))
    bias = b.multibroadcast(b.literal(weight(n, 1, 1, type=type)), out_lens=sums.shape.lens)
    return b.relu(b.add(b.add(sums, bias), residual))


def narrow(b: Builder, x: Instruction, n: int = 32) -> Instruction:
    """As the next one begins."""
    sums = b.convolution(x, b.literal(weight(n, x.shape.lens[1], 1, 1, type=x.shape.type)))
    bias = b.literal(weight(n, 1, 1, type=x.shape.type))
    return b.relu(b.add(sums, b.multibroadcast(bias, out_lens=sums.shape.lens)))


@pytest.mark.parametrize("type", few(["half", "bf16"], "half"))
@pytest.mark.parametrize("config", [CHAINED, Config("chained", 128, 64, 32, warps=8)])
def test_blocks_of_residuals(type: str, config: Config, chained: Callable[..., None]) -> None:
    """What is between is seen again, as a residual; rows end within a tile."""
    chained(config)

    def blocks(b: Builder, x: Instruction, residual: Instruction) -> Instruction:
        between = wide(b, x, residual)
        return b.add(b.convolution(narrow(b, between), b.literal(weight(128, 32, 1, 1, type=type))), between)

    made = built(blocks, image(type, 2, 32, 9, 7), image(type, 2, 128, 9, 7))
    kernels = [s.kernel for s in check(made, scale=4).executable.steps]
    assert [k.count("convolution") for k in kernels if "convolution" in k] == [2, 1]


def test_three_products_that_follow_one_another(chained: Callable[..., None]) -> None:
    """The second of a chain begins none; several chains follow each other."""
    chained()

    def blocks(b: Builder, x: Instruction, residual: Instruction) -> list[Instruction]:
        one = wide(b, x, residual)
        two = wide(b, narrow(b, one), one)
        return [b.relu(narrow(b, two, 64)), b.neg(two)]

    made = built(blocks, image("half", 1, 32, 12, 7), image("half", 1, 128, 12, 7))
    kernels = [s.kernel for s in check(made, scale=4).executable.steps]
    assert [k.count("convolution") for k in kernels if "convolution" in k] == [2, 2]


def test_rows_of_dots(chained: Callable[..., None]) -> None:
    chained()

    def dots(b: Builder, x: Instruction) -> list[Instruction]:
        between = b.tanh(b.dot(x, b.literal(weight(32, 192))))
        narrow = b.sigmoid(b.dot(between, b.literal(weight(192, 16))))
        return [b.reduce_max(x, axes=(1,)) for x in (narrow, between)]

    steps = check(built(dots, Shape("half", (200, 32))), scale=4).executable.steps
    assert [s.kernel.count("dot") for s in steps if "dot" in s.kernel] == [2]


REASONS = (
    "read once", "other types", "deep", "odd columns", "wide", "weights that come in", "a later result", "control flow",
    "few rows", "a result",
)  # fmt: skip


@pytest.mark.parametrize("why", few(REASONS, "read once", "odd columns"))
def test_products_that_stay_apart(why: str, chained: Callable[..., None]) -> None:
    """Each reason why one kernel cannot compute both, or would not gain."""
    chained()
    k, between, n = 256 if why == "deep" else 32, 136 if why == "odd columns" else 128, 256 if why == "wide" else 32
    type, rows = "float" if why == "other types" else "half", 32 if why == "few rows" else 70

    def dots(b: Builder, x: Instruction, w: Instruction, y: Instruction, condition: Instruction) -> list[Instruction]:
        first = b.relu(b.dot(x, b.literal(weight(k, between, type=type))))
        second = b.dot(first, w if why == "weights that come in" else b.literal(weight(between, n, type=type)))
        if why == "a later result":
            second = b.mul(second, b.exp(b.contiguous(b.transpose(y, permutation=(1, 0)))))
        if why == "control flow":
            second = either(b, condition, second)
        if why != "a result":
            second = b.reduce_max(b.sigmoid(second), axes=(1,))
        return [second, *([] if why == "read once" else [b.reduce_max(first, axes=(1,))])]

    shapes = Shape(type, (rows, k)), Shape(type, (between, n)), Shape(type, (n, rows)), Shape("bool", (1,))
    steps = check(built(dots, *shapes), scale=4).executable.steps
    assert [s.kernel.count("dot") for s in steps if "dot" in s.kernel] == [1, 1]


@pytest.mark.parametrize("apart", [False, True])
def test_the_faster_way_is_taken(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured decides; `explain` tells of the other."""
    winner, seen = Config(APART, 0, 0, 0) if apart else CHAINED, set[Problem]()

    def winners(self: Choices, problem: Problem) -> Iterator[Config]:
        seen.add(problem)
        return iter([winner] if problem.family == "chained" else [])

    monkeypatch.setattr(Choices, "winners", winners)

    def blocks(b: Builder, x: Instruction, residual: Instruction) -> list[Instruction]:
        between = wide(b, x, residual)
        return [b.reduce_max(x, axes=(1,)) for x in (narrow(b, between), between)]

    made = built(blocks, image("half", 1, 32, 9, 8), image("half", 1, 128, 9, 8))
    steps = check(made, scale=4).executable.steps
    assert sum("convolution" in s.kernel for s in steps) == (2 if apart else 1)
    (problem,) = (p for p in seen if p.family == "chained")
    assert problem.shape == (72, 128, 32, 32)
    refusals = GpuTarget(InterpretedDevice()).refusals(made.graph.clone(), CompileOptions())
    told = [str(r.why) for r in refusals if r.rule == "chained"]
    taken = "beside two products, which was measured" if apart else "beside chained (tiles 64x64x32, 4 warps, 2 stages)"
    assert told and all(taken in text for text in told)


def test_operations_are_counted(chained: Callable[..., None]) -> None:
    """Those of both, so that `perf` shows what the kernel reaches."""
    chained()

    def dots(b: Builder, x: Instruction) -> list[Instruction]:
        between = b.relu(b.dot(x, b.literal(weight(32, 128))))
        return [b.reduce_max(x, axes=(1,)) for x in (between, b.dot(between, b.literal(weight(128, 64))))]

    made = built(dots, Shape("half", (128, 32)))
    made.compile(GpuTarget(InterpretedDevice()))
    (step,) = (s for s in made.executable.steps if "dot" in s.kernel)
    assert 2 * 128 * 128 * (32 + 64) <= step.flops <= 2 * 128 * 128 * (32 + 64) + 2 * 128 * 128


@pytest.mark.slow
def test_weights_that_are_computed(chained: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms that are inputs: weights are scaled between both products, whose kernel stands behind that."""
    chained()
    monkeypatch.setattr(fold_norms, "LEAST_ROWS", 1)
    lens, shapes = [(128, 32, 1, 1), (64, 128, 1, 1)], [Shape("half", (2, 32, 9, 7))]

    def blocks(b: Builder, x: Instruction, *given: Instruction) -> list[Instruction]:
        found = list[Instruction]()
        for n, (w, scale) in enumerate(zip(given[::2], given[1::2], strict=True)):
            x = b.convolution(x, w)
            wide = b.multibroadcast(b.cast(b.reshape(scale, dims=(lens[n][0], 1, 1)), "float"), out_lens=x.shape.lens)
            x = b.relu(b.cast(b.add(b.mul(b.cast(x, "float"), wide), wide), "half"))
            found.append(x)
        return [b.reduce_max(x, axes=(1,)) for x in found]

    for w in lens:
        shapes += [Shape("half", w), Shape("half", w[:1])]
    steps = check(built(blocks, *shapes), scale=4).executable.steps
    (at,) = (n for n, s in enumerate(steps) if "convolution" in s.kernel)
    assert steps[at].kernel.count("convolution") == 2
    assert "2 x copy scaled taps" in [s.kernel for s in steps[:at]]
    products = 2 * 126 * (32 * 128 + 128 * 64)
    assert products <= steps[at].flops <= products * 1.1


@pytest.mark.slow
def test_rows_of_weights_that_come_in(chained: Callable[..., None]) -> None:
    """As linear layers have them: both products read inputs."""
    chained()

    def layers(b: Builder, x: Instruction, *weights: Instruction) -> list[Instruction]:
        between, last = (b.transpose(w, permutation=(1, 0)) for w in weights)
        between = b.relu(b.dot(x, between))
        return [b.reduce_max(y, axes=(1,)) for y in (b.dot(between, last), between)]

    shapes = (Shape("half", s) for s in ((70, 32), (128, 32), (64, 128)))
    steps = check(built(layers, *shapes), scale=4).executable.steps
    assert [s.kernel.count("dot") for s in steps if "dot" in s.kernel] == [2]
