"""Target: what turns a program into something that runs."""

from __future__ import annotations

from typing import Protocol

from migraphx.ir.program import Program
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions


class Target(Protocol):
    """`ref`, `cpu` or `gpu`."""

    name: str

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        """Compile a program, which may be changed: the caller passes a copy where it wants to keep it."""
        ...
