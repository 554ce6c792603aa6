"""What a table of steps has no room for is refused, and the instructions are named."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu import target
from migraphx.targets.cpu.toolchain import features
from migraphx.targets.target import UnsupportedOperator
from tests.passes.checking import program_of


def loop() -> migraphx.program:
    p = migraphx.program()
    main, body = p.get_main_module(), p.create_module("body")
    main.set_origin("model.py:3")
    x = main.add_parameter("x", migraphx.shape("float", [2]))
    trips = main.add_parameter("trips", migraphx.shape("int64", [1]))
    condition = main.add_literal(np.array([True]))
    body.add_parameter("n", migraphx.shape("int64", [1]))
    again = body.add_parameter("again", migraphx.shape("bool", [1]))
    value = body.add_parameter("value", migraphx.shape("float", [2]))
    body.add_return([again, body.add_instruction(migraphx.op("add"), [value, value])])
    made = main.add_instruction(migraphx.op("loop", max_iterations=3), [trips, condition, x], [body])
    main.add_return([main.add_instruction(migraphx.op("get_tuple_elem", index=0), [made])])
    return p


def test_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MOST_LOOPS", 0)
    message = r"refuses loop -> .*model\.py:3\): it runs at most 0 loops in one program, this has 1"
    with pytest.raises(migraphx.UnsupportedOperator, match=message) as raised:
        loop().compile(migraphx.get_target("cpu"))
    assert [r.instruction.name for r in raised.value.refusals] == ["loop"]


def test_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MOST_VIEWS", 2)
    program = program_of(lambda b, x, y: b.add(x, y), x=(2,), y=(2,))
    with pytest.raises(UnsupportedOperator, match=r"pointwise -> .*: it has more than 2 operands: add"):
        target.translate(program, CompileOptions(), features())


@pytest.mark.parametrize("types", [("double", "float"), ("float", "double")])
def test_attention_of_doubles(types: tuple[str, str]) -> None:
    p = migraphx.program()
    main = p.get_main_module()
    q, k, v = (main.add_parameter(name, migraphx.shape(types[0], [1, 2, 4, 8])) for name in "qkv")
    mask = main.add_parameter("mask", migraphx.shape(types[1], [1, 2, 4, 4]))
    main.add_return([main.add_instruction(migraphx.op("attention"), [q, k, v, mask])])
    with pytest.raises(migraphx.UnsupportedOperator, match=r"refuses attention -> .*: attention sums in float"):
        p.compile(migraphx.get_target("cpu"))
