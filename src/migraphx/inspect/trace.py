"""A run on `ref` that shows every value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from migraphx.inspect.running import Inputs, array_for, with_lens_of
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Value
from migraphx.ir.program import Program
from migraphx.targets.ref.evaluate import evaluate


def run_trace(program: Program, inputs: Inputs, callback: Callable[[Instruction, Value], None]) -> list[np.ndarray]:
    """The outputs on `ref`; `callback(instruction, value)` sees every instruction of the main module once it has run.

    A value is an array, or a tuple of them. What the callback raises ends the run.
    """
    program = with_lens_of(program, inputs)
    given = {n: array_for(n, i.shape, inputs) for n, i in program.main.parameters.items()}
    return [np.asarray(v) for v in evaluate(program.main, given, trace=callback)]
