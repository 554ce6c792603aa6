"""Operators that become one call of a target's kernel: pointwise bodies, contractions with their epilogues."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import NEUTRAL, Contraction


@NEUTRAL.of("pointwise")
def pointwise(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.call(ctx.emit.pointwise(ins.modules[0], ctx.reads(ins), ctx.result(ins), ins.origin))


@NEUTRAL.of("group")
def group(ctx: LoweringContext, ins: Instruction) -> None:
    """A dot or convolution with its epilogue."""
    (module,) = ins.modules
    anchor, finish = (i for i in module if not i.name.startswith("@"))
    outer = dict(zip(module.parameters.values(), ins.inputs, strict=True))
    write = ctx.result(ins)
    reads = tuple(None if i is anchor else ctx.view(outer[i]) for i in finish.inputs)
    operands = [outer[i] for i in anchor.inputs]
    fused = Contraction(anchor, operands, finish.modules[0], reads, write, ins.origin)
    ctx.lowerings.contraction(anchor.name)(ctx, fused)
