"""What target cpu lowers, target gpu lowers, too."""

from migraphx.targets.cpu.lower import CPU
from migraphx.targets.gpu.lower import GPU

MISSING: dict[str, str] = {}
"""Operators that cpu has and gpu has not, each with the reason."""


def test_gpu_lowers_what_cpu_lowers():
    missing = CPU.operators() - GPU.operators()
    assert missing == MISSING.keys(), f"gpu does not lower {', '.join(sorted(missing - MISSING.keys()))}"
    assert CPU.contractions() <= GPU.contractions() | MISSING.keys()
