"""Pooling, and windows as rows."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.ops.pooling import Pooling
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.gpu.emit.pooling import Pool, pool_call
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of("pooling")
def pooling(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, Pooling)
    source, write = channels_last(ctx, ctx.view(ins.inputs[0]), ins.origin), ctx.result(ins)
    lengths, stride, dilations = op.window(source.lens[2:])
    before, behind = ([p[k] for p in op.pads(source.lens[2:])] for k in (0, 1))
    window = Window.of(source.lens[2:], write.lens[2:], lengths, stride, dilations, before)
    pool = Pool(source, window, behind, op.mode, op.lp_order, op.count_include_pad)
    ctx.call(pool_call(pool, write, ins.origin))
