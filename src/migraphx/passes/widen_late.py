"""Norms of narrow floats read them narrow, whatever views lie between."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.movement import Reshaping, Transpose
from migraphx.ops.reduce import Reduction
from migraphx.passes.grouping import inner, widens
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute


def widen_late(module: Module) -> Refusals:
    """A convert that widens goes behind the views of its result, to the reduction that reads them.

    Before the views it would be the epilogue of a product, which stores twice the bytes then, and which libraries do
    not compute; behind them it is part of the reduction's kernel.

    before:
        x = @param:x -> half_type, {2, 3, 4}, {12, 4, 1}
        @1 = neg(x)
        @2 = convert[target_type=float](@1)
        @3 = transpose[permutation={0, 2, 1}](@2)
        @4 = reduce_sum[axes={2}](@3)
        @5 = @return(@4)

    after:
        x = @param:x -> half_type, {2, 3, 4}, {12, 4, 1}
        @1 = neg(x)
        @2 = transpose[permutation={0, 2, 1}](@1)
        @3 = convert[target_type=float](@2)
        @4 = reduce_sum[axes={2}](@3)
        @5 = @return(@4)
    """
    for ins in list(module):
        views = views_behind(ins) if widens(ins) else []
        if not views or not inner(views[-1]) or not any(isinstance(u.op, Reduction) for u in views[-1].users):
            continue
        b, value = Builder(module, before=views[-1], origin=ins.origin), ins.inputs[0]
        for view in views:
            value = b.instruction(view.name, [value], **view.op.attributes())
        substitute(views[-1], b.convert(value, **ins.op.attributes()))
        remove_unused(module, [views[-1]])
    return []


def views_behind(ins: Instruction) -> list[Instruction]:
    """The views behind an instruction, each of which alone reads what comes before it."""
    found: list[Instruction] = []
    while len(ins.users) == 1 and isinstance((user := next(iter(ins.users))).op, (Reshaping, Transpose)):
        found.append(user)
        ins = user
    return found
