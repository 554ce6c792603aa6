"""Random numbers, and draws."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import call_of
from migraphx.targets.gpu.emit.tiles import blocks
from migraphx.targets.gpu.lower.registry import GPU

WORDS = 624  # of the twister's state
BLOCK = 256


@GPU.of("random_seed")
def random_seed(ctx: LoweringContext, ins: Instruction) -> None:
    """From a counter among the weights, which begins anywhere: runs, and programs, have seeds of their own."""
    start = np.random.default_rng().integers(0, 2**62, 1)
    counter = ctx.packed(("random_seed", start.item()), lambda: start)
    ctx.call(call_of("random_seed", (), (counter, ctx.result(ins)), (), {}, 1, ins.name, ins.origin, warps=1))


@GPU.of("random_uniform")
def random_uniform(ctx: LoweringContext, ins: Instruction) -> None:
    """Of its second input only the shape matters."""
    seed = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)
    state = ctx.temporary(Shape("uint32", (WORDS,)))

    def write(out: View) -> None:
        numbers, constants = (out.elements,), {"TYPE": out.type}
        ctx.call(call_of("random_uniform", (seed,), (out, state), numbers, constants, 1, ins.name, ins.origin, warps=8))

    ctx.row_major(ins, write)


@GPU.of("multinomial")
def multinomial(ctx: LoweringContext, ins: Instruction) -> None:
    sums, drawn = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    classes, samples = sums.lens[1], drawn.lens[1]
    numbers = (drawn.elements, classes, samples, classes.bit_length())
    constants = {"SUM": sums.type, "NUMBER": drawn.type, "BLOCK": BLOCK}
    programs = blocks(drawn.elements, BLOCK)

    def write(out: View) -> None:
        ctx.call(call_of("multinomial", (sums, drawn), (out,), numbers, constants, programs, ins.name, ins.origin))

    ctx.row_major(ins, write)
