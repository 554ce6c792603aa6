"""One kernel of each family is compiled for each chip, without a GPU."""

import pytest

from migraphx.targets.gpu.binaries import binaries
from tests.targets.gpu.families import FAMILIES, kernels

SHARED = {"cuda:80": 163 << 10, "cuda:90": 227 << 10, "cuda:100": 227 << 10, "hip:gfx942": 64 << 10}


@pytest.mark.parametrize("chip", SHARED)
def test_every_family_compiles(chip: str) -> None:
    made = binaries(list(dict.fromkeys(k for case in FAMILIES.values() for k in kernels(case))), chip)
    assert all(binary.shared <= SHARED[chip] for binary in made.values())
