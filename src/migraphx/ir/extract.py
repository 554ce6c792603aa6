"""A part of a program as a program of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migraphx.ir.module import Instruction, captured
from migraphx.ir.operation import Parameter
from migraphx.ir.program import Program, reachable


def extract(source: Program, inputs: Mapping[str, Instruction], outputs: Sequence[Instruction]) -> Program:
    """What computes `outputs` from `inputs`, which become row-major parameters of these names, in order.

    Both are instructions of the main module; literals keep their memory. ValueError where an output needs a parameter
    of `source` that is not among the inputs.
    """
    program, env = Program(), dict[Instruction, Instruction]()
    for name, ins in inputs.items():
        env[ins] = program.main.add_parameter(name, ins.shape.as_standard())
    needed, stack = set[Instruction](), list(outputs)
    while stack:
        ins = stack.pop()
        if ins not in env and ins not in needed:
            needed.add(ins)
            stack += [*ins.inputs, *(i for i in captured(ins) if i.owner is source.main)]
    for ins in source.main:
        if ins not in needed:
            continue
        if isinstance(ins.op, Parameter):
            raise ValueError(f"the part needs the parameter {ins.op.parameter!r}, which is no input of it")
        if ins.literal is not None:
            env[ins] = program.main.add_literal(ins.literal, ins.origin)
            continue
        modules = [m.clone(env) for m in ins.modules]
        program.modules |= {m.name: m for outer in modules for m in reachable(outer)}
        env[ins] = program.main.add_instruction(ins.op, [env[i] for i in ins.inputs], modules, origin=ins.origin)
    program.main.add_return([env[o] for o in outputs])
    return program
