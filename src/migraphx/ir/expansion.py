"""The expansion of deferred instructions, once the sizes of their inputs are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program


class ValueNeeded(ValueError):
    """An expansion must know the values of these instructions."""

    def __init__(self, what: str, values: Iterable[Instruction]) -> None:
        super().__init__(f"{what} must be known")
        self.values = tuple(values)


@dataclass
class Expansion:
    """The expansion of instructions: the module under construction, its program, and the values known so far."""

    program: Program
    module: Module
    origin: str = ""
    values: dict[Instruction, np.ndarray | None] = field(default_factory=dict[Instruction, np.ndarray | None])
    ramps: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])  # what is known without numbers

    def known(self, x: Instruction, what: str) -> np.ndarray:
        """The value of a constant; ValueNeeded for anything else."""
        value = x.literal if x.literal is not None else self.values.get(x)
        if value is None:
            raise ValueNeeded(what, [x])
        return value
