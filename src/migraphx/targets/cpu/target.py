"""Target `cpu`."""

from __future__ import annotations

from migraphx.ir.program import Program
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions


class CpuTarget:
    """Generates C++ for the whole program and compiles it."""

    name = "cpu"

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        raise RuntimeError("the cpu target is being built")
