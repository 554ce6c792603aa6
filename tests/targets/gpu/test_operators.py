"""What target cpu lowers, target gpu lowers, too, and answers as it does."""

import pytest

from migraphx.targets.cpu.lower import CPU
from migraphx.targets.gpu.lower import GPU
from tests.targets.cpu import test_pointwise_reduce as on_cpu
from tests.tiers import few

SHARED = [
    on_cpu.test_reductions,
    on_cpu.test_fused_reductions,
    on_cpu.test_values_that_wait_in_the_output,
    on_cpu.test_empty,
]

MISSING: dict[str, str] = {}
"""Operators that cpu has and gpu has not, each with the reason."""


def test_gpu_lowers_what_cpu_lowers():
    missing = CPU.operators() - GPU.operators()
    assert missing == MISSING.keys(), f"gpu does not lower {', '.join(sorted(missing - MISSING.keys()))}"
    assert CPU.contractions() <= GPU.contractions() | MISSING.keys()


@pytest.mark.parametrize("test", few(SHARED, at=[1, 3]), ids=lambda test: test.__name__)
def test_reductions_as_on_cpu(test, gpu_target):
    test(target=gpu_target)
