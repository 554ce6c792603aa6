"""Target gpu as the registry gives it: saved programs run without what compiles, which comes when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.passes.manager import Pass
from migraphx.runtime.device import Device, Peaks
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.executable import restored
from migraphx.targets.target import Target


def gpu_target() -> GpuEntry:
    """For the current device; Unsupported says what is missing."""
    return GpuEntry(current_device())


class GpuEntry(Target):
    """Target gpu for one accelerator: `GpuTarget`, which is imported when something must be compiled."""

    name = "gpu"
    tunes = True

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.device: Device = accelerator

    @cached_property
    def _whole(self) -> Target:
        return import_module("migraphx.targets.gpu.target").GpuTarget(self.accelerator)

    @property
    def passes(self) -> Sequence[Pass]:
        return self._whole.passes

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        return self._whole.supports(ins)

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        return self._whole.refusals(program, options)

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        return self._whole.compile(program, options)

    def peaks(self, threads: int) -> Peaks:
        return self._whole.peaks(threads)

    def diagnose(self) -> Mapping[str, Callable[[], str]]:
        return self._whole.diagnose()

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        if "dynamic" in data:
            return self._whole.restore(data, tensors, trust_code, program, options)
        return restored(self.accelerator, data, tensors, trust_code, options.offload_copy)
