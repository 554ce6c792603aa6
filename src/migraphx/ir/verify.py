"""Check that a module is well formed."""

from __future__ import annotations

from migraphx.ir.inference import infer_shape
from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.operation import Literal, Parameter, Return
from migraphx.ir.program import Program, reachable


class VerifyError(AssertionError):
    """A pass broke the graph: names the module and the instruction."""


def verify_program(program: Program) -> None:
    for module in reachable(program.main):
        verify(module)


def verify(module: Module) -> None:
    """Order, uses and shapes: inputs come earlier and know their users, shapes are what is inferred."""
    seen: set[Instruction] = set()
    for n, ins in enumerate(module):
        where = f"module {module.name!r}, @{n} = {ins.name}"
        for i in ins.inputs:
            if ins not in i.users:
                raise VerifyError(f"{where}: an input {i!r} does not know this user")
        for i in (*ins.inputs, *captured(ins)):
            if i.owner is None or (i.owner is module and i not in seen):
                raise VerifyError(f"{where}: its input {i!r} is removed or comes later")
        if any(ins not in user.inputs for user in ins.users):
            raise VerifyError(f"{where}: a user does not have it as an input")
        if isinstance(ins.op, Return) and ins is not module.last:
            raise VerifyError(f"{where}: instructions follow the return")
        if not isinstance(ins.op, (Parameter, Literal)):
            inferred = infer_shape(ins.op, [i.shape for i in ins.inputs], ins.modules)
            if inferred != ins.shape:
                raise VerifyError(f"{where}: has shape {ins.shape}, inferred {inferred}")
        seen.add(ins)
