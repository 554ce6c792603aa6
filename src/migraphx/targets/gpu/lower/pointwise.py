"""Pointwise bodies: kernels of their own, or the end of the kernel before."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.gpu.emit.also import Also
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of("pointwise")
def pointwise(ctx: LoweringContext, ins: Instruction) -> None:
    """A norm or an attention that is quantized stores what is quantized beside, or instead of, its own result."""
    assert isinstance(ctx.emit, TritonEmitter)
    (module,), reads, write = ins.modules, ctx.reads(ins), ctx.result(ins)
    found = ctx.emit.finished.pop(reads[0].buffer, None) if len(reads) == 1 else None
    place = found.place(reads[0], write) if found and found.ins.owner is ins.owner else None
    if found and place:
        ctx.calls[found.at] = found.again(Also(module, place, found.serves(ins)))
        return
    ctx.call(call := ctx.emit.pointwise(module, reads, write, ins.origin))
    if len(reads) == 1 and write.buffer.kind == "arena" and not any(v.moves for v in (*reads, write)):
        ctx.emit.bodies[write.buffer] = module, call
