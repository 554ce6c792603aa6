"""Fused reductions."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.gpu.emit.reduce import reduce_calls
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of("fused_reduce")
def fused_reduce(ctx: LoweringContext, ins: Instruction) -> None:
    reads, write = ctx.reads(ins), ctx.result(ins)
    axes = ins.op.attributes()["axes"]
    if write.elements:
        for call in reduce_calls(ins.modules[0], axes, reads, write, ctx.temporary, ins.origin):
            ctx.call(call)
