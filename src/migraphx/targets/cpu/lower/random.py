"""Random numbers, and draws."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.indexing import simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import Multinomial, RandomUniform
from migraphx.targets.cpu.lower.registry import CPU


@CPU.of("random_seed")
def random_seed(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.call(simple_call("random_seed(t, p0);", (), (ctx.result(ins),), Numbers(), ins.name, ins.origin, "random.hpp"))


@CPU.of("random_uniform")
def random_uniform(ctx: LoweringContext, ins: Instruction) -> None:
    """Of its second input only the shape matters."""
    seed = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)

    def write(out: View) -> None:
        numbers = Numbers()
        head = f"random_uniform(t, {RandomUniform(ins.shape.elements).cpp(numbers)}, p0, p1);"
        ctx.call(simple_call(head, (seed,), (out,), numbers, ins.name, ins.origin, "random.hpp"))

    ctx.row_major(ins, write)


@CPU.of("multinomial")
def multinomial(ctx: LoweringContext, ins: Instruction) -> None:
    sums, drawn = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))

    def write(out: View) -> None:
        numbers = Numbers()
        rows, classes = sums.lens
        head = f"multinomial(t, {Multinomial(rows, classes, drawn.lens[1]).cpp(numbers)}, p0, p1, p2);"
        ctx.call(simple_call(head, (sums, drawn), (out,), numbers, ins.name, ins.origin, "random.hpp"))

    ctx.row_major(ins, write)
