"""Random graphs over many operators and types, compiled, answer as NumPy did while they grew.

With little optimisation: what compilers make of each kind of kernel is the other tests' matter, and that of
`python -m tools.fuzz_graphs`, which compiles as users do.
"""

from __future__ import annotations

import pytest

from tools.fuzz_graphs import faults, made


@pytest.mark.unoptimised
@pytest.mark.parametrize("seed", range(3))
def test_random_graphs(seed: int) -> None:
    wrong = faults(*made([(100, seed, n) for n in range(4)]))
    assert not wrong, "\n\n".join(wrong)
