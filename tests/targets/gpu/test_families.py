"""One kernel of each family is compiled for each chip, without a GPU."""

from collections.abc import Iterable

import pytest

from migraphx.targets.gpu.binaries import binaries
from tests.targets.gpu.families import FAMILIES, kernels
from tests.tiers import few_rows

SHARED = {"cuda:80": 163 << 10, "cuda:90": 227 << 10, "cuda:100": 227 << 10, "hip:gfx942": 64 << 10}


SOME = ("broadcast", "words of every kind", "eight bits", "rows in registers", "columns", "scatter", "nearest")
"""What chips differ in: bf16, fp8, NaN in maxima, barriers, atomics. Without a GPU the rest compiles for one."""
QUICK = ("broadcast", "rows in registers", "scatter")
"""Of each kind of kernel one; `make test-all` compiles the others, and those for other chips."""


@pytest.mark.usefixtures("warm_compilers")
@pytest.mark.parametrize(
    ("chip", "names"),
    few_rows([("cuda:90", QUICK), *((chip, [*FAMILIES] if chip == "cuda:90" else SOME) for chip in SHARED)], at=[0]),
)
def test_families_compile(chip: str, names: Iterable[str]) -> None:
    compiled(chip, names)


@pytest.mark.every_chip
@pytest.mark.parametrize("chip", SHARED)
def test_every_family_compiles(chip: str) -> None:
    """Where there is time for it."""
    compiled(chip, FAMILIES)


def compiled(chip: str, names: Iterable[str]) -> None:
    made = binaries(list(dict.fromkeys(k for name in names for k in kernels(FAMILIES[name]))), chip)
    assert all(binary.shared <= SHARED[chip] for binary in made.values())
