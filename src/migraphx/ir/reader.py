"""What the readers of programs share, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program

Line = TypeVar("Line")
DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, MemoryError, RecursionError)
"""What a line that is no instruction may raise, whatever stands in it."""


class ModuleReader(Generic[Line]):
    """Makes a program of modules that are lists of lines, one an instruction.

    An inner module may use values of the module that holds it, so it is read when the first line refers to it. A
    subclass reads one line (`instruction`), and says which one it is (`where`) and by what `error` a bad one is
    reported.
    """

    error: type[ValueError]

    def __init__(self, bodies: Mapping[str, Sequence[Line]]) -> None:
        self.program = Program()
        self.bodies = bodies
        self._values: dict[str, Instruction] = {}
        self._begun: set[str] = set()
        for name in bodies:
            if name not in self.program.modules:
                self.program.create_module(name)

    def instruction(self, module: Module, number: int, line: Line) -> tuple[str, Instruction]:
        """Append what a line says to `module`; the name by which others refer to it, and the instruction."""
        raise NotImplementedError

    def where(self, module: str, number: int, line: Line) -> str:
        """How an error names a line."""
        raise NotImplementedError

    def value(self, name: str) -> Instruction:
        """The instruction of that name; ValueError where no line before had it."""
        if name not in self._values:
            raise ValueError(f"unknown name {name!r}")
        return self._values[name]

    def all(self) -> Program:
        """The program, every module of it; `error` names the first bad line."""
        for name in self.bodies:
            self.module(name)
        return self.program

    def module(self, name: str) -> Module:
        """A module, read now unless it was; `error` names the first bad line, ValueError a module that is not there."""
        if name not in self.program.modules:
            raise ValueError(f"unknown module {name!r}")
        module = self.program.modules[name]
        if name in self._begun:
            return module
        self._begun.add(name)
        for number, line in enumerate(self.bodies.get(name, ())):
            try:
                own, made = self.instruction(module, number, line)
                if own in self._values:
                    raise ValueError(f"{own!r} is defined twice")
                self._values[own] = made
            except self.error:
                raise
            except DAMAGED as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else error
                raise self.error(f"{self.where(name, number, line)}: {why}") from error
        return module
