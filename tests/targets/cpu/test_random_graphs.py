"""Random graphs over many operators and types, compiled, answer as NumPy did while they grew.

The first ones are compiled as users compile them, as are those of `python -m tools.fuzz_graphs`.
"""

from __future__ import annotations

import pytest

from tools.fuzz_graphs import faults, made

QUICKLY = pytest.mark.unoptimised


@pytest.mark.parametrize(
    ("seed", "first", "behind"),
    [(0, 0, 2), pytest.param(0, 2, 4, marks=QUICKLY), *(pytest.param(n, 0, 4, marks=QUICKLY) for n in (1, 2))],
)
def test_random_graphs(seed: int, first: int, behind: int) -> None:
    wrong = faults(*made([(100, seed, n) for n in range(first, behind)]))
    assert not wrong, "\n\n".join(wrong)
