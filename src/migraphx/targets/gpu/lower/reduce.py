"""Fused reductions."""

from __future__ import annotations

from functools import partial

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.gpu.emit.also import Finished
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.emit.reduce import reduce_calls
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of("fused_reduce")
def fused_reduce(ctx: LoweringContext, ins: Instruction) -> None:
    reads, write = ctx.reads(ins), ctx.result(ins)
    axes = ins.op.attributes()["axes"]
    if not write.elements:
        return
    make = partial(reduce_calls, ins.modules[0], axes, reads, write, ctx.temporary, ins.origin)
    calls = make()
    for call in calls:
        ctx.call(call)
    if len(calls) == 1 and all(write.lens[d] > 1 for d in axes):
        assert isinstance(ctx.emit, TritonEmitter)
        ctx.emit.finished[write.buffer] = Finished(ins, write, len(ctx.calls) - 1, lambda also: make(also)[0])
