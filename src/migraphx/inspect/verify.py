"""A target's answers against those of `ref`: of the whole program, and of each instruction alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from migraphx.inspect.compare import Check, compare
from migraphx.inspect.isolation import checkable, isolated
from migraphx.inspect.running import (
    DEFAULTS,
    Inputs,
    Settings,
    array_for,
    on_ref,
    on_target,
    outputs_named,
    with_lens_of,
)
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Value
from migraphx.ir.program import Program
from migraphx.ir.text import instruction_text, names_of
from migraphx.targets.ref.evaluate import evaluate

BATCH = 48  # instructions compiled together: one compilation for many, and few enough for their values to be small


@dataclass(frozen=True)
class VerifyReport:
    """Every output compared."""

    target: str
    outputs: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(o.passed for o in self.outputs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))


@dataclass(frozen=True)
class InstructionCheck:
    """One instruction run alone on the values that it has on `ref`; a tuple has several outputs."""

    text: str
    origin: str
    outputs: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(o.passed for o in self.outputs)


def verify_program(program: Program, target_name: str, inputs: Inputs, settings: Settings = DEFAULTS) -> VerifyReport:
    """Run the program on the target and on `ref` and compare every output."""
    wanted = outputs_named(on_ref(program, inputs, settings.double))
    got = on_target(program, target_name, inputs, settings.compile_options)
    pairs = zip(wanted.items(), got, strict=True)
    checks = tuple(compare(n, value, want, settings.tolerance) for (n, want), value in pairs)
    return VerifyReport(target_name, checks)


def verify_instructions(
    program: Program, target_name: str, inputs: Inputs, settings: Settings = DEFAULTS
) -> list[InstructionCheck]:
    """Every instruction of the main module, in order, as a program of its own on the values that `ref` gives it.

    So an error shows at the instruction that makes it, and only there. Many are compiled at once; they share no value.
    """
    program = with_lens_of(program, inputs)
    values = reference_values(program, inputs)
    names = names_of(program.main)

    def outputs_of(batch: Sequence[Instruction]) -> list[tuple[Check, ...]]:
        one = isolated(batch, values)
        report = verify_program(one.program, target_name, one.inputs, settings)
        checks = iter(report.outputs)
        return [tuple(islice(checks, one.outputs[ins])) for ins in batch]

    found = []
    for batch in _batches(i for i in program.main if checkable(i)):
        for ins, outputs in zip(batch, outputs_of(batch), strict=True):
            wrong = not all(o.passed for o in outputs)
            outputs = outputs_of([ins])[0] if wrong and len(batch) > 1 else outputs  # its neighbours may be to blame
            found.append(InstructionCheck(instruction_text(ins, names), ins.origin, outputs))
    return found


def reference_values(program: Program, inputs: Inputs) -> Mapping[Instruction, Value]:
    """What every instruction of the main module is worth on `ref`."""
    values: dict[Instruction, Value] = {}
    given: dict[str, np.ndarray] = {n: array_for(n, i.shape, inputs) for n, i in program.main.parameters.items()}
    evaluate(program.main, given, trace=values.__setitem__)
    return values


def _batches(instructions: Iterable[Instruction]) -> Iterator[Sequence[Instruction]]:
    rest = iter(instructions)
    while batch := list(islice(rest, BATCH)):
        yield batch
