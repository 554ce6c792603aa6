import numpy as np
import pytest
import torch

from migraphx.ir import dtype as dtypes
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


def cancelling(columns: int, type: str) -> tuple[np.ndarray, np.ndarray]:
    """x {1, K} and y {K, columns} of whole numbers whose products cancel, but for a few small ones.

    Products go up to 2^40: a sum in float loses what remains, a sum in double loses nothing, in whatever order.
    """
    rng, high = np.random.default_rng(6), {"float": 2**20, "half": 2**11, "bf16": 2**8}[type]
    x, y = rng.integers(high // 2, high, 96), rng.integers(high // 2, high, (96, columns))
    order = rng.permutation(200)
    x = np.concatenate([x, -x, rng.integers(0, 3, 8)])[order][None]
    y = np.concatenate([y, y, rng.integers(0, 3, (8, columns))])[order]
    return x.astype(dtypes.to_numpy(type)), y.astype(dtypes.to_numpy(type))


@pytest.mark.parametrize("type", ["float", "half", "bf16"])
@pytest.mark.parametrize("name", ["dot", "convolution", "convolution_backwards"])
def test_sums_of_products_are_exact_in_any_order(name, type):
    """NumPy's BLAS adds in another order, with or without multiply-adds, on each processor."""
    x, y = cancelling(9, type)
    want = x.astype(np.int64) @ y.astype(np.int64)
    if name == "dot":
        got = apply(name, x, y)
    else:
        weights = y.T if name == "convolution" else y
        got = apply(name, x[..., None, None], weights[..., None, None])[..., 0, 0]
    np.testing.assert_array_equal(got.astype(np.int64), want)


def test_other_sums_are_exact_in_any_order():
    big = 2.0**25
    x = np.array([[[big, 1, 1, -big]]], np.float32)
    assert apply("pooling", x, mode="average", lengths=(4,), stride=(1,), padding=(0,), dilations=(1,)) == 0.5
    zero, at = np.zeros(1, np.float32), np.zeros(4, np.int64)
    assert apply("scatter_add", zero, at, x.reshape(4)) == 2
    codes = np.array([[0x11], [0x11]], np.int8)  # four ones
    assert apply("dot_int4", x[0], codes, np.ones((1, 1), np.float32)) == 2


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


@pytest.mark.parametrize("type", ["fp8e4m3fn", "fp8e5m2", "fp8e4m3fnuz"])
def test_quant_dot_of_fp8(type):
    rng = np.random.default_rng(6)
    x, y = random(rng, (2, 9, 30), type), random(rng, (2, 30, 7), type)
    got = apply("quant_dot", x, y)
    assert got.dtype == np.float32
    assert_close(got, x.astype(np.float32) @ y.astype(np.float32))


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
        ("quant_dot", Shape("int8", (3, 4)), Shape("fp8e4m3fn", (4, 5))),
        ("quant_dot", Shape("fp8e5m2", (3, 4)), Shape("fp8e4m3fn", (4, 5))),
    ],
)
def test_bad_input(name, a, b):
    with pytest.raises(ShapeError) as error:
        infer(name, a, b)
    assert all(word in str(error.value) for word in (f"{name}: ", str(a), str(b)))
