"""Target: what turns a program into something that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.passes.manager import Pass
from migraphx.runtime.device import Device
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions


class Target(Protocol):
    """`ref`, `cpu` or `gpu`."""

    name: str
    device: Device  # where programs run that it compiles
    passes: Sequence[Pass]  # what `compile` runs first, in order
    tunes: bool  # whether it has kernels to choose among, as `exhaustive_tune` asks

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        """Why the target cannot compile an instruction of a program that no pass has seen; None where it can.

        What depends on the whole program (how many loops it has) shows when it is compiled: UnsupportedOperator.
        """
        ...

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        """Run the passes and choose the kernels as `compile` does, and say what they refused. Changes the program."""
        ...

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        """Compile a program, which may be changed: the caller passes a copy where it wants to keep it.

        `options.check_target` is the caller's.
        """
        ...

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        """The executable whose `sections` these are, or None where it must be compiled again.

        Code among the tensors is used only where `trust_code` is set. `program` reads the graph, for lengths that
        the sections do not hold.
        """
        ...
