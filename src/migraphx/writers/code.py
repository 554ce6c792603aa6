"""The order in which code builds a program, whatever the language."""

from __future__ import annotations

from abc import ABC, abstractmethod

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program


class CodeWriter(ABC):
    """Modules are created first, in order, and filled when the first instruction refers to them.

    `names` and `modules` hold the variables: `m` is the main module, `m_3` its fourth instruction.
    """

    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self.names: dict[Instruction, str] = {}
        self.modules: dict[Module, str] = {}
        self._filled: set[Module] = set()
        for k, m in enumerate(program.modules.values()):
            self.modules[m] = "m" if m.name == "main" else f"m{k}"
            self.create(m)
        for m in program.modules.values():
            self.fill(m)

    def fill(self, module: Module) -> None:
        """The statements of one module, before them those of the modules that it takes as arguments."""
        if module in self._filled:
            return
        self._filled.add(module)
        self.names |= {ins: f"{self.modules[module]}_{n}" for n, ins in enumerate(module)}
        for ins in reversed([i for i in module if isinstance(i.op, (Parameter, Literal))]):
            self.leaf(ins, self.modules[module])  # each goes to the front of its module
        for ins in module:
            if not isinstance(ins.op, (Parameter, Literal)):
                for m in ins.modules:
                    self.fill(m)
                self.instruction(ins, self.modules[module])

    @abstractmethod
    def create(self, module: Module) -> None:
        """The statement that makes `self.modules[module]`."""

    @abstractmethod
    def leaf(self, ins: Instruction, owner: str) -> None:
        """The statements that add a parameter or a literal."""

    @abstractmethod
    def instruction(self, ins: Instruction, owner: str) -> None:
        """The statement that adds anything else; `@return` among it."""
