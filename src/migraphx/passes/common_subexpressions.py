"""Compute equal expressions once."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation, Parameter, Return
from migraphx.passes.rewrite import remove_unused


def common_subexpressions(module: Module) -> None:
    """An instruction with the operation and the inputs of an earlier one is replaced by it.

    Refuses operators with module arguments (two modules are not compared) and those that are not pure
    (two random draws differ). Large literals are equal only when they are the same memory: comparing
    all weights would cost more than it finds.

    before:
        x = @param:x -> float_type, {4}, {1}
        y = @param:y -> float_type, {4}, {1}
        @2 = add(x,y) -> float_type, {4}, {1}
        @3 = add(y,x) -> float_type, {4}, {1}
        @4 = relu(@2) -> float_type, {4}, {1}
        @5 = relu(@3) -> float_type, {4}, {1}
        @6 = mul(@4,@5) -> float_type, {4}, {1}
        @7 = @return(@6)

    after:
        x = @param:x -> float_type, {4}, {1}
        y = @param:y -> float_type, {4}, {1}
        @2 = add(x,y) -> float_type, {4}, {1}
        @3 = relu(@2) -> float_type, {4}, {1}
        @4 = mul(@3,@3) -> float_type, {4}, {1}
        @5 = @return(@4)
    """
    first: dict[tuple[Operation, tuple[int, ...]], Instruction] = {}
    number: dict[Instruction, int] = {}
    replaced: list[Instruction] = []
    for ins in module:
        number[ins] = len(number)
        if isinstance(ins.op, (Parameter, Return)) or ins.modules or not ins.op.pure:
            continue
        inputs = tuple(number.get(i, -id(i)) for i in ins.inputs)  # negative: of an enclosing module
        if ins.op.commutative:
            inputs = tuple(sorted(inputs))
        same = first.setdefault((ins.op, inputs), ins)
        if same is not ins:
            module.replace(ins, same)
            replaced.append(ins)
    remove_unused(module, replaced)
