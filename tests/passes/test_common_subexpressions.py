"""What is computed once, and what is not the same though it looks so."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
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


@pytest.mark.parametrize("name", ["bitwise_and", "sqdiff"])
def test_either_order_of_inputs_is_one_value(name: str):
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.neg(b.instruction(name, pair)) for pair in ((x, y), (y, x))]

    shape = Shape("int32", (3,))
    given = {"x": np.array([6, -7, 8], np.int32), "y": np.array([3, 5, -1], np.int32)}
    assert checked(program_of(build, x=shape, y=shape), [common_subexpressions], given) == {name: 1, "neg": 1}
