"""Whether a target can compile an instruction, asked before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.program import Program, reachable
from migraphx.ir.refusal import Refusal
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.manager import Pass, graphs, run_passes
from migraphx.targets.common.lowerings import Lowerings
from migraphx.targets.common.specialise import is_deferred


def supported(ins: Instruction, lowerings: Lowerings, passes: Sequence[Pass]) -> Refusal[Instruction] | None:
    """Why no lowering takes an instruction, or what the passes make of it; None where all of it is taken.

    What waits for lengths becomes other instructions, or runs on the host.
    """
    for inner in (i for m in ins.modules if not ins.op.fused for i in _working(m)):
        if (refusal := supported(inner, lowerings, passes)) is not None:
            return Refusal(ins, refusal.rule, f"{inner.name} in it: {refusal.why}")
    if ins.name.startswith("@") or is_deferred(ins) or any(map(is_deferred, ins.inputs)):
        return None
    name = "pointwise" if isinstance(ins.op, Pointwise) else "fused_reduce" if isinstance(ins.op, Reduction) else ""
    if (name and name in lowerings.operators()) or lowerings.find(ins) is not None:
        return None
    program = _alone(ins)
    run_passes(program, passes)
    for left in (i for m in graphs(program.main) for i in _working(m)):
        if (refusal := lowerings.refusal(left)) is not None:
            same = left.name == ins.name
            return Refusal(ins, refusal.rule, refusal.why if same else f"{left.name}, which it becomes: {refusal.why}")
    return None


def _working(module: Module) -> list[Instruction]:
    return [i for i in module if not i.name.startswith("@")]


def _alone(ins: Instruction) -> Program:
    """A program of this instruction: literals stay literals, all else that it reads is a parameter.

    A tuple is no parameter: what gives it is there too.
    """
    program, env = Program(), dict[Instruction, Instruction]()
    b = Builder(program.main)

    def add(one: Instruction) -> Instruction:
        inside = {i for m in one.modules for x in reachable(m) for i in x}
        for i in (*one.inputs, *(c for c in captured(one) if c not in inside)):
            if i not in env:
                env[i] = add(i) if i.shape.type == "tuple" else _leaf(program.main, i, f"x{len(env)}")
        modules = [m.clone(env) for m in one.modules]
        program.modules |= {m.name: m for outer in modules for m in reachable(outer)}
        return program.main.add_instruction(one.op, [env[i] for i in one.inputs], modules)

    made = add(ins)
    program.main.add_return(b.outputs(made, len(ins.shape.sub_shapes)) if ins.shape.type == "tuple" else [made])
    return program


def _leaf(main: Module, ins: Instruction, name: str) -> Instruction:
    return main.add_parameter(name, ins.shape) if ins.literal is None else main.add_literal(ins.literal)
