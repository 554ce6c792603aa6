"""Random numbers, and draws."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import call_of
from migraphx.targets.gpu.emit.tiles import blocks
from migraphx.targets.gpu.lower.registry import GPU
from migraphx.targets.gpu.state import SEED

WORDS = 624  # of the twister's state
BLOCK = 256


@GPU.of("random_seed")
def random_seed(ctx: LoweringContext, ins: Instruction) -> None:
    """From a number of the status word: runs have seeds of their own, as have processes."""
    writes, constants = (ctx.result(ins), ctx.status), {"SEED": SEED}
    ctx.call(call_of("random_seed", (), writes, (), constants, 1, ins.name, ins.origin, warps=1))


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
