"""Instructions taken out of their program, each on given values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, captured
from migraphx.ir.operation import Literal, Value
from migraphx.ir.program import Program, reachable


@dataclass
class IsolatedProgram:
    """A program, its inputs, and how many of its outputs belong to each instruction, in order."""

    program: Program = field(default_factory=Program)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: dict[Instruction, int] = field(default_factory=dict)


def checkable(ins: Instruction) -> bool:
    """Whether an instruction computes something by itself; elements of a tuple come with the tuple."""
    return not ins.name.startswith("@") and ins.name != "get_tuple_elem"


def isolated(instructions: Sequence[Instruction], values: Mapping[Instruction, Value]) -> IsolatedProgram:
    """A program that computes each from `values` of its inputs, and returns them all.

    What is a literal, perhaps seen through views, stays one: targets treat weights differently. A value that several
    need is a parameter of each, so that nothing is shared and nothing fused.
    """
    made = IsolatedProgram()
    b = Builder(made.program.main)
    results: list[Instruction] = []
    for k, ins in enumerate(instructions):
        env = {i: _source(made, i, values[i], f"{k}.{n}") for n, i in enumerate(_reads(ins))}
        modules = [m.clone(dict(env)) for m in ins.modules]
        for n, m in enumerate(x for top in modules for x in reachable(top)):
            m.name = f"{k}.{n}.{m.name}"
            made.program.modules[m.name] = m
        copy = made.program.main.add_instruction(ins.op, [env[i] for i in ins.inputs], modules, origin=ins.origin)
        parts = b.outputs(copy, len(ins.shape.sub_shapes)) if ins.shape.type == "tuple" else [copy]
        made.outputs[ins] = len(parts)
        results += parts
    made.program.main.add_return(results)
    return made


def _reads(ins: Instruction) -> list[Instruction]:
    """The values that an instruction needs from outside, its modules' too, each once."""
    own = {i for m in ins.modules for x in reachable(m) for i in x}
    return list(dict.fromkeys((*ins.inputs, *(i for i in captured(ins) if i not in own))))


def _source(made: IsolatedProgram, ins: Instruction, value: Value, name: str) -> Instruction:
    if _is_constant(ins):
        return made.program.main.add_literal(np.asarray(value), ins.origin)
    made.inputs[name] = np.asarray(value)
    return made.program.main.add_parameter(name, ins.shape)


def _is_constant(ins: Instruction) -> bool:
    while ins.op.view and len(ins.inputs) == 1:
        ins = ins.inputs[0]
    return isinstance(ins.op, Literal)
