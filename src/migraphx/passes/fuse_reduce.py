"""Reductions become kernels together with the pointwise operators round them."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.grouping import Grouping, body_names, body_of, put
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import rewrite, rewrites


@rewrites(lambda b, x: b.softmax(x))
def softmax_as_reductions(b: Builder, x: Instruction, root: Instruction) -> Instruction | Refuse:
    """softmax(x) -> e * (1 / sum(e)), e = exp(x - max(x)); narrow floats in float"""
    if not x.shape.elements:
        return x  # as empty as the answer
    e, total = _exponentials(b, b.cast(x, _wide(x)), root)
    return b.cast(b.mul(e, b.multibroadcast(b.recip(total), out_lens=x.shape.lens)), x.shape.type)


@rewrites(lambda b, x: b.logsoftmax(x))
def logsoftmax_as_reductions(b: Builder, x: Instruction, root: Instruction) -> Instruction | Refuse:
    """logsoftmax(x) -> d - log(sum(exp(d))), d = x - max(x)"""
    if not x.shape.elements:
        return x
    e, total = _exponentials(b, b.cast(x, _wide(x)), root)
    return b.cast(b.sub(e.inputs[0], b.multibroadcast(b.log(total), out_lens=x.shape.lens)), x.shape.type)


def _wide(x: Instruction) -> str:
    return "float" if x.shape.type in dtypes.NARROW_FLOATS else x.shape.type


def _exponentials(b: Builder, x: Instruction, root: Instruction) -> tuple[Instruction, Instruction]:
    """exp(x - max(x)) and its sum."""
    axes = [root.op.attributes()["axis"] % x.shape.ndim]
    top = b.multibroadcast(b.reduce_max(x, axes=axes), out_lens=x.shape.lens)
    e = b.exp(b.sub(x, top))
    return e, b.reduce_sum(e, axes=axes)


def fuse_reduce(module: Module) -> Refusals:
    """A reduction, others over the same axes, and the pointwise operators between and round them become one.

    Softmax and logsoftmax are taken apart first, so layer norm, group norm, softmax ... are one kernel each,
    whoever wrote them; a lone reduction becomes one with a body of one operator. What comes before the
    first reduction and can be the epilogue of a dot or a convolution is left to that: a reduction reads its
    input several times. Refuses reductions over other axes, and results that are used outside.

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {2, 3}, {3, 1}
        @2 = mul(x,y)
        @3 = softmax[axis=1](@2)
        @4 = @return(@3)

    after:
        module: "main"
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {2, 3}, {3, 1}
        @2 = fused_reduce[axes={1}](x,y), [main:fused_reduce0] -> float_type, {2, 3}, {3, 1}
        @3 = @return(@2)

        module: "main:fused_reduce0"
        main:fused_reduce0:x1 = @param:x1 -> float_type, {2, 3}, {3, 1}
        main:fused_reduce0:x0 = @param:x0 -> float_type, {2, 3}, {3, 1}
        main:fused_reduce0:@2 = mul(main:fused_reduce0:x0,main:fused_reduce0:x1)
        main:fused_reduce0:@3 = reduce_max[axes={1}](main:fused_reduce0:@2)
        main:fused_reduce0:@4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](main:fused_reduce0:@3)
        main:fused_reduce0:@5 = sub(main:fused_reduce0:@2,main:fused_reduce0:@4)
        main:fused_reduce0:@6 = exp(main:fused_reduce0:@5)
        main:fused_reduce0:@7 = reduce_sum[axes={1}](main:fused_reduce0:@6)
        main:fused_reduce0:@8 = recip(main:fused_reduce0:@7)
        main:fused_reduce0:@9 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](main:fused_reduce0:@8)
        main:fused_reduce0:@10 = mul(main:fused_reduce0:@6,main:fused_reduce0:@9)
        main:fused_reduce0:@11 = @return(main:fused_reduce0:@10)
    """
    rewrite(module, [softmax_as_reductions, logsoftmax_as_reductions])  # refuse nothing
    names, refusals = body_names(module, "fused_reduce"), list[Refusal[Instruction]]()
    for group in Grouping(module).groups():
        if group.space is not None:
            refusals += [Refusal(ins, "fuse_reduce", why) for ins, why in group.refused.items()]
            put(module, group, "fused_reduce", body_of(group, next(names)), axes=group.space.axes)
    return refusals
