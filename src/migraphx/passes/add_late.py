"""Norms add what a product's library cannot: a few numbers for each image and channel."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import hint_of
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.constants import is_constant
from migraphx.passes.grouping import inner, widens
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute
from migraphx.passes.widen_late import views_behind

FEW = 16  # of so many elements one is added to all


def add_late(module: Module) -> Refusals:
    """An addition of a broadcast that a run computes goes behind the views of its result, to the norm that reads them.

    Before the views it would be the epilogue of a product, which libraries have for constant biases only: another
    kernel would read and write all of it. Behind them it is part of the norm's kernel.

    before:
        x = @param:x -> half_type, {2, 32, 4}, {128, 4, 1}
        w = @param:w -> half_type, {2, 4, 16}, {64, 16, 1}
        t = @param:t -> half_type, {2, 1, 16}, {16, 16, 1}
        @3 = dot(x,w)
        @4 = multibroadcast[out_lens={2, 32, 16}](t)
        @5 = add(@3,@4)
        @6 = transpose[permutation={0, 2, 1}](@5)
        @7 = convert[target_type=float](@6)
        @8 = reduce_sum[axes={2}](@7)
        @9 = @return(@8)

    after:
        x = @param:x -> half_type, {2, 32, 4}, {128, 4, 1}
        w = @param:w -> half_type, {2, 4, 16}, {64, 16, 1}
        t = @param:t -> half_type, {2, 1, 16}, {16, 16, 1}
        @3 = dot(x,w)
        @4 = multibroadcast[out_lens={2, 32, 16}](t)
        @5 = transpose[permutation={0, 2, 1}](@3)
        @6 = transpose[permutation={0, 2, 1}](@4)
        @7 = add(@5,@6)
        @8 = convert[target_type=float](@7)
        @9 = reduce_sum[axes={2}](@8)
        @10 = @return(@9)
    """
    for ins in list(module):
        views = views_behind(ins) if ins.name == "add" else []
        few, products = [i for i in ins.inputs if _is_few(i)], [i for i in ins.inputs if _is_product(i)]
        if not views or len(few) != 1 or len(products) != 1 or not _is_reduced(views[-1]):
            continue
        b, moved = Builder(module, before=views[-1], origin=ins.origin), list[Instruction]()
        for value in ins.inputs:
            for view in views:
                value = b.instruction(view.name, [value], **view.op.attributes())
            moved.append(value)
        substitute(views[-1], b.add(*moved))
        remove_unused(module, [views[-1]])
    return []


def _is_few(ins: Instruction) -> bool:
    """Whether few numbers are broadcast, and along several dimensions: along one they are a library's bias."""
    if ins.name != "multibroadcast":
        return False
    (small,) = ins.inputs
    few = FEW * hint_of(small.shape.elements) <= hint_of(ins.shape.elements)
    return few and sum(n > 1 for n in small.shape.lens) > 1 and not is_constant(small)


def _is_product(ins: Instruction) -> bool:
    """Whether it is a product's result, or that with an epilogue."""
    pointwise = isinstance(ins.op, Pointwise) and any(_is_product(i) for i in ins.inputs)
    return len(ins.users) == 1 and (ins.op.takes_epilogue or pointwise)


def _is_reduced(ins: Instruction) -> bool:
    """Whether only a kernel that reduces it reads it."""
    readers = [r for u in ins.users for r in (u.users if widens(u) else (u,))]
    return (
        inner(ins)
        and all(inner(u) for u in ins.users if widens(u))
        and any(isinstance(r.op, Reduction) for r in readers)
    )
