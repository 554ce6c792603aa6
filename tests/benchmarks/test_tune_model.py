"""Configurations of target gpu's kernels, tried in a whole model."""

from __future__ import annotations

import numpy as np

from benchmarks.gpu.tune_model import Trying
from migraphx.ir.builder import Builder
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.executable import GpuExecutable
from tests.targets.gpu.interpreted import InterpretedDevice


def test_configurations_are_tried_in_a_model() -> None:
    """Those that are given are compiled, of other problems the table's; each problem has others to try."""
    program = Program()
    b, x = Builder(program.main), program.main.add_parameter("x", Shape("half", (64, 128)))
    program.main.add_return([b.relu(b.dot(x, b.literal(np.ones((128, 64), np.float16))))])
    target = Trying(InterpretedDevice(), program)
    target.compile(program.clone(), CompileOptions(offload_copy=False))
    ((problem, others),) = target.others.items()
    assert 3 < len(others) == len({*others}) and target.used[problem] not in others and target.kernels
    target.given[problem] = others[-1]
    made = target.compile(program.clone(), CompileOptions(offload_copy=False))
    assert isinstance(made, GpuExecutable)
    (kernel,) = made.plan.kernels
    assert {"BM": others[-1].m, "BN": others[-1].n, "BK": others[-1].k}.items() <= dict(kernel.constants).items()
