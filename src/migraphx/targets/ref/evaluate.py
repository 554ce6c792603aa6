"""Evaluate a module with NumPy: the meaning that every other target is checked against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Parameter, Return, Value
from migraphx.runtime.deadline import Deadline
from migraphx.targets.common.host import compute

Trace = Callable[[Instruction, Value], None]


def evaluate(
    module: Module,
    arguments: Mapping[str, np.ndarray],
    *,
    outer: Mapping[Instruction, Value] | None = None,
    trace: Trace | None = None,
    deadline: Deadline | None = None,
) -> list[Value]:
    """The module's outputs for named arguments; `trace` sees every instruction with its value.

    TimeoutError behind the deadline.
    """
    values: dict[Instruction, Value] = dict(outer or {})

    def run(inner: Module, args: Sequence[Value]) -> list[Value]:
        return evaluate(inner, dict(zip(inner.parameters, args, strict=True)), outer=values, deadline=deadline)

    if deadline is not None:  # here too: the body of a loop may have no instructions
        deadline.check()
    for ins in module:
        if isinstance(ins.op, Return):
            break
        if isinstance(ins.op, Parameter):
            values[ins] = arguments[ins.op.parameter]
        else:
            values[ins] = compute(ins, [values[i] for i in ins.inputs], run, deadline)
        if trace is not None:
            trace(ins, values[ins])
    return [values[o] for o in module.outputs]
