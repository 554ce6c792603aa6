"""Tuples and `if`."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.operation import ShapeError, operation
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import parse_program, program_text
from migraphx.ir.verify import verify_program
from migraphx.targets.ref.evaluate import evaluate
from tests.ops.one_operator import infer
from tests.tolerances import assert_close

X = Shape("float", (3,))


def choice() -> Program:
    """x + 1 and x where the condition holds, else x * k and x; k is the outer module's."""
    program = Program()
    main = program.main
    condition = main.add_parameter("condition", Shape("bool", (1,)))
    x = main.add_parameter("x", X)
    b = Builder(main)
    factor = b.exp(x)
    branches = []
    for name, word in (("then", "add"), ("otherwise", "mul")):
        module = program.create_module(name)
        inner = module.add_parameter("inner", X)
        other = Builder(module).full(1.0, inner) if word == "add" else factor
        module.add_return([Builder(module).instruction(word, [inner, other]), inner])
        branches.append(module)
    result = b.instruction("if", [condition, x], branches)
    main.add_return(b.outputs(result, 2))
    return program


@pytest.mark.parametrize("condition", [True, False])
def test_if_runs_one_module(condition):
    program, x = choice(), np.array([1, -2, 0.5], np.float32)
    verify_program(program)
    got = evaluate(program.main, {"condition": np.array([condition]), "x": x})
    assert_close(got[0], x + 1 if condition else x * np.exp(x))
    np.testing.assert_array_equal(got[1], x)


def test_if_is_read_back():
    text = program_text(choice())
    assert program_text(parse_program(text)) == text


def test_bad_if_is_refused():
    then, otherwise = list(choice().modules.values())[1:]
    op, condition = operation("if"), Shape("bool", (1,))
    for inputs, modules, why in (
        ([condition, X], [then], "two modules"),
        ([], [then, otherwise], "takes a condition"),
        ([X, X], [then, otherwise], "takes one bool"),
        ([Shape("bool", (2,)), X], [then, otherwise], "takes one bool"),
        ([condition], [then, otherwise], "module 'then' takes"),
    ):
        with pytest.raises(ShapeError, match=why):
            op.infer_with(inputs, modules)


def test_get_tuple_elem():
    shape = Shape.tuple_of([X, Shape("int64", (2,))])
    assert infer("get_tuple_elem", shape, index=1) == Shape("int64", (2,))
    for bad, index in ((shape, 2), (shape, -1), (X, 0)):
        with pytest.raises(ShapeError, match="no element"):
            infer("get_tuple_elem", bad, index=index)
