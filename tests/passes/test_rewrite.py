"""Rules, the matcher and its worklist."""

import numpy as np
import pytest

import migraphx.ops  # noqa: F401
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.ir.shape import Shape
from migraphx.ir.verify import verify
from migraphx.passes.rewrite import rewrite, rewrites


@rewrites(lambda b, x: b.relu(b.relu(x)))
def relu_of_relu(b, x):
    """relu(relu(x)) -> relu(x)"""
    return b.relu(x)


@rewrites(lambda b, x, a, y: b.add(b.mul(x, a), b.mul(y, a)))
def factor(b, x, y, a):
    """x * a + y * a -> (x + y) * a"""
    if x.shape.type == "half":
        return Refuse("x + y may overflow")
    return b.mul(b.add(x, y), a)


@rewrites(lambda b, x: b.once(b.neg(x)))
def forever(b, x):
    """neg(x) -> neg(x): never ends"""
    return b.neg(b.abs(x))


@rewrites(lambda b, x: b.abs(b.once(b.neg(x))))
def abs_of_neg(b, x):
    """abs(neg(x)) -> abs(x), where the neg has no other use"""
    return b.abs(x)


def module_of(type: str = "float", *names: str):
    m = Module()
    return m, Builder(m), [m.add_parameter(n, Shape(type, (4,))) for n in names]


def names(m: Module) -> list[str]:
    return [i.name for i in m if not i.name.startswith("@")]


def test_commutative_and_repeated_variables():
    m, b, (x, y, a) = module_of("float", "x", "y", "a")
    m.add_return([b.add(b.mul(a, x), b.mul(y, a))])
    assert rewrite(m, [factor]) == []
    assert names(m) == ["add", "mul"]
    verify(m)


def test_a_variable_must_mean_one_instruction():
    m, b, (x, y, a) = module_of("float", "x", "y", "a")
    m.add_return([b.add(b.mul(a, x), b.mul(y, y))])
    rewrite(m, [factor])
    assert names(m) == ["mul", "mul", "add"]


def test_refusals_are_reported_and_leave_nothing():
    m, b, (x, y, a) = module_of("half", "x", "y", "a")
    total = b.add(b.mul(x, a), b.mul(y, a))
    m.add_return([total])
    assert rewrite(m, [factor]) == [Refusal(total, "factor", "x + y may overflow")]
    assert names(m) == ["mul", "mul", "add"]


def test_once():
    m, b, (x,) = module_of("float", "x")
    n = b.neg(x)
    m.add_return([b.abs(n), n])
    rewrite(m, [abs_of_neg])
    assert names(m) == ["neg", "abs"]


def test_a_use_that_goes_away_makes_once_true():
    m, b, (x,) = module_of("float", "x")
    n = b.neg(x)
    m.add_return([b.abs(n), b.relu(b.mul(n, n))])
    drop = rewrites(lambda b, x: b.relu(b.mul(b.neg(x), b.neg(x))))(lambda b, x: x)
    rewrite(m, [abs_of_neg, drop])
    assert names(m) == ["abs"]
    verify(m)


def test_rules_that_fight_are_an_error():
    m, b, (x,) = module_of("float", "x")
    m.add_return([b.neg(x)])
    with pytest.raises(RuntimeError, match="does not end"):
        rewrite(m, [forever])


def test_a_replacement_of_another_shape_is_an_error():
    m, b, (x,) = module_of("float", "x")
    m.add_return([b.neg(x)])
    wrong = rewrites(lambda b, x: b.neg(x))(lambda b, x: b.convert(x, target_type="half"))
    with pytest.raises(ValueError, match="cannot become"):
        rewrite(m, [wrong])


def test_strides_are_inferred_anew_downstream():
    m = Module()
    b = Builder(m)
    x = m.add_parameter("x", Shape("float", (2, 3)))
    m.add_return([b.relu(b.abs(b.contiguous(b.transpose(x, permutation=(1, 0)))))])
    drop = rewrites(lambda b, x: b.contiguous(x))(lambda b, x: x)
    rewrite(m, [drop])
    verify(m)
    assert m.outputs[0].shape.strides == (1, 3)


def test_an_operator_that_is_made_anew_keeps_where_it_came_from():
    """Line 1 multiplies, 2 adds: `factor` adds first, and the product is still of the line that multiplied."""
    m, _, (x, y, a) = module_of("float", "x", "y", "a")
    first, second = Builder(m, origin="line 1"), Builder(m, origin="line 2")
    m.add_return([first.relu(second.add(first.mul(x, a), first.mul(y, a)))])
    rewrite(m, [factor])
    assert [(i.name, i.origin) for i in m if i.origin] == [("add", "line 2"), ("mul", "line 1"), ("relu", "line 1")]


def test_the_work_grows_with_the_module_and_no_faster():
    m, b, (x, a) = module_of("float", "x", "a")
    for _ in range(1250):
        x = b.relu(b.relu(b.add(b.mul(x, a), b.mul(a, a))))
    m.add_return([x])
    asked = 0

    @rewrites(lambda b, x: b.relu(x))
    def refusing(b: Builder, x: Instruction) -> Refuse:
        """Counts."""
        nonlocal asked
        asked += 1
        return Refuse("always")

    rewrite(m, [relu_of_relu, factor, abs_of_neg, refusing])
    assert 1250 <= asked <= 5000
    assert names(m).count("relu") == 1250
    assert np.all([i.owner is m for i in m])
