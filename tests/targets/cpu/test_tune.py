"""`exhaustive_tune` on cpu: which ways are tried, which win, and what is kept of it. Times are injected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.alone import alone
from migraphx.targets.cpu.choices import Choices, Ways
from migraphx.targets.cpu.target import PASSES, CpuTarget, translate
from migraphx.targets.cpu.toolchain import Features, features
from migraphx.targets.cpu.tune import SUFFIX, Candidate, Tuner, candidates, seconds
from tests.passes.checking import program_of
from tests.tolerances import assert_close

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(0)
AMX = Features(16, True, True)
LARGE, SMALL = (1, 16, 20, 20), (1, 16, 7, 7)  # images that Winograd suits, and does not suit, as is expected


def weights(b: Builder, *lens: int, type: str = "float") -> Instruction:
    return b.literal(RNG.standard_normal(lens) / 8, type)


def convolved(b: Builder, x: Instruction, type: str = "float") -> Instruction:
    return b.relu(b.convolution(x, weights(b, 16, 16, 3, 3, type=type), padding=[1, 1]))


def convolved_integers(b: Builder, x: Instruction) -> Instruction:
    return b.quant_convolution(x, weights(b, 32, x.shape.lens[1], 3, 3, type="int8"), padding=[1, 1])


def multiplied(b: Builder, x: Instruction, type: str = "float") -> Instruction:
    depth = x.shape.lens[-1]
    return b.relu(b.dot(x, b.broadcast_to(weights(b, depth, 8, type=type), (*x.shape.lens[:-2], depth, 8))))


class Clock:
    """Says that the candidates that go one way take a second, all others two; counts the questions."""

    def __init__(self, question: str, way: str) -> None:
        self.question, self.way, self.asked = question, way, list[list[Ways]]()

    def __call__(self, tried: Sequence[Candidate], threads: int, isa: str) -> list[float]:
        self.asked.append([c.ways for c in tried])
        return [1.0 if c.ways.get(self.question) == self.way else 2.0 for c in tried]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    features()  # asked the compiler before
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def optimised(build: Callable[..., Any], *shapes: Any) -> Module:
    program = program_of(build, **{f"x{n}": s for n, s in enumerate(shapes)})
    run_passes(program, PASSES)
    return program.main


def ways_of(build: Callable[..., Any], shape: Any, machine: Features, fast_math: bool = True) -> list[Ways]:
    """Those of the only product."""
    (ins,) = [i for i in optimised(build, shape) if i.op.contraction or i.name == "group"]
    return [c.ways for c in candidates(alone(ins), machine, fast_math)]


VECTORS = Features(16, False, False)
PAIRS = Features(16, False, False, pairs=True)
TURNED = Shape("float", (4, 3, 5), (1, 20, 4))  # rows of a product that are at no one step
BLOCKS = [{"block": "120"}, {"block": "60"}]
WAYS: dict[str, tuple[Callable[..., Any], Any, Features, list[Ways]]] = {
    "suits Winograd": (convolved, LARGE, VECTORS,
                       [{"convolution": "winograd"}, *({"convolution": "direct"} | b for b in BLOCKS)]),
    "does not": (convolved, SMALL, VECTORS, [{"convolution": "direct"}, {"convolution": "winograd"}]),
    "stride": (lambda b, x: b.convolution(x, weights(b, 16, 16, 3, 3), stride=[2, 2]), SMALL, VECTORS, [{}]),
    "suits Winograd of integers": (convolved_integers, Shape("int8", (1, 32, 20, 20)), PAIRS,
                                   [{"convolution": "winograd"}, {"convolution": "direct"}]),
    "does not, of integers": (convolved_integers, Shape("int8", (1, 32, 5, 5)), PAIRS,
                              [{"convolution": "direct"}, {"convolution": "winograd"}]),
    "integers and VNNI": (convolved_integers, Shape("int8", (1, 32, 20, 20)), VECTORS, [{}]),
    "few rows": (multiplied, (7, 9), VECTORS, [{}]),
    "many rows": (multiplied, (99, 9), VECTORS, BLOCKS),
    "rows at no one step": (multiplied, TURNED, VECTORS, [{"rows": "as they lie"}, {"rows": "copied"}]),
    "half": (lambda b, x: multiplied(b, x, "half"), Shape("half", (9, 9)), VECTORS,
             [{"type": "float"}, {"type": "half"}]),
    "AMX": (multiplied, (9, 9), AMX, [{"unit": "amx"}, {"unit": "vectors"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_the_ways(name: str) -> None:
    build, shape, machine, wanted = WAYS[name]
    assert ways_of(build, shape, machine) == wanted


def test_fast_math_rules_ways_out() -> None:
    assert ways_of(convolved, SMALL, AMX, fast_math=False) == [{}]


def tuned(clock: Clock, build: Callable[..., Any], *shapes: Any, **given: Any) -> tuple[Choices, Module]:
    main = optimised(build, *shapes)
    return Tuner(features(), given.get("threads", 2), given.get("fast_math", True), clock).choices(main), main


def twice(b: Builder, x: Instruction, y: Instruction) -> list[Instruction]:
    w = weights(b, 16, 16, 3, 3)
    return [b.relu(b.convolution(i, w, padding=[1, 1])) for i in (x, y)]


@pytest.mark.parametrize("way", ["winograd", "direct"])
def test_the_winner_is_what_is_compiled(way: str) -> None:
    """Of equal convolutions one is timed."""
    clock = Clock("convolution", way)
    main = optimised(twice, LARGE, LARGE)
    choices = Tuner(features(), 2, True, clock).choices(main)
    assert len(clock.asked) == 1 and len(choices.winners) == 2
    program = program_of(twice, x=LARGE, y=LARGE)
    made = translate(
        program, CompileOptions(), features(), choose=lambda m: Tuner(features(), 2, timer=clock).choices(m)
    )
    texts = [call.kernel.text for call in made.lowered.calls if call.kernel and "convolution" in call.label]
    assert len(texts) == 2 and all((" winograd(" in text) == (way == "winograd") for text in texts)
    reasons = [r.why for r in made.lowered.refusals if r.rule == "winograd"]
    assert reasons == ["it was slower when it was measured"] * 2 * (way == "direct")


def test_a_second_compilation_reads_what_the_first_measured() -> None:
    clock = Clock("convolution", "winograd")
    first, _ = tuned(clock, convolved, SMALL)
    again, main = tuned(clock, convolved, SMALL)
    assert len(clock.asked) == 1 and [*first.winners.values()] == [*again.winners.values()]
    assert again.winners == {i: {"convolution": "winograd"} for i in main if i.name == "group"}


@pytest.mark.parametrize("other", [{"threads": 3}, {"shape": (1, 16, 6, 6)}, {"compiler": "another"}], ids=str)
def test_what_is_kept_is_for_the_like_alone(other: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock("convolution", "winograd")
    tuned(clock, convolved, SMALL)
    if "compiler" in other:
        monkeypatch.setattr("migraphx.targets.cpu.tune.identity", lambda isa: ("another",))
    tuned(clock, convolved, other.get("shape", SMALL), threads=other.get("threads", 2))
    assert len(clock.asked) == 2


def spoilt(path: Path) -> None:
    path.write_text("{")


def sealed_nonsense(path: Path) -> None:
    from migraphx.targets.common import cache

    cache._fill(path, lambda p: p.write_text('{"ways": {"convolution": 3}}'))


@pytest.mark.parametrize("damage", [spoilt, sealed_nonsense])
def test_damaged_entries_are_ignored(
    damage: Callable[[Path], None], empty_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock("convolution", "winograd")
    tuned(clock, convolved, SMALL)
    (entry,) = empty_cache.glob(f"*{SUFFIX}")
    damage(entry)
    with caplog.at_level(logging.WARNING):
        again, _ = tuned(clock, convolved, SMALL)
    assert len(clock.asked) == 2 and [*again.winners.values()] == [{"convolution": "winograd"}]
    assert "is ignored, and measured again" in caplog.text
    caplog.clear()
    tuned(clock, convolved, SMALL)
    assert len(clock.asked) == 2 and not caplog.records


def test_a_way_that_is_there_no_more_is_not_gone() -> None:
    ins = next(i for i in optimised(convolved, SMALL) if i.name == "group")
    choices = Choices({ins: {"convolution": "by magic"}})
    assert choices.pick(ins, "convolution", ("direct", "winograd")) == "direct"
    assert choices.pick(None, "convolution", ("direct",)) == "direct"


class Contrary(CpuTarget):
    """Goes the way that is expected to be slowest."""

    def _tuner(self, options: CompileOptions) -> Any:
        return self

    def choices(self, main: Module) -> Choices:
        products = [i for i in main if i.op.contraction or i.name == "group"]
        return Choices({i: candidates(alone(i), features(), True)[-1].ways for i in products})


def test_every_way_gives_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENMGX_CACHE")

    def build(
        b: Builder, large: Instruction, small: Instruction, x: Instruction, y: Instruction, z: Instruction
    ) -> Any:
        return [convolved(b, large), convolved(b, small), multiplied(b, x), multiplied(b, y), multiplied(b, z, "half")]

    shapes = {"large": LARGE, "small": SMALL, "x": (99, 9), "y": TURNED, "z": Shape("half", (9, 9))}
    program = program_of(build, **shapes)
    p = migraphx.program()
    p.graph = program
    arrays = {}
    for name, i in program.main.parameters.items():
        given = migraphx.argument(migraphx.generate_argument(migraphx.shape(i.shape.type, list(i.shape.lens))))
        arrays[name] = np.asarray(given)
    oracle = p.clone()
    oracle.compile(migraphx.get_target("ref"))
    p.compile(Contrary(), exhaustive_tune=True)
    for got, want in zip(p.run(arrays), oracle.run(arrays), strict=True):
        assert_close(np.asarray(got), np.asarray(want), scale=8)


@pytest.mark.slow
def test_candidates_run_and_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clock says is nobody's business here."""
    monkeypatch.delenv("OPENMGX_CACHE")
    program: Program = alone(next(i for i in optimised(convolved, SMALL) if i.name == "group"))
    ways = candidates(program, features(), True)
    times = seconds(ways, 1)
    assert len(times) == len(ways) >= 2 and all(0 < t < 60 for t in times)


@pytest.mark.slow
def test_the_option_reaches_the_timer() -> None:
    clock = Clock("none", "")
    program = program_of(multiplied, x=(7, 9))
    CpuTarget(timer=clock).compile(program, CompileOptions(exhaustive_tune=True))
    assert bool(clock.asked) == features().amx  # elsewhere there is one way only
    clock.asked.clear()
    found = CpuTarget(timer=clock).refusals(program_of(convolved, x=SMALL), CompileOptions())
    assert "too few pixels or channels share the transforms" in [r.why for r in found] and not clock.asked
