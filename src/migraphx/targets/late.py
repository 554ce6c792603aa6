"""A target as the registry gives it: what compiles is imported when something must be compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.passes.interface import Pass
from migraphx.runtime.device import Peaks
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.target import Target


class LateTarget(Target):
    """A saved program runs by `restore_static` alone; passes and lowerings are imported by `whole`."""

    def whole(self) -> Target:
        """The target itself, imported now."""
        raise NotImplementedError

    def restore_static(
        self, data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions
    ) -> Executable | None:
        """As `restore`, of a program whose lengths are known."""
        raise NotImplementedError

    @cached_property
    def _whole(self) -> Target:
        return self.whole()

    @property
    def passes(self) -> Sequence[Pass]:
        return self._whole.passes

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        return self._whole.supports(ins)

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        return self._whole.refusals(program, options)

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        return self._whole.compile(program, options)

    def compile_ahead(self, program: Program, options: CompileOptions) -> None:
        self._whole.compile_ahead(program, options)

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
        return self.restore_static(data, tensors, trust_code, options)
