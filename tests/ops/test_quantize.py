"""Quantizing and dequantizing against torch and by definition."""

import ml_dtypes
import numpy as np
import pytest
import torch

from migraphx.ir.operation import ShapeError
from migraphx.ir.shape import Shape
from tests.ops.one_operator import apply, infer, random
from tests.tolerances import assert_close


def quantized(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> torch.Tensor:
    """The definition, in torch; of zero's type."""
    info = np.iinfo(zero.dtype)
    y = torch.round(torch.from_numpy(x) / torch.from_numpy(scale)).double() + torch.from_numpy(zero)
    return y.clamp(info.min, info.max)


@pytest.mark.parametrize("type", ["int8", "uint8", "int16", "int32"])
def test_quantize_is_torch(type):
    rng = np.random.default_rng(1)
    x = random(rng, (4, 50)) * 30
    scale, zero = np.full(x.shape, 0.37, np.float32), np.full(x.shape, 5, type)
    got, want = apply("quantizelinear", x, scale, zero), quantized(x, scale, zero)
    assert got.dtype == np.dtype(type)
    np.testing.assert_array_equal(got, want.numpy())
    back = apply("dequantizelinear", got, scale, zero)
    assert_close(back, ((want - 5) * 0.37).float().numpy())


def test_quantize_rounds_to_even_and_saturates():
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    got = apply("quantizelinear", x, np.ones_like(x), out_type="int8")
    assert got.tolist() == [0, 2, 2, 0, 127, -128, 127, -128, 0]
    assert apply("quantizelinear", x, np.ones_like(x)).tolist() == [0, 2, 2, 0, 255, 0, 255, 0, 0]


def test_quantize_per_channel():
    x, scale = random(np.random.default_rng(2), (3, 8)) * 9, np.array([[0.1], [0.5], [2]], np.float32)
    zero = np.array([[1], [-2], [3]], np.int8)
    wide = [np.broadcast_to(a, x.shape) for a in (scale, zero)]
    np.testing.assert_array_equal(apply("quantizelinear", x, *wide), quantized(x, scale, zero).numpy())


@pytest.mark.parametrize("type", ["fp8e4m3fn", "fp8e5m2"])
def test_quantize_to_fp8_keeps_fractions_and_saturates(type):
    dtype = np.dtype({"fp8e4m3fn": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2}[type])
    x = np.array([0.3, -1.06, 1e9, -1e9], np.float32)
    got = apply("quantizelinear", x, np.full_like(x, 2), out_type=type).astype(np.float32)
    top = float(ml_dtypes.finfo(dtype).max)
    np.testing.assert_array_equal(got, np.clip(x / 2, -top, top).astype(dtype).astype(np.float32))


def test_half_scale():
    y, scale = np.array([3, -4], np.int8), np.array([0.5, 0.25], np.float16)
    assert apply("dequantizelinear", y, scale).dtype == np.float16
    assert apply("dequantizelinear", y, scale).tolist() == [1.5, -1]
    number = apply("dequantizelinear", *(a.reshape(()) for a in (y[:1], scale[:1], y[:1])))
    assert isinstance(number, np.ndarray) and number.shape == () and number == 0


@pytest.mark.filterwarnings("error")
def test_an_infinite_scale_warns_of_nothing():
    codes, scale = np.array([-1, 0, 1], np.int8), np.full(3, np.inf, np.float32)
    np.testing.assert_array_equal(apply("dequantizelinear", codes, scale), [-np.inf, np.nan, np.inf])


def test_bad_inputs_are_refused():
    x, y = Shape("float", (3,)), Shape("int8", (3,))
    for name, shapes, attributes, why in (
        ("quantizelinear", (x,), {}, "takes x, scale"),
        ("quantizelinear", (x, Shape("float", (1,))), {}, "differ in lens"),
        ("quantizelinear", (y, x), {}, "must be floats"),
        ("quantizelinear", (x, x), {"out_type": "float"}, "does not quantize to float"),
        ("dequantizelinear", (y, x, Shape("uint8", (3,))), {}, "differ in type"),
        ("dequantizelinear", (x, x), {}, "does not take float"),
        ("dequantizelinear", (y, y), {}, "scale must be a float"),
    ):
        with pytest.raises(ShapeError, match=why):
            infer(name, *shapes, **attributes)


def test_packing_and_back():
    rng = np.random.default_rng(3)
    for type, low, high in (("int8", -8, 7), ("uint8", 0, 15)):
        x = rng.integers(max(low - 5, 0 if type == "uint8" else low - 5), high + 5, (3, 4, 6)).astype(type)
        for axis in (0, 1, -1):
            even = x if axis else x[:2]
            packed = apply("pack_int4", even, axis=axis)
            assert packed.dtype == x.dtype and packed.nbytes * 2 == even.nbytes
            np.testing.assert_array_equal(apply("unpack_int4", packed, axis=axis), np.clip(even, low, high))
    assert apply("pack_int4", np.array([1, -2], np.int8)).tolist() == [-31]  # 0xe1: the first below


def test_fp4_is_ml_dtypes():
    x = random(np.random.default_rng(4), (5, 8)) * 4
    back = apply("unpack_fp4", apply("pack_fp4", x))
    assert back.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(back.astype(np.float32), x.astype(ml_dtypes.float4_e2m1fn).astype(np.float32))


def test_bit_cast_keeps_bits():
    x = random(np.random.default_rng(5), (3, 4))
    np.testing.assert_array_equal(apply("bit_cast", x, target_type="int32"), torch.from_numpy(x).view(torch.int32))
    with pytest.raises(ShapeError, match="differ in width"):
        infer("bit_cast", Shape("float", (3,)), target_type="int64")
    with pytest.raises(ShapeError, match="differ in width"):
        infer("bit_cast", Shape("int4", (3,)), target_type="int8")
