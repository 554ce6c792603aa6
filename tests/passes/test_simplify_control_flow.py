"""Known branches are inlined, what every trip computes alike moves ahead of the loop."""

from collections import Counter

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.simplify_control_flow import simplify_control_flow
from tests.passes.checking import checked

X = Shape("float", (2, 3))


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_branch(condition):
    program = Program()
    x, b = program.main.add_parameter("x", X), Builder(program.main)
    modules = []
    for word in ("exp", "tanh"):
        module = program.create_module(word)
        given = module.add_parameter("given", X)
        module.add_return([Builder(module).add(getattr(Builder(module), word)(given), x)])
        modules.append(module)
    test = b.literal(np.array([condition]))
    program.main.add_return(b.outputs(b.instruction("if", [test, x], modules), 1))
    assert checked(program, [simplify_control_flow]) == Counter(["exp" if condition else "tanh", "add"])
    assert list(program.modules) == ["main"]


def test_a_group_is_dissolved():
    program = Program()
    x, module = program.main.add_parameter("x", X), program.create_module("body")
    given, b = module.add_parameter("given", X), Builder(module)
    module.add_return([b.exp(b.neg(given))])
    program.main.add_return([Builder(program.main).instruction("group", [x], [module], tag="mlir")])
    assert checked(program, [simplify_control_flow]) == Counter(["exp", "neg"])


def loop_program(trips: int | None) -> Program:
    """s * exp(x + 2) + rows[k] in every trip; gathers s from the end."""
    program = Program()
    main, b = program.main, Builder(program.main)
    x, rows = main.add_parameter("x", X), main.add_parameter("rows", Shape("float", (6, 2, 3)))
    count = main.add_parameter("n", Shape("int64")) if trips is None else b.literal(np.array([trips]))
    body = program.create_module("body")
    number, going = body.add_parameter("number", Shape("int64")), body.add_parameter("going", Shape("bool"))
    state, inner = body.add_parameter("state", X), Builder(body)
    two = inner.full(2.0, state)
    fixed = inner.exp(inner.add(x, two))
    row = inner.squeeze(inner.scan_slice(rows, number, axis=0), axes=(0,))
    fresh = inner.add(inner.mul(state, fixed), inner.add(row, two))
    body.add_return([going, fresh, fresh])
    made = b.loop(count, b.literal(np.array([True])), x, modules=[body], max_iterations=6, scan_output_directions=(1,))
    main.add_return(b.outputs(made, 2))
    return program


@pytest.mark.parametrize("trips", [6, None])
def test_what_every_trip_computes_alike(trips):
    program, rng = loop_program(trips), np.random.default_rng(0)
    given = {n: rng.normal(size=p.shape.lens).astype(np.float32) for n, p in program.main.parameters.items()}
    if trips is None:
        given["n"] = np.array([3])
    left = checked(program, [simplify_control_flow], given)
    assert left["loop"] == left["exp"] == left["add"] == 1
    inside = Counter(i.name for i in program.modules["body"])
    assert "exp" not in inside and inside["add"] == 2, "what depends on the state or the trip stays"


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_few_trips(trips):
    program = loop_program(trips)
    assert "loop" not in checked(program, [simplify_control_flow])
    assert list(program.modules) == ["main"]


HOISTED = {
    "reduce_mean": lambda b, x: b.reduce_mean(x, axes=(1,)),
    "reduce_any": lambda b, x: b.reduce_any(b.isnan(x), axes=(0,)),
    "quant_dot": lambda b, x: b.quant_dot(codes(b, x, 3, 4), codes(b, x, 4, 2)),
    "quant_convolution": lambda b, x: b.quant_convolution(codes(b, x, 1, 2, 3, 3), codes(b, x, 4, 2, 2, 2)),
    "dot_int4": lambda b, x: b.dot_int4(
        b.slice(x, axes=(1,), starts=(0,), ends=(2,)), codes(b, x, 1, 3), b.literal(np.ones((1, 3), np.float32))
    ),
    "attention": lambda b, x: b.attention(*[b.unsqueeze(x, axes=(0, 1))] * 3),
    "pooling": lambda b, x: b.pooling(b.unsqueeze(x, axes=(0, 1)), mode="max"),
}
STAYS = {
    "gather": lambda b, x: b.gather(x, b.convert(b.reduce_max(x, axes=(0, 1)), target_type="int64"), axis=0),
    "dequantizelinear": lambda b, x: b.dequantizelinear(b.literal(np.ones((2, 3), np.int8)), x),
}


def codes(b: Builder, x: Instruction, *lens: int) -> Instruction:
    """8-bit integers that are no constants."""
    spread = b.multibroadcast(b.slice(x, axes=(0, 1), starts=(0, 0), ends=(1, 1)), out_lens=(1, int(np.prod(lens))))
    return b.convert(b.reshape(spread, dims=lens), target_type="int8")


@pytest.mark.parametrize("name", [*HOISTED, *STAYS])
def test_what_cannot_fail_is_computed_ahead_of_the_loop(name: str):
    """Whatever it is; but an index may be out of range where no trip is made, and codes stay beside their product."""
    program = Program()
    main, b = program.main, Builder(program.main)
    x, count = main.add_parameter("x", X), main.add_parameter("n", Shape("int64"))
    body = program.create_module("body")
    _, going = body.add_parameter("number", Shape("int64")), body.add_parameter("going", Shape("bool"))
    state, inner = body.add_parameter("state", X), Builder(body)
    value = (HOISTED | STAYS)[name](inner, x)
    body.add_return([going, inner.neg(state), value])
    made = b.loop(count, b.literal(np.array([True])), x, modules=[body], max_iterations=6)
    main.add_return(b.outputs(made, 2))
    given = {"x": np.array([[1, 0, 1], [0, 1, 1]], np.float32), "n": np.array([5])}
    left = checked(program, [simplify_control_flow], given)
    assert left[name] == (name in HOISTED)
