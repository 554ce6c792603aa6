"""One instruction as a program, to ask something of it: whether it can be compiled, how long it takes."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.program import Program, reachable


def alone(ins: Instruction) -> Program:
    """A program of this instruction: constants stay constants, all else that it reads is a parameter of its shape.

    A tuple is no parameter: what gives it is there too. Equal instructions give equal texts, whatever their modules
    are called.
    """
    program, env = Program(), dict[Instruction, Instruction]()
    b = Builder(program.main)

    def add(one: Instruction) -> Instruction:
        inside = {i for m in one.modules for x in reachable(m) for i in x}
        for i in (*one.inputs, *(c for c in captured(one) if c not in inside)):
            if i not in env:
                env[i] = add(i) if i.shape.type == "tuple" or _is_constant(i) else _leaf(program.main, i, len(env))
        if one.literal is not None:
            return program.main.add_literal(one.literal)
        modules = [m.clone(env) for m in one.modules]
        for m in (m for outer in modules for m in reachable(outer)):
            m.name = f"module{len(program.modules)}"
            program.modules[m.name] = m
        return program.main.add_instruction(one.op, [env[i] for i in one.inputs], modules)

    made = add(ins)
    program.main.add_return(b.outputs(made, len(ins.shape.sub_shapes)) if ins.shape.type == "tuple" else [made])
    return program


def _leaf(main: Module, ins: Instruction, n: int) -> Instruction:
    return main.add_parameter(f"x{n}", ins.shape)


def _is_constant(ins: Instruction) -> bool:
    """A literal, perhaps seen through views: targets compile it in."""
    while ins.op.view and len(ins.inputs) == 1:
        ins = ins.inputs[0]
    return ins.literal is not None
