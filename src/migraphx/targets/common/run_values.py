"""The values of a run whose program is in parts, between these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import Device
from migraphx.targets.common.host import compute, lasting

Arguments = Mapping[str, Argument]


class RunValues:
    """The values that one run has made so far: each where it was made, and where else it was asked for."""

    def __init__(self, given: Arguments, device: Device, stream: int | None) -> None:
        self.device, self.stream = device, stream
        self._given = given
        self._arguments: dict[Instruction, Argument] = {}
        self._arrays: dict[Instruction, Any] = {}

    def add(self, instructions: Iterable[Instruction], made: Iterable[Argument]) -> None:
        self._arguments |= zip(instructions, made, strict=True)

    def compute(self, ins: Instruction, deadline: Deadline | None) -> None:
        """One instruction, by its NumPy meaning."""
        self._arrays[ins] = compute(ins, [self.array(i) for i in ins.inputs], _no_modules, deadline)

    def argument(self, ins: Instruction) -> Argument:
        """The value on the device, row-major."""
        if isinstance(ins.op, Parameter):
            return self._given[ins.op.parameter]
        if ins not in self._arguments:
            array = np.asarray(self.array(ins), order="C")
            own = array.flags.writeable  # not a constant, nor a view of one
            self._arguments[ins] = Argument.of(array if own else array.copy()).to(self.device, self.stream)
        return self._arguments[ins]

    def array(self, ins: Instruction) -> Any:
        """The value in main memory, which a run on another device waits for; a list where it is a sequence."""
        if isinstance(ins.op, Literal):
            return ins.op.value
        if ins not in self._arrays:
            self._arrays[ins] = lasting(self.argument(ins), self.stream)
        return self._arrays[ins]


def _no_modules(module: Module, args: Sequence[Any]) -> list[Any]:
    raise ValueError(f"module {module.name!r} cannot run on the host: its sizes depend on data")
