"""Fused reductions."""

from __future__ import annotations

from functools import partial

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import Buffer
from migraphx.targets.gpu.emit.also import Finished
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.emit.reduce import reduce_calls, row_of
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
    assert isinstance(ctx.emit, TritonEmitter)
    row = row_of(ins.modules[0], axes, reads, write) if len(calls) == 1 and write.buffer.kind == "arena" else None
    if row and write.standard and not any(v.moves for v in (*reads, write)):
        ctx.emit.rows[write.buffer] = row, calls[0]
    if len(calls) == 1 and all(write.lens[d] > 1 for d in axes):
        ctx.emit.finished[write.buffer] = Finished(ins, write, len(ctx.calls) - 1, lambda also: make(also)[0])


def drop_unread(ctx: LoweringContext) -> None:
    """Forget norms, bodies and products that all who read them compute for themselves, and needless calls."""
    assert isinstance(ctx.emit, TritonEmitter)
    if any(call.flow is not None for call in ctx.calls):  # steps are counted there
        return
    known = {**ctx.emit.rows, **ctx.emit.bodies, **ctx.emit.sums, **ctx.emit.gates}
    made = {id(call): buffer for buffer, (*_, call) in known.items()}
    needless = {id(call) for call in ctx.emit.needless}
    read, kept = set[Buffer](), list[int]()
    for n, call in reversed([*enumerate(ctx.calls)]):  # readers come first
        if id(call) not in needless and (id(call) not in made or made[id(call)] in read):
            kept.append(n)
            read |= {v.buffer for v in call.reads}
    kept.reverse()
    ctx.calls, ctx.sources = [ctx.calls[n] for n in kept], [ctx.sources[n] for n in kept]
