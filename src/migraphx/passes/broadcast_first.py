"""What is computed of a few numbers for an epilogue or a norm is computed in it."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.movement import Reshaping
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.constants import broadcast_literal, compact, is_constant, scalar_of
from migraphx.passes.fold_norms import LEAST_ROWS
from migraphx.passes.grouping import Grouping
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute

MOST = 16  # operators that are repeated for one input of an epilogue
FEWER = 16  # times: what is repeated has so few elements


def broadcast_first(module: Module) -> Refusals:
    """Broadcast the inputs of pointwise operators, not their result, where epilogues and norms alone read that.

    A batch norm whose statistics are inputs computes a scale for each channel: by itself that is a kernel as long as
    its launch, in the epilogue of a small convolution it is next to nothing. So it is with a norm's weights that are
    converted.

    before:
        v = @param:v -> float_type, {32}, {1}
        w = @param:w -> float_type, {8, 32}, {32, 1}
        x = @param:x -> float_type, {16, 8}, {8, 1}
        @3 = rsqrt(v)
        @4 = unsqueeze[axes={0},steps={}](@3)
        @5 = multibroadcast[out_lens={16, 32},out_dyn_dims={}](@4)
        @6 = dot(x,w)
        @7 = mul(@6,@5)
        @8 = @return(@7)

    after:
        v = @param:v -> float_type, {32}, {1}
        w = @param:w -> float_type, {8, 32}, {32, 1}
        x = @param:x -> float_type, {16, 8}, {8, 1}
        @3 = unsqueeze[axes={0},steps={}](v) -> float_type, {1, 32}, {32, 1}
        @4 = multibroadcast[out_lens={16, 32},out_dyn_dims={}](@3) -> float_type, {16, 32}, {0, 1}
        @5 = rsqrt(@4) -> float_type, {16, 32}, {32, 1}
        @6 = dot(x,w) -> float_type, {16, 32}, {32, 1}
        @7 = mul(@6,@5) -> float_type, {16, 32}, {32, 1}
        @8 = @return(@7)
    """
    grouping = Grouping(module)
    fused = grouping.epilogues | grouping.nearest.keys()
    for ins in list(module):
        if ins.name != "multibroadcast" or not ins.users or not all(u in fused for u in ins.users):
            continue
        views = [ins]
        while isinstance(views[-1].inputs[0].op, Reshaping):
            views.append(views[-1].inputs[0])
        small = views[-1].inputs[0]
        many = ins.shape.elements >= small.shape.elements * LEAST_ROWS
        again = many and any(u in grouping.epilogues for u in ins.users)  # by each tile, and not by libraries
        few = 0 < small.shape.elements * FEWER <= ins.shape.elements
        if few and _operators(small) <= (1 if again else MOST):
            wide = _wide(Builder(module, before=ins, origin=small.origin), small, views)
            substitute(ins, wide)
            remove_unused(module, [ins])
    return []


def _operators(small: Instruction) -> float:
    """How many pointwise operators a value is made of; too many for what is none, or has too many."""
    if not isinstance(small.op, Pointwise) or is_constant(small):
        return float("inf")
    found, left = set[Instruction](), [small]
    while left and len(found) <= MOST:
        ins = left.pop()
        if isinstance(ins.op, Pointwise) and ins not in found:
            found.add(ins)
            left += ins.inputs
    return len(found)


def _wide(b: Builder, small: Instruction, views: list[Instruction]) -> Instruction:
    """`small` behind the views, the last of them first, which its own inputs go through instead."""
    if scalar_of(small) is not None:
        return broadcast_literal(b, compact(small), views[0].shape.lens)
    if isinstance(small.op, Pointwise):
        return b.instruction(small.name, [_wide(b, i, views) for i in small.inputs], **small.op.attributes())
    for view in reversed(views):
        small = b.instruction(view.name, [small], **view.op.attributes())
    return small
