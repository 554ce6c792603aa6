"""Rows that begin and end between vectors of memory, and tiles that rows are held in, against ref on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.gpu.emit import plans, reduce, rows
from migraphx.targets.gpu.emit.plans import Plan
from migraphx.targets.gpu.emit.shell import WAITS
from tests.targets.gpu.side_by_side import built, check
from tests.targets.gpu.test_reduce import layer_norm, norm_of_sum, softmax
from tests.tiers import few

pytestmark = pytest.mark.usefixtures("everywhere")


def as_planned(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce, "plan_at", lambda *numbers: plan)


def mean(b: Builder, x: Instruction) -> Instruction:
    return b.reduce_mean(x, axes=(1,))


def widened(b: Builder, x: Instruction) -> Instruction:
    """Views of two types that lie alike."""
    return b.softmax(b.convert(x, target_type="float"), axis=1)


TILES = {
    "one tile": Plan(2, 64, 1, vector=8),
    "pieces": Plan(1, 16, 1, vector=8, pieces=2),
    "several rows in pieces": Plan(4, 16, 1, vector=8, pieces=2),
    "late": Plan(1, 16, 1, vector=8, pieces=2, late=True),
}


@pytest.mark.parametrize("tiles", few(TILES, "pieces", "one tile"))
@pytest.mark.parametrize("length", few([49, 54], 49))
def test_rows_between_vectors(tiles: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a row's own elements is read and written, whichever rows are neighbours."""
    as_planned(TILES[tiles], monkeypatch)
    x, own = Shape("half", (9, length)), Shape("half", (length,))  # rows begin at each place of a vector
    for build, shapes in (
        (softmax(1), (x,)), (layer_norm, (x, own, own)), (norm_of_sum, (x, x)), (mean, (x,)), (widened, (x,)),
    ):  # fmt: skip
        made = check(built(build, *shapes), scale=4)
        (kernel,) = [k for k in cast(Any, made.executable).plan.kernels if k.name == "reduce"]
        assert "whole" in kernel.source


def test_rows_of_whole_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the compiler does not know: it is told of multiples of 16. None is an element by itself."""
    for type, length, vector in (("half", 40, 8), ("float", 36, 4)):
        as_planned(Plan(2, 16, 1, vector=vector, pieces=3), monkeypatch)
        x, own = Shape(type, (5, length)), Shape(type, (length,))
        for build, shapes in ((softmax(1), (x,)), (layer_norm, (x, own, own))):
            made = check(built(build, *shapes), scale=4)
            (kernel,) = cast(Any, made.executable).plan.kernels
            assert "whole" in kernel.source and "inside_ce" not in kernel.source


def test_a_row_that_fills_the_registers_waits_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the kernel in front of it, before it computes where the row lies: what waits would be kept."""
    as_planned(Plan(1, 16, 1, vector=8, pieces=4), monkeypatch)
    for longest, first in ((48, True), (49, False)):
        monkeypatch.setattr(rows, "LONGEST_BEHIND", longest)
        made = check(built(softmax(1), Shape("half", (19, 49))), scale=4)
        (kernel,) = cast(Any, made.executable).plan.kernels
        assert (WAITS in kernel.source.split("begin0")[0]) == first


def test_several_rows_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole vectors, in pieces that need no masks or few."""
    monkeypatch.setattr(plans, "PROGRAMS", 1)
    for type, length in (("half", 96), ("half", 200), ("float", 160), ("int8", 80)):
        x, own = Shape(type, (21, length)), Shape(type, (length,))
        builds = (mean,) if type == "int8" else (softmax(1), layer_norm)
        for build in builds:
            made = check(built(build, *((x, own, own) if build is layer_norm else (x,))), scale=4)
            (kernel,) = cast(Any, made.executable).plan.kernels
            assert dict(kernel.constants)["ROWS"] > 1


@pytest.mark.slow
def test_where_rows_are_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that differs among rows lies alike; else, and where the compiler sees it, as it was."""
    seen: list[int] = []
    chosen = reduce.plan_at
    monkeypatch.setattr(reduce, "plan_at", lambda *numbers: seen.append(numbers[-2]) or chosen(*numbers))

    def vector(build: Callable[..., Instruction], *shapes: Shape) -> int:
        check(built(build, *shapes), scale=4)
        return seen.pop()

    def sliced(b: Builder, x: Instruction) -> Instruction:
        return b.softmax(b.slice(x, axes=(1,), starts=(1,), ends=(38,)), axis=1)

    def added(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.softmax(b.add(x, b.transpose(y, permutation=(1, 0))), axis=1)

    half = Shape("half", (3, 37))
    assert vector(softmax(1), half) == vector(mean, half) == vector(widened, half) == 8
    assert vector(softmax(1), Shape("half", (3, 40))) == 8 and vector(softmax(1), Shape("float", (3, 36))) == 4
    assert vector(lambda b, x: b.reduce_sum(x, axes=(1,)), Shape("uint8", (3, 35))) == 16
    assert vector(softmax(1), Shape("half", (3, 48))) == vector(softmax(1), Shape("half", (3, 9))) == 0
    assert vector(softmax(1), Shape("float", (3, 37))) == 0
    assert vector(sliced, Shape("half", (3, 39))) == vector(added, half, Shape("half", (37, 3))) == 0


def test_what_a_softmax_of_16_bits_loses() -> None:
    """The last bits of exponentials, of which rounding leaves nothing; a float keeps them, and so does no reduction."""

    def exponentials(b: Builder, x: Instruction) -> Instruction:
        return b.convert(b.exp(b.convert(x, target_type="float")), target_type="half")

    exact = [
        "scalar_exp(v" in cast(Any, check(built(build, Shape(type, (3, 16)))).executable).plan.kernels[0].source
        for build, type in ((softmax(1), "half"), (softmax(1), "float"), (exponentials, "half"))
    ]
    assert exact == [False, True, True]
