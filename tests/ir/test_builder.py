from typing import Any

import numpy as np
import pytest

import migraphx.ops  # noqa: F401  declares the operators
from migraphx.ir.builder import COMPOSITES, Builder, common_type, composite
from migraphx.ir.module import Module
from migraphx.ir.operation import Operation, ShapeError, coerce, operation
from migraphx.ir.shape import Shape
from migraphx.ir.text import module_text
from migraphx.ir.verify import verify
from migraphx.targets.ref.evaluate import evaluate


@pytest.fixture
def b() -> Builder:
    return Builder(Module())


def parameter(b: Builder, name: str, type: str, *lens: int) -> Any:
    return b.module.add_parameter(name, Shape(type, lens))


def test_operators_and_composites_are_methods(b):
    x = parameter(b, "x", "float", 2, 3)
    assert b.relu(x).name == "relu"
    assert b.transpose(x, permutation=[1, 0]).op == operation("transpose", permutation=(1, 0))
    COMPOSITES["twice_of_test"] = lambda b, x, *, times=2: b.mul(x, b.full(times, x))
    try:
        assert b.twice_of_test(x, times=3).name == "mul"
    finally:
        del COMPOSITES["twice_of_test"]


def test_unknown_names_name_the_nearest(b):
    x = parameter(b, "x", "float", 2)
    with pytest.raises(AttributeError, match="no operator 'transposed'; did you mean 'transpose'"):
        b.transposed(x)
    with pytest.raises(ValueError, match="unknown attribute 'permutations'; did you mean 'permutation'"):
        b.transpose(x, permutations=(0,))
    with pytest.raises(ValueError, match="relu: unknown attribute 'dims'; it has none"):
        b.relu(x, dims=1)
    with pytest.raises(ValueError, match="unknown operator 'rellu'; did you mean 'relu'"):
        operation("rellu")


@pytest.mark.parametrize(
    ("value", "annotation", "want"),
    [
        ([1, 2], "tuple[int, ...]", (1, 2)),
        (np.array([1, 2]), "tuple[int, ...]", (1, 2)),
        (3, "tuple[int, ...]", (3,)),
        (np.int64(3), "int", 3),
        (2.0, "int", 2),
        (1, "bool", True),
        (1, "float", 1.0),
        (np.float32(0.1), "float", float(np.float32(0.1))),
        ([[1], [2, 3]], "tuple[tuple[int, ...], ...]", ((1,), (2, 3))),
        ("max", "str", "max"),
    ],
)
def test_attribute_values_become_pythons_own(value, annotation, want):
    got = coerce(value, annotation)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(("name", "attributes"), [("concat", {"axis": 1.5}), ("slice", {"axes": ["a"]}),
                                                  ("pooling", {"ceil_mode": 2})])  # fmt: skip
def test_wrong_attribute_values_are_refused(name, attributes):
    with pytest.raises(ValueError, match=f"{name}: "):
        operation(name, **attributes)


def test_bad_inputs_name_operator_shapes_and_origin(b):
    x, y = parameter(b, "x", "float", 2, 3), parameter(b, "y", "float", 2, 3)
    with pytest.raises(ShapeError, match=r"dot: .*\{2, 3\}.*, from model.py:7"):
        b.at(None, "model.py:7").dot(x, y)
    with pytest.raises(ShapeError, match=r"dot: takes 2 inputs, got 1"):
        b.dot(x)
    with pytest.raises(ShapeError, match="relu: takes no module argument"):
        b.relu(x, modules=(Module(),))


def test_at_inserts_before_and_keeps_the_origin(b):
    x = parameter(b, "x", "float", 2)
    last = b.relu(x)
    new = b.at(last, "here").neg(x)
    assert list(b.module) == [x, new, last] and new.origin == "here"
    assert b.at(last, "here").at(None).neg(x).origin == "here"


def test_literal_and_full(b):
    assert b.literal([1, 2], "half").shape == Shape("half", (2,))
    assert b.literal(3.0).shape == Shape("double", ())
    for lens in ((), (2, 3), (0,), (1,)):
        like = parameter(b, f"like{len(b.module)}", "bf16", *lens)
        full = b.full(1.5, like)
        assert (full.shape.type, full.shape.lens) == ("bf16", lens)
    (*_, got) = evaluate(b.module, {i: np.zeros(p.shape.lens) for i, p in b.module.parameters.items()})
    assert got.tolist() == [1.5]
    for value, type in ((np.inf, "int32"), (np.nan, "int64"), (-1e30, "int8"), (2.0**63, "int64"), (-1.0, "uint8")):
        with pytest.raises(ValueError, match=f"is no {type}"):
            b.full(float(value), parameter(b, f"{value}", type))


def test_cast_and_broadcast_add_nothing_where_nothing_is_to_do(b):
    x = parameter(b, "x", "float", 2, 3)
    assert b.cast(x, "float") is x and b.broadcast_to(x, [2, 3]) is x
    assert b.cast(x, "half").shape.type == "half"
    assert b.broadcast_to(x, (4, 2, 3)).shape.strides == (0, 3, 1)


def test_common(b):
    x, y = parameter(b, "x", "half", 2, 1), parameter(b, "y", "int64", 3)
    both = b.common(x, y)
    assert [(i.shape.type, i.shape.lens) for i in both] == [("half", (2, 3))] * 2
    verify(b.module)
    with pytest.raises(ValueError, match="broadcast"):
        b.common(x, parameter(b, "z", "half", 3, 3))


@pytest.mark.parametrize(
    ("types", "want"),
    [
        (("float", "float"), "float"),
        (("half", "bf16"), "float"),
        (("int64", "half"), "half"),
        (("bool", "int8"), "int8"),
        (("int8", "uint8"), "int16"),
        (("float", "double", "half"), "double"),
        (("fp8e4m3fn", "half"), "float"),
        (("bool", "bool"), "bool"),
    ],
)
def test_common_type(types, want):
    assert common_type(*types) == common_type(*reversed(types)) == want


def test_outputs_are_the_elements_of_a_tuple(b):
    x = parameter(b, "x", "float", 2, 5)
    values, indices = b.outputs(b.topk(x, k=2, axis=1), 2)
    assert values.shape.lens == indices.shape.lens == (2, 2)
    assert "get_tuple_elem[index=1]" in module_text(b.module)


def test_a_declaration_is_made_once():
    def relu(b: Builder) -> None:
        """Has an operator's name."""

    with pytest.raises(TypeError, match="'relu' is declared twice"):
        composite(relu)
    with pytest.raises(TypeError, match="'relu' is declared twice"):

        class Again(Operation, name="relu"):
            """Has an operator's name."""
