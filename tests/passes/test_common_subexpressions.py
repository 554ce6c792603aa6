"""What is computed once, and what is not the same though it looks so."""

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.common_subexpressions import common_subexpressions
from tests.passes.checking import checked, program_of

Value = Instruction


def test_two_random_draws_differ():
    program = program_of(lambda b: [b.random_seed(), b.random_seed()])
    common_subexpressions(program.main)
    assert [i.name for i in program.main if i.name == "random_seed"] == ["random_seed"] * 2


def test_attributes_and_order_matter():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.sub(x, y), b.sub(y, x), b.softmax(x, axis=0), b.softmax(x, axis=1), b.softmax(x, axis=1)]

    assert checked(program_of(build, x=(2, 3), y=(2, 3)), [common_subexpressions]) == {"sub": 2, "softmax": 2}
