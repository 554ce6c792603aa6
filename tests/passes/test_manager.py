"""The manager: order, timings, checks, layouts of outputs."""

import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.ir.verify import VerifyError
from migraphx.passes.manager import graphs, run_passes
from migraphx.passes.rewrite import substitute
from tests.passes.checking import program_of


def test_passes_run_in_order_and_clean_up():
    seen = []

    def first(module: Module) -> None:
        seen.append("first")
        Builder(module, before=module.last).relu(module.parameters["x"])  # nothing uses it

    def second(module: Module) -> None:
        seen.append("second")
        assert [i.name for i in module] == ["@param", "neg", "@return"]

    program = program_of(lambda b, x: b.neg(x), x=(4,))
    traced = []
    timings = run_passes(program, [first, second], trace=lambda name, _: traced.append(name))
    assert seen == traced == [t.name for t in timings] == ["first", "second"]
    assert all(t.seconds >= 0 for t in timings)
    assert [(t.instructions_before, t.instructions_after) for t in timings] == [(3, 3), (3, 3)]


def test_check_names_the_pass():
    def wrong(module: Module) -> None:
        neg = next(i for i in module if i.name == "neg")
        neg.shape = Shape("float", (5,))

    program = program_of(lambda b, x: b.neg(x), x=(4,))
    with pytest.raises(VerifyError, match="after pass wrong"):
        run_passes(program, [wrong], check=True)


def test_outputs_keep_their_layout():
    def turn(module: Module) -> None:
        contiguous = next((i for i in module if i.name == "contiguous"), None)
        if contiguous is not None:
            substitute(contiguous, contiguous.inputs[0])

    program = program_of(lambda b, x: b.contiguous(b.transpose(x, permutation=(1, 0))), x=(3, 4))
    run_passes(program, [turn], check=True)
    assert [i.name for i in program.main] == ["@param", "transpose", "layout", "@return"]
    assert program.main.output_shapes[0].standard


def test_inner_modules_are_run_and_bodies_are_not():
    def branch(name: str) -> Module:
        inner = Module(name)
        b = Builder(inner)
        inner.add_return([b.literal([1.0], "float")])
        return inner

    def build(b: Builder, condition: Instruction) -> Instruction:
        found = b.instruction("if", [condition], [branch("yes"), branch("no")])
        value = b.get_tuple_elem(found, index=0)
        body = Module("main:pointwise0")
        x = body.add_parameter("x0", Shape("float", (1,), (0,)))
        body.add_return([Builder(body).neg(x)])
        return b.pointwise(value, modules=[body])

    program = program_of(build, condition=Shape("bool", (1,)))
    assert sorted(m.name for m in graphs(program.main)) == ["main", "no", "yes"]
    run_passes(program, [lambda module: None])
    assert program.modules.keys() == {"main", "yes", "no", "main:pointwise0"}
