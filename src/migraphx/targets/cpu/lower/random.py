"""Random numbers, and draws."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import Lowered
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.indexing import simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import Multinomial, RandomUniform
from migraphx.targets.cpu.lower.registry import CPU


@CPU.of("random_seed")
def random_seed(x: Lowered, ins: Instruction) -> None:
    x.call(simple_call("random_seed(t, p0);", (), (x.result(ins),), Numbers(), ins.name, ins.origin, "random.hpp"))


@CPU.of("random_uniform")
def random_uniform(x: Lowered, ins: Instruction) -> None:
    """Of its second input only the shape matters."""
    seed = x.standard(x.view(ins.inputs[0]), ins.origin)

    def write(out: View) -> None:
        numbers = Numbers()
        head = f"random_uniform(t, {RandomUniform(ins.shape.elements).cpp(numbers)}, p0, p1);"
        x.call(simple_call(head, (seed,), (out,), numbers, ins.name, ins.origin, "random.hpp"))

    x.row_major(ins, write)


@CPU.of("multinomial")
def multinomial(x: Lowered, ins: Instruction) -> None:
    sums, drawn = (x.standard(v, ins.origin) for v in x.reads(ins))

    def write(out: View) -> None:
        numbers = Numbers()
        rows, classes = sums.lens
        head = f"multinomial(t, {Multinomial(rows, classes, drawn.lens[1]).cpp(numbers)}, p0, p1, p2);"
        x.call(simple_call(head, (sums, drawn), (out,), numbers, ins.name, ins.origin, "random.hpp"))

    x.row_major(ins, write)
