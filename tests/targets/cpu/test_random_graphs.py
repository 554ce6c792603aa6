"""Random graphs over many operators and types, compiled, answer as NumPy did while they grew."""

from __future__ import annotations

import pytest

from tools.fuzz_graphs import faults, made


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs(seed: int) -> None:
    wrong = faults(*made([(100, seed, n) for n in range(4)]))
    assert not wrong, "\n\n".join(wrong)
