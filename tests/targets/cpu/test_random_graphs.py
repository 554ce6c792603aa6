"""Random graphs: optimised and compiled they must answer as ref does on what was written."""

from __future__ import annotations

import pytest

from migraphx.ir.shape import Shape
from tests.targets.cpu.random_graphs import RandomGraph
from tests.targets.cpu.side_by_side import Case, check

INPUTS = (
    Shape("float", (2, 8, 7, 6)),
    Shape("float", (2, 8, 7, 6)),
    Shape("float", (1, 8, 1, 1)),
    Shape("float", (7, 6)),
)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed: int) -> None:
    cases = [
        Case(f"graph{seed}_{n}", lambda b, *xs, s=7 * seed + n: RandomGraph(b, list(xs), s).grow(25), INPUTS, scale=200)
        for n in range(4)
    ]
    check(cases, seed)
