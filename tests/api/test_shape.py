"""migraphx.shape: what it says, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.api.shape import wrap
from migraphx.ir.dtype import NUMPY_TYPES
from migraphx.ir.shape import Shape

shape, dynamic_dimension = migraphx.shape, migraphx.shape.dynamic_dimension


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_types(name: str) -> None:
    for given in (name, f"{name}_type", getattr(shape.type_t, f"{name}_type")):
        s = shape(type=given, lens=[2, 3])
        assert s.type() is getattr(shape.type_t, f"{name}_type")
        assert s.type_string() == f"{name}_type" and repr(s) == f"{name}_type, {{2, 3}}, {{3, 1}}"
        assert s.type_size() == NUMPY_TYPES[name].itemsize and s.bytes() == 6 * s.type_size()


def test_defaults_and_scalars() -> None:
    assert shape() == shape("float", [1]) and repr(shape("half", [])) == "half_type, {}, {}"
    assert shape("half", []).elements() == 1 and shape("half", []).scalar() and shape("float", [0, 3]).elements() == 0


@pytest.mark.parametrize(
    ("strides", "packed", "standard", "transposed", "broadcasted"),
    [
        ([12, 4, 1], True, True, False, False),
        ([1, 2, 6], True, False, True, False),
        ([24, 4, 1], False, False, False, False),
        ([0, 4, 1], False, False, False, True),
        ([0, 0, 0], False, False, False, True),
    ],
)
def test_layout(strides: list[int], packed: bool, standard: bool, transposed: bool, broadcasted: bool) -> None:
    s = shape("float", [2, 3, 4], strides)
    assert s.lens() == [2, 3, 4] and s.strides() == strides and s.ndim() == 3 and s.elements() == 24
    assert (s.packed(), s.standard(), s.transposed(), s.broadcasted()) == (packed, standard, transposed, broadcasted)
    assert s.scalar() == (strides == [0, 0, 0])
    assert s.bytes() == 4 * (1 + sum((n - 1) * k for n, k in zip([2, 3, 4], strides, strict=True)))


@pytest.mark.parametrize("permutation", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_permutation_is_the_order_in_memory(permutation: tuple[int, ...]) -> None:
    lens = (2, 3, 4)
    lying = np.empty([lens[d] for d in permutation], np.float32).transpose(np.argsort(permutation))
    s = shape("float", lens, permutation=permutation)
    assert s.strides() == [k // 4 for k in lying.strides] and s.lens() == list(lying.shape)


def test_equality_and_hash() -> None:
    a, b = shape("float", [2, 3]), shape(type="float_type", lens=(2, 3), strides=(3, 1))
    assert a == b and hash(a) == hash(b) and a != shape("half", [2, 3]) and a != shape("float", [2, 3], [1, 2])
    assert a != "float_type, {2, 3}, {3, 1}"


def test_numpy_integers_are_lens() -> None:
    lens: Any = np.array([2, 3])
    made = shape("float", lens).lens()
    assert made == [2, 3] and all(type(n) is int for n in made)


def test_dynamic() -> None:
    d = dynamic_dimension(1, 8, {4, 2})
    assert (d.min, d.max, d.optimals, d.is_fixed()) == (1, 8, {2, 4}, False) and dynamic_dimension(3, 3).is_fixed()
    assert d == dynamic_dimension(1, 8, [2, 4]) and hash(d) == hash(dynamic_dimension(1, 8, [2, 4]))
    s = shape("float", dyn_dims=[d, dynamic_dimension(3, 3)])
    assert s.dynamic() and s.dyn_dims() == [d, dynamic_dimension(3, 3)] and s.ndim() == 2
    assert not shape().dynamic() and shape().dyn_dims() == []
    assert not (s.standard() or s.packed() or s.scalar()) and s.bytes() == 8 * 3 * 4
    for asked in (s.lens, s.strides, s.elements, s.transposed, s.broadcasted):
        with pytest.raises(ValueError, match="of a dynamic shape: dynamic, float_type, "):
            asked()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((4, 2), ValueError, "min <= max"),
        ((1.5, 4), TypeError, "min and max must be .* integers"),
        (("1", 4), TypeError, "'1' needs a mapping of its names"),
        ((1, 4, 2), TypeError, "optimals must be .* integers"),
        ((1, 4, {9}), ValueError, "not all in"),
    ],
)
def test_no_dynamic_dimension(arguments: tuple, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dynamic_dimension(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"type": "floot"}, ValueError, "unknown type 'floot'.*float"),
        ({"type": 3}, TypeError, "type must be a name"),
        ({"lens": [-2, 3]}, ValueError, "negative length"),
        ({"lens": [2.5, 3]}, TypeError, "lens must be a sequence of integers"),
        ({"lens": 5}, TypeError, "lens must be a sequence of integers"),
        ({"lens": [2, 3], "strides": [1]}, ValueError, "2 lens but 1 strides"),
        ({"lens": [2, 3], "strides": [-3, 1]}, ValueError, "negative stride"),
        ({"lens": [2, 3], "permutation": [0, 0]}, ValueError, "no permutation of 2"),
        ({"lens": [2, 3], "permutation": [0]}, ValueError, "no permutation of 2"),
        ({"lens": [2, 3], "permutation": 1}, TypeError, "permutation must be a sequence of integers"),
        ({"dyn_dims": [3]}, TypeError, "dyn_dims must be a sequence of shape.dynamic_dimension"),
        ({"dyn_dims": dynamic_dimension(1, 4)}, TypeError, "dyn_dims must be a sequence of shape.dynamic_dimension"),
        ({"lens": [2, 3], "strides": [3, 1], "permutation": [0, 1]}, ValueError, "not both"),
        ({"lens": [3], "dyn_dims": [dynamic_dimension(1, 4)]}, ValueError, "dyn_dims or lens .*, not both"),
        ({"strides": [1], "dyn_dims": [dynamic_dimension(1, 4)]}, ValueError, "dyn_dims or lens .*, not both"),
    ],
)
def test_refused(arguments: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        shape(**arguments)


@pytest.mark.parametrize(
    ("given", "name"),
    [("int64_t", "int64"), ("uint8_t", "uint8"), ("int32_t", "int32"), ("uint64_t", "uint64"), ("bf16", "bf16"),
     ("fp8::fp8e4m3fn", "fp8e4m3fn"), ("double", "double")],
)  # fmt: skip
def test_types_as_cpp_calls_them(given: str, name: str) -> None:
    assert shape(given, [2]) == shape(name, [2])


def test_other_names_of_types_are_refused() -> None:
    for name in ("float_t", "int", "std::int64_t"):
        with pytest.raises(ValueError, match=name):
            shape(name)


def test_dimension_without_a_range() -> None:
    d = dynamic_dimension()
    assert (d.min, d.max, d.optimals) == (0, 0, set()) and d.is_fixed() and not d.is_symbolic()


@pytest.mark.parametrize(
    ("text", "least", "most", "optimals"),
    [("n", 2, 8, {4}), ("n * 3 + 1", 7, 25, {13}), ("(n + 1) // 2", 1, 4, {2}), ("10 - n", 2, 8, {6}),
     ("n * m", 6, 40, set()), ("n - m + 3", 0, 8, set()), ("7", 7, 7, set())],
)  # fmt: skip
def test_dimensions_that_are_expressions(text: str, least: int, most: int, optimals: set[int]) -> None:
    n, m = dynamic_dimension(2, 8, {4}), dynamic_dimension(3, 5)
    d = dynamic_dimension(text, {"n": n, "m": m})
    assert d.is_symbolic() and (d.min, d.max, d.optimals) == (least, most, optimals)
    values = [eval(text, {}, {"n": i, "m": j}) for i in range(2, 9) for j in range(3, 6)]
    assert (d.min, d.max) == (max(min(values), 0), max(values))
    kept = shape.from_json(shape("half", dyn_dims=[d, dynamic_dimension(3, 3)]).to_json()).dyn_dims()
    assert kept == [d, dynamic_dimension(3, 3)] and [k.is_symbolic() for k in kept] == [True, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [("n +", "no expression"), ("k", "has 'k'"), ("n - 9", "may be -7"), ("n ** 2", "no sum"), ("f(n)", "no sum"),
     ("4 // (n - 2)", "divide by 0"), ("1.5", "no sum"), ("True", "no sum")],
)  # fmt: skip
def test_expressions_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dynamic_dimension(text, {"n": dynamic_dimension(2, 8)})
    with pytest.raises(TypeError, match="mapping"):
        dynamic_dimension(text, 3)


def test_json_and_sub_shapes() -> None:
    s = shape("int8", [2, 3], [1, 2])
    assert shape.from_json(s.to_json()) == s and s.sub_shapes() == []
    both = wrap(Shape.tuple_of([Shape("float", (2,)), Shape("half", (3, 1))]))
    assert both.sub_shapes() == [shape("float", [2]), shape("half", [3, 1])]
    assert shape.from_json(both.to_json()) == both
    for text in ("", "[]", "{}", '{"type": "word"}', '{"type": "float_type", "lens": 3}'):
        with pytest.raises(ValueError, match="holds no shape"):
            shape.from_json(text)
