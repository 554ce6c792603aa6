"""What a target says of an instruction before anything is compiled is what compiling it says."""

from __future__ import annotations

import re

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.target import CpuTarget, translate
from migraphx.targets.cpu.toolchain import features
from migraphx.targets.target import UnsupportedOperator
from tests.ir.samples import add_random, plain_operators
from tests.passes.checking import program_of

NEEDS_MORE = {"dot_int4": "constant weights", "get_tuple_elem": "what gives the tuple"}
"""Operators that need more to be compiled than an instruction of random inputs brings."""


def sample(name: str) -> tuple[Program, Instruction]:
    """The operator on parameters."""
    found, program = add_random(Module(), name, np.random.default_rng(list(name.encode()))), Program()
    b = Builder(program.main)
    inputs = [program.main.add_parameter(f"x{n}", i.shape) for n, i in enumerate(found.inputs)]
    ins = b.instruction(name, inputs, **found.op.attributes())
    program.main.add_return(b.outputs(ins, len(ins.shape.sub_shapes)) if ins.shape.type == "tuple" else [ins])
    return program, ins


@pytest.mark.parametrize("name", [n for n in plain_operators() if n not in NEEDS_MORE])
def test_it_agrees_with_compiling(name: str) -> None:
    program, ins = sample(name)
    refusal = CpuTarget().supports(ins)
    if ins.shape.dynamic or ins.op.deferred or ins.op.on_host:  # becomes other instructions, or runs on the host
        assert refusal is None
        return
    if refusal is None:
        translate(program, CompileOptions(), features())
        return
    assert refusal.instruction is ins
    with pytest.raises(UnsupportedOperator, match=re.escape(refusal.why)):
        translate(program, CompileOptions(), features())


def lacking(monkeypatch: pytest.MonkeyPatch, name: str) -> CpuTarget:
    monkeypatch.delitem(CPU._operators, name)
    return CpuTarget()


def test_what_passes_make_of_it_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    target = lacking(monkeypatch, "fused_reduce")
    program = program_of(lambda b, x: b.softmax(b.relu(x), axis=1), x=(2, 3))
    _, relu, softmax = (i for i in program.main if i.name != "@return")
    assert target.supports(relu) is None
    assert target.supports(softmax) == (softmax, "target cpu", "fused_reduce, which it becomes: there is no kernel")
    (total,) = (i for i in program_of(lambda b, x: b.reduce_sum(x, axes=[0]), x=(2, 3)).main if i.name == "reduce_sum")
    assert target.supports(total) is not None


def test_bodies_of_control_flow_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    program = migraphx.program()
    main, bodies = program.get_main_module(), [program.create_module(name) for name in ("then", "else")]
    c = main.add_parameter("c", migraphx.shape("bool", [1]))
    x = main.add_parameter("x", migraphx.shape("float", [3]))
    bodies[0].add_return([bodies[0].add_instruction(migraphx.op("gather"), [x, bodies[0].add_literal([2, 1, 0])])])
    bodies[1].add_return([x])
    choice = main.add_instruction(migraphx.op("if"), [c], bodies)
    assert migraphx.supports(migraphx.get_target("cpu"), choice) is None
    refusal = migraphx.supports(lacking(monkeypatch, "gather"), choice)
    assert refusal == (choice, "target cpu", "gather in it: there is no kernel")


def test_the_public_face() -> None:
    p = migraphx.program()
    main = p.get_main_module()
    x = main.add_parameter("x", migraphx.shape("float", [3]))
    relu = main.add_instruction(migraphx.op("relu"), [x])
    assert migraphx.supports(migraphx.get_target("cpu"), relu) is None
    assert next(reversed(main)) == relu
