"""The smallest part of a program that still differs from `ref`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from migraphx.inspect.isolation import checkable, isolated
from migraphx.inspect.running import DEFAULTS, Inputs, Settings, with_lens_of
from migraphx.inspect.verify import VerifyReport, reference_values, verify_program
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.text import instruction_text, names_of
from migraphx.passes.dead_code import dead_code


@dataclass(frozen=True)
class Reduction:
    """`program` on `inputs` differs as `report` says; it ends at `instruction`, which came from `origin`.

    One instruction earlier the difference is not there.
    """

    program: Program
    inputs: dict[str, np.ndarray] = field(repr=False)
    instruction: str
    origin: str
    report: VerifyReport


def reduce_program(
    program: Program, target_name: str, inputs: Inputs, settings: Settings = DEFAULTS
) -> Reduction | None:
    """Trim a program that fails `verify_program` from the end until the failure goes; None where it passes.

    Looks for the end by halving, so that a program of n instructions is compiled about log2(n) times. Then the
    beginning is cut off too, where the last instruction differs alone on the values that it has on `ref`.
    """
    program = with_lens_of(program, inputs)

    def check(candidate: Program, given: Inputs) -> VerifyReport:
        return verify_program(candidate, target_name, given, settings)

    found = _first_failing(program, lambda p: check(p, inputs))
    if found is None:
        return None
    ins, cut, report = found
    text = instruction_text(ins, names_of(program.main))
    producer = ins if checkable(ins) else ins.inputs[0]  # an element of a tuple
    one = isolated([producer], reference_values(program, inputs))
    on_its_own = check(one.program, one.inputs)
    if not on_its_own.passed:
        return Reduction(one.program, one.inputs, text, ins.origin, on_its_own)
    used = {n: np.asarray(inputs[n]) for n in cut.main.parameters}
    return Reduction(cut, used, text, ins.origin, report)


def _first_failing(
    program: Program, check: Callable[[Program], VerifyReport]
) -> tuple[Instruction, Program, VerifyReport] | None:
    whole = check(program)
    bad = [o for o, c in zip(program.main.outputs, whole.outputs, strict=True) if not c.passed]
    if not bad:
        return None
    above = _ancestors(bad[0])
    order = [i for i in program.main if i in above and not i.name.startswith("@") and i.shape.type != "tuple"]
    if not order or order[-1] is not bad[0]:
        raise ValueError(f"an output that nothing computes differs: {bad[0]!r}")
    low, high = -1, len(order) - 1  # a program that ends at order[low] passes, at order[high] fails
    cut = _ending_at(program, order[high])
    report = check(cut)
    if report.passed:
        return order[high], program, whole  # fails only as one of several outputs
    while high - low > 1:
        middle = (low + high) // 2
        candidate = _ending_at(program, order[middle])
        verdict = check(candidate)
        if verdict.passed:
            low = middle
        else:
            high, cut, report = middle, candidate, verdict
    return order[high], cut, report


def _ancestors(ins: Instruction) -> set[Instruction]:
    seen, stack = {ins}, [ins]
    while stack:
        for i in stack.pop().inputs:
            if i not in seen:
                seen.add(i)
                stack.append(i)
    return seen


def _ending_at(program: Program, ins: Instruction) -> Program:
    """A copy that returns this instruction, without what it does not need."""
    position = list(program.main).index(ins)
    copy = program.clone()
    copy.main.replace_return([list(copy.main)[position]])
    dead_code(copy.main)
    for parameter in [i for i in copy.main.parameters.values() if not i.users and i not in copy.main.outputs]:
        copy.main.remove(parameter)
    copy.drop_unused_modules()
    return copy
