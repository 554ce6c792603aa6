"""migraphx.module, instruction_ref, op and macro; programs as Python code and as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.program import published
from migraphx.ir.text import parse_program

op, macro, shape = migraphx.op, migraphx.macro, migraphx.shape


def main_module() -> migraphx.module:
    return migraphx.program().get_main_module()


def test_building_and_asking(capsys: pytest.CaptureFixture[str]) -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", shape("float", [2, 3]))
    c = m.add_literal(np.full((2, 3), 2, np.float32))
    total = m.add_instruction(op("add"), [x, c])
    turned = m.add_instruction(op("transpose", permutation=[1, 0]), [total])
    assert m.get_returns() == []
    m.add_return([turned])
    assert m.get_returns() == [turned] and [i.name() for i in m] == [
        "@literal",
        "@param",
        "add",
        "transpose",
        "@return",
    ]
    assert turned.shape() == shape("float", [3, 2], [1, 3]) and turned.inputs() == [total]
    assert total.outputs() == [turned] and total.name() == "add" and {total: 1}[turned.inputs()[0]] == 1
    assert turned.op() == op("transpose", permutation=(1, 0)) and turned.op().values() == {"permutation": (1, 0)}
    assert hash(turned.op()) == hash(op("transpose", permutation=[1, 0])) and turned.op().name() == "transpose"
    assert c.get_literal().tolist() == [2.0] * 6 and c.get_literal().get_shape() == shape("float", [2, 3])
    with pytest.raises(ValueError, match="@param is not a literal"):
        x.get_literal()
    m.replace_return([total, turned])
    assert m.get_returns() == [total, turned]
    m.print()
    p.print()
    assert capsys.readouterr().out == f"{m!r}\n{p!r}\n" and repr(m) in repr(p)
    assert "@2 = add(x,@0) -> float_type, {2, 3}, {3, 1}" in repr(m)


RAMP = np.arange(6, dtype=np.float32).reshape(2, 3)
RECORDS = np.zeros((2, 3), [("a", "i1"), ("b", "f4")])
RECORDS["b"] = RAMP


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(
    "array", [RAMP.astype(">f4"), RAMP[::-1], RAMP[:, ::-1].T, RECORDS["b"], RAMP.astype(">f4")[:, ::-1]]
)
def test_literals_of_any_layout(array: np.ndarray, target: str) -> None:
    """As inputs of a run may be: foreign byte order, negative strides, strides between elements."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", shape("float", list(array.shape)))
    c = m.add_literal(array)
    np.testing.assert_array_equal(c.get_literal(), array)
    m.add_return([m.add_instruction(op("add"), [x, c])])
    p.compile(migraphx.get_target(target))
    for q in (p, migraphx.load_buffer(migraphx.save_buffer(p))):
        np.testing.assert_array_equal(q.run({"x": array})[0], 2 * array)


def test_macros() -> None:
    m = main_module()
    x = m.add_parameter("x", shape("float", [2, 3]))
    (g,) = m.add_macro(macro("gelu", approximate="tanh"), [x])
    assert g.shape() == x.shape()
    last = m.add_instruction(op("neg"), [x])
    (early,) = m.insert_macro(last, macro("gelu"), [x])
    order = list(m)
    assert order.index(early) < order.index(last)
    for given in (macro("gelu", approximate="tanh").values(), macro("gelu", approximate="tanh").options()):
        assert given == {"approximate": "tanh"} and macro("gelu").name() == "gelu"


def test_enumerations_by_member_number_and_name() -> None:
    half = shape.type_t.half_type
    assert int(half) == 1 and op("convert", target_type=half) == op("convert", target_type=1)
    assert op("convert", target_type="half").values() == {"target_type": "half"}
    assert op("multinomial", dtype=shape.type_t.int64_type).values() == {"dtype": "int64"}
    assert op("pooling", mode=op.pooling_mode.max) == op("pooling", mode=1) == op("pooling", mode="max")
    assert op("roialign", mode=op.pooling_mode.average) == op("roialign", mode=0) == op("roialign", mode="avg")
    assert macro("quantizelinear", output_type=shape.type_t.int8_type).values() == {"output_type": "int8"}
    assert repr(op("transpose", permutation=[1, 0])) == "transpose[permutation={1, 0}]" and str(op("relu")) == "relu"
    assert repr(macro("tile", repeats=[1, 2])) == "tile[repeats={1, 2}]" and str(macro("gelu")) == "gelu"
    with pytest.raises(ValueError, match=r"pooling: attribute .mode.: 9 is no str"):
        op("pooling", mode=9)


def test_origins_are_kept() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    m.set_origin("model.py:3")
    m.add_instruction(op("neg"), [m.add_parameter("x", shape("float", [2, 3]))])
    assert [ins.origin for ins in p.graph.main if ins.name == "neg"] == ["model.py:3"]


def test_refused() -> None:
    m: Any = main_module()
    five: Any = 5
    other = main_module()
    x, foreign = m.add_parameter("x", shape()), other.add_parameter("x", shape())
    for make, error, words in (
        (lambda: op("rlu"), ValueError, "unknown operator 'rlu'; did you mean 'relu'"),
        (lambda: op("transpose", permutaton=[0]), ValueError, "transpose: .*'permutaton'; did you mean 'permutation'"),
        (lambda: macro("gellu"), ValueError, "unknown macro 'gellu'; did you mean 'gelu'"),
        (lambda: macro("gelu", aproximate="tanh"), ValueError, "gelu: .*'aproximate'; did you mean 'approximate'"),
        (lambda: m.add_parameter("x", shape()), ValueError, "already has a parameter 'x'"),
        (lambda: m.add_parameter("y", [2, 3]), TypeError, "'y' needs a migraphx.shape"),
        (lambda: m.add_instruction("relu", [x]), TypeError, "must be a migraphx.op, got 'relu'"),
        (lambda: m.add_instruction(op("relu"), x), TypeError, "list of instructions"),
        (lambda: m.add_instruction(op("relu"), [3]), TypeError, "must be an instruction, got 3"),
        (lambda: m.add_instruction(op("relu"), [x, x]), ValueError, "relu: takes 1 input"),
        (lambda: m.add_instruction(op("relu"), [foreign]), ValueError, "belongs to another program"),
        (lambda: m.add_macro(macro("gelu"), [foreign]), ValueError, "belongs to another program"),
        (lambda: m.add_return([foreign]), ValueError, "belongs to another program"),
        (lambda: m.add_literal("text"), ValueError, "no MIGraphX type"),
        (lambda: migraphx.program().create_module("main"), ValueError, "already has a module 'main'"),
        (lambda: migraphx.program().create_module(""), TypeError, "create_module: the name must be"),
        (lambda: m.add_parameter(5, shape()), TypeError, "add_parameter: the name must be a string .* got 5"),
        (lambda: op(five), TypeError, "op: the name must be"),
        (lambda: macro(five), TypeError, "macro: the name must be"),
        (lambda: op("convert", target_type=99), ValueError, "convert: attribute 'target_type': 99"),
        (lambda: m.add_macro("gelu", [x]), TypeError, "must be a migraphx.macro, got 'gelu'"),
        (lambda: m.add_macro(op("relu"), [x]), TypeError, "must be a migraphx.macro"),
        (lambda: m.add_macro(macro("gelu"), x), TypeError, "list of instructions"),
        (lambda: m.insert_macro(foreign, macro("gelu"), [x]), ValueError, "belongs to another program"),
        (lambda: m.insert_macro(None, macro("gelu"), [x]), TypeError, "must be an instruction"),
    ):
        with pytest.raises(error, match=words):
            make()


def rich_program() -> migraphx.program:
    """Literals of several types, sizes and layouts, odd numbers, attributes of every kind, nested modules."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", shape("float", [2, 3]))
    flag = m.add_parameter("flag", shape("bool", [1]))
    turned = m.add_parameter("turned", shape("float", [2, 3], [1, 2]))
    odd = m.add_literal(np.array([[np.nan, np.inf, -0.0], [1e-45, 0.1, -np.inf]], np.float32))
    large = m.add_literal(np.arange(12, dtype=np.float32).reshape(4, 3).T)
    m.add_literal(migraphx.create_argument(shape("bf16", [2]), [1.5, 2]))
    m.add_literal(np.broadcast_to(np.array([[[1]], [[2]]], np.float32), (1, 2, 1, 1)))  # strides of lengths of 1
    y = m.add_instruction(op("add"), [m.add_instruction(op("add"), [x, odd]), turned])
    z = m.add_instruction(op("dot"), [y, large])
    bodies = []
    for name, kind in (("then", "relu"), ("else", "neg")):
        body = p.create_module(name)
        inner = p.create_module(f"{name}_inner")
        inner.add_return([inner.add_instruction(op(kind), [z])])
        outer = p.create_module(f"{name}_outer")
        outer.add_return([outer.add_literal(np.full((2, 4), 3, np.float32))])
        both = body.add_instruction(op("if"), [flag], [inner, outer])
        body.add_return([body.add_instruction(op("get_tuple_elem", index=0), [both])])
        bodies.append(body)
    chosen = m.add_instruction(op("get_tuple_elem", index=0), [m.add_instruction(op("if"), [flag], bodies)])
    m.add_return([m.add_instruction(op("softmax", axis=1), [chosen]), y])
    return p


def test_to_py_builds_an_equal_program() -> None:
    p = rich_program()
    scope: dict = {}
    exec(p.to_py(), scope)
    q = scope["p"]
    assert q == p and q is not p
    assert q.to_py() == p.to_py()
    for r in (p, q):
        r.compile(migraphx.get_target("ref"))
    inputs = {"x": np.ones((2, 3), np.float32), "turned": np.ones((2, 3), np.float32), "flag": np.array([True])}
    np.testing.assert_array_equal(np.array(p.run(inputs)[1]), np.array(q.run(inputs)[1]))


def test_to_py_of_dynamic_parameters() -> None:
    p = migraphx.program()
    dims = [shape.dynamic_dimension(1, 8, {2, 4}), shape.dynamic_dimension(3, 3)]
    p.get_main_module().add_parameter("x", shape("half", dyn_dims=dims))
    scope: dict = {}
    exec(p.to_py(), scope)
    assert scope["p"] == p


def test_to_py_of_dimensions_that_are_expressions() -> None:
    p = migraphx.program()
    dims = [shape.dynamic_dimension("n * 3 + 1", {"n": shape.dynamic_dimension(1, 8)}), shape.dynamic_dimension(3, 3)]
    p.get_main_module().add_parameter("x", shape("half", dyn_dims=dims))
    assert "migraphx.shape.from_json" in p.to_py()
    scope: dict = {}
    exec(p.to_py(), scope)
    assert scope["p"] == p
    assert [d.is_symbolic() for d in scope["p"].get_parameter_shapes()["x"].dyn_dims()] == [True, False]


def test_printing_is_what_parsing_reads() -> None:
    p = rich_program()
    again = published(parse_program(repr(p)))
    assert again == p and repr(again) == repr(p)


def test_sort_and_equality() -> None:
    p, q = rich_program(), rich_program()
    p.sort()
    assert p == q and p != migraphx.program() and p != 3
    q.get_main_module().add_parameter("more", shape())
    assert p != q
