"""Functions of two values that NumPy computes, against SciPy."""

import numpy as np
import pytest
import scipy.special

import migraphx
from migraphx.ir.operation import ShapeError, operation
from migraphx.ir.shape import Shape
from tests.ops.one_operator import infer
from tests.tolerances import assert_close

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("end", [3, 60, 900])
def test_incomplete_gamma_functions(end: float) -> None:
    a, x = RNG.uniform(0, end, (2, 500))
    assert_close(operation("igamma").compute(a, x), scipy.special.gammainc(a, x), scale=64)
    assert_close(operation("igammac").compute(a, x), scipy.special.gammaincc(a, x), scale=64)


def test_zeta() -> None:
    x, q = RNG.uniform(1.01, 60, 500), RNG.uniform(0.1, 50, 500)
    np.testing.assert_allclose(operation("zeta").compute(x, q), scipy.special.zeta(x, q), rtol=1e-13)


def test_wrong_inputs_are_refused() -> None:
    two, three = Shape("float", (2,)), Shape("float", (3,))
    for name in ("igamma", "igammac", "zeta"):
        with pytest.raises(ShapeError, match="differ in lens"):
            infer(name, two, three)
        with pytest.raises(ShapeError, match="another type than it takes"):
            infer(name, Shape("int32", (2,)), Shape("int32", (2,)))
    for name in ("gcd", "lcm"):
        with pytest.raises(ShapeError, match="another type than it takes"):
            infer(name, two, two)


def test_between_compiled_parts() -> None:
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape("int64", [4]))
    twice = main.add_instruction(migraphx.op("add"), [x, x])
    common = main.add_instruction(migraphx.op("gcd"), [twice, main.add_literal(np.full(4, 12))])
    main.add_return([main.add_instruction(migraphx.op("neg"), [common])])
    program.compile(migraphx.get_target("cpu"))
    (made,) = program.run({"x": np.array([3, 8, 5, 0])})
    np.testing.assert_array_equal(np.array(made), [-6, -4, -2, -12])
