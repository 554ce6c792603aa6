"""Random graphs over many operators and types, compiled, answer as NumPy did while they grew.

The first ones are compiled as users compile them, as are those of `python -m tools.fuzz_graphs`.
"""

from __future__ import annotations

import pytest

from tests.tiers import few
from tools.fuzz_graphs import faults, made


@pytest.mark.parametrize("seed", few([0, *(pytest.param(n, marks=pytest.mark.unoptimised) for n in (1, 2))], 1))
def test_random_graphs(seed: int) -> None:
    wrong = faults(*made([(100, seed, n) for n in range(4)]))
    assert not wrong, "\n\n".join(wrong)
