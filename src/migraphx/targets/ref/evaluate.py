"""Evaluate a module with NumPy: the meaning that every other target is checked against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Parameter, Return, Value

Trace = Callable[[Instruction, Value], None]


def evaluate(
    module: Module,
    arguments: Mapping[str, np.ndarray],
    *,
    outer: Mapping[Instruction, Value] | None = None,
    trace: Trace | None = None,
) -> list[Value]:
    """The module's outputs for named arguments; `trace` sees every instruction with its value."""
    values: dict[Instruction, Value] = dict(outer or {})

    def run(inner: Module, args: Sequence[Value]) -> list[Value]:
        return evaluate(inner, dict(zip(inner.parameters, args, strict=True)), outer=values)

    for ins in module:
        if isinstance(ins.op, Return):
            break
        if isinstance(ins.op, Parameter):
            values[ins] = arguments[ins.op.parameter]
        else:
            values[ins] = ins.op.compute_with([values[i] for i in ins.inputs], ins.modules, run)
        if trace is not None:
            trace(ins, values[ins])
    return [values[o] for o in module.outputs]
