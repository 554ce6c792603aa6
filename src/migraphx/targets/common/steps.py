"""What a lowered program does, step by step, and how long its memory is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.operation import Literal
from migraphx.ir.program import Program, reachable
from migraphx.ir.text import instruction_text, names_of
from migraphx.ops.dynamic import Converted
from migraphx.runtime.executable import Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import LOOP, Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.plan_memory import Lifetime
from migraphx.targets.common.views import Buffer


def literals(program: Program) -> list[np.ndarray]:
    """The constants of all modules, and those that conversions will make."""
    every = [ins.op for module in reachable(program.main) for ins in module]
    kept = [op.value for op in every if isinstance(op, Literal)]
    return kept + [a for op in every if isinstance(op, Converted) for a in op.lasting()]


def constants_of(program: Program, options: CompileOptions) -> Constants:
    """Where a program that is compiled with these options keeps what it packs.

    Programs that only conversions with one and the same `lasting` make keep it together.
    """
    every = [ins.op for module in reachable(program.main) for ins in module]
    named = {op.lasting for op in every if isinstance(op, Converted)} - {tuple}
    if len(named) != 1 or any(isinstance(op, Literal) for op in every):
        return Constants(lasting=lambda: literals(program))
    (lasting,) = named
    return Constants.shared(lasting, options)


def steps_of(lowered: LoweringContext) -> list[Step]:
    """What each call does; of several calls for one instruction, the last has its operations: the others prepare."""
    names = names_of(lowered.module)
    for module in lowered.inner:
        names |= names_of(module, f"{module.name}:")
    following = [*lowered.sources, None][1:]
    steps: list[Step] = []
    for call, ins, after in zip(lowered.calls, lowered.sources, following, strict=True):
        text = instruction_text(ins, names) if ins is not None else "copy to an output"
        work = ins.flops if ins is not None and ins is not after else 0
        steps.append(Step(text, call.label, call.origin, call.bytes, work + call.also))
    return steps


def lifetimes(calls: Sequence[Call[Any]]) -> list[Lifetime]:
    """From the first call that touches an arena buffer to the last.

    A buffer that is used both inside a loop and outside of it lives as long as the loop.
    """
    spans: dict[Buffer, tuple[int, int]] = {}
    for n, call in enumerate(calls):
        for v in call.views:
            if v.buffer.kind == "arena":
                first, _ = spans.get(v.buffer, (n, n))
                spans[v.buffer] = (first, n)
    loops = [(n, call.target - 1) for n, call in enumerate(calls) if call.flow == LOOP]
    for begin, end in reversed(loops):  # inner ones first
        for buffer, (first, last) in spans.items():
            if first <= end and begin <= last and not begin <= first <= last <= end:
                spans[buffer] = (min(first, begin), max(last, end))
    return [Lifetime(b, *span) for b, span in spans.items()]
