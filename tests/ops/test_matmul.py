import numpy as np
import pytest
import torch

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import NUMBERS, apply, infer, random, tensor
from tests.tolerances import assert_close

LENS = [
    ((3, 4), (4, 5)),
    ((1, 1), (1, 1)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 7, 33), (2, 3, 33, 9)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize(("a", "b"), LENS)
def test_dot(a, b, type):
    rng = np.random.default_rng(3)
    x, y = random(rng, a, type), random(rng, b, type)
    assert_close(apply("dot", x, y), torch.matmul(tensor(x), tensor(y)).numpy().astype(x.dtype))


def test_dot_of_any_strides():
    rng = np.random.default_rng(4)
    x, y = random(rng, (4, 3, 2)).transpose(2, 1, 0), np.broadcast_to(random(rng, (4, 5)), (2, 4, 5))
    got = infer("dot", Shape.of(x), Shape.of(y))
    assert str(got) == "float_type, {2, 3, 5}, {15, 5, 1}"
    assert_close(apply("dot", x, y), x @ y)


def test_dot_sums_narrow_floats_in_float():
    ones = np.ones((1, 4096), np.float16)
    assert apply("dot", ones, ones.T)[0, 0] == 4096  # half alone would stop at 2048


def test_nan_and_infinity_propagate():
    got = apply("dot", np.array([[np.nan, 1], [np.inf, 1]], np.float32), np.array([[1], [0]], np.float32))
    assert np.isnan(got[0, 0]) and got[1, 0] == np.inf


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
def test_quant_dot(types):
    rng = np.random.default_rng(5)
    x, y = (rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, (2, 90, 90)).astype(t) for t in types)
    got = apply("quant_dot", x, y)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, x.astype(np.int64) @ y.astype(np.int64))


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("dot", Shape("float", (3, 4)), Shape("float", (5, 4))),
        ("dot", Shape("float", (4,)), Shape("float", (4,))),
        ("dot", Shape("float", (2, 3, 4)), Shape("float", (4, 5))),
        ("dot", Shape("float", (2, 3, 4)), Shape("float", (1, 4, 5))),
        ("dot", Shape("float", (3, 4)), Shape("half", (4, 5))),
        ("dot", Shape("bool", (3, 4)), Shape("bool", (4, 5))),
        ("dot", Shape("int4", (3, 4)), Shape("int4", (4, 5))),
        ("convolution", Shape("bool", (1, 1, 4)), Shape("bool", (1, 1, 2))),
        ("convolution_backwards", Shape("uint4", (1, 1, 4)), Shape("uint4", (1, 1, 2))),
        ("quant_dot", Shape("int32", (3, 4)), Shape("int32", (4, 5))),
        ("quant_dot", Shape("int8", (3, 4)), Shape("int8", (3, 5))),
    ],
)
def test_bad_input(name, a, b):
    with pytest.raises(ShapeError) as error:
        infer(name, a, b)
    assert all(word in str(error.value) for word in (f"{name}: ", str(a), str(b)))
