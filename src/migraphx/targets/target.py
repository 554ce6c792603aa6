"""Target: what turns a program into something that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from migraphx.ir.program import Program
from migraphx.passes.manager import Pass
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions


class Target(Protocol):
    """`ref`, `cpu` or `gpu`."""

    name: str
    passes: Sequence[Pass]  # what `compile` runs first, in order
    tunes: bool  # whether it has kernels to choose among, as `exhaustive_tune` asks

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
