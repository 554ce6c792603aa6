"""Macros under upstream's names, against torch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import migraphx
from tests.tolerances import assert_close

RNG = np.random.default_rng(0)


def numbers(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def answer(name: str, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray:
    """What the macro gives on ref."""
    p = migraphx.program()
    m = p.get_main_module()
    args = [
        None if x is None else m.add_parameter(f"x{n}", migraphx.argument(x).get_shape()) for n, x in enumerate(inputs)
    ]
    m.add_return(m.add_macro(migraphx.macro(name, **attributes), args))
    p.compile(migraphx.get_target("ref"))
    (out,) = p.run({f"x{n}": x for n, x in enumerate(inputs) if x is not None})
    return np.array(out)


def test_dot_broadcasts_its_batches() -> None:
    x, y = numbers(5, 1, 2, 3), numbers(4, 3, 2)
    assert_close(answer("dot", x, y), x @ y)


def test_gemm() -> None:
    x, y, c = numbers(3, 2), numbers(4, 3), numbers(4)
    want = 0.5 * x.T @ y.T + 2 * c
    found = answer("gemm", x, y, c, alpha=0.5, beta=2.0, transA=True, transB=True)
    assert_close(found, want)
    np.testing.assert_allclose(answer("gemm", x, numbers(2, 3), beta=0.0).shape, (3, 3))


def test_gelus() -> None:
    x = numbers(3, 4)
    tx = torch.from_numpy(x)
    assert_close(answer("gelu_erf", x), torch.nn.functional.gelu(tx).numpy())
    assert_close(answer("gelu_quick", x), (tx * torch.sigmoid(tx)).numpy())
    assert_close(answer("gelu_quick", x, alpha=1.702), (tx * torch.sigmoid(1.702 * tx)).numpy())


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (-0.5, None), (None, 0.5), (None, None)])
def test_clip(low: float | None, high: float | None) -> None:
    x = numbers(3, 4)
    bounds = [None if v is None else np.array([v], np.float32) for v in (low, high)]
    want = np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
    np.testing.assert_array_equal(answer("clip", x, *bounds), want)


def test_convolution_with_bias() -> None:
    x, w, bias = numbers(2, 4, 9, 8), numbers(6, 2, 3, 3), numbers(6)
    options: dict[str, Any] = {"strides": [2, 1], "dilations": [1, 2], "group": 2}
    tx, tw, tb = torch.from_numpy(x), torch.from_numpy(w), torch.from_numpy(bias)
    want = torch.nn.functional.conv2d(tx, tw, tb, stride=(2, 1), dilation=(1, 2), groups=2)
    assert_close(answer("convolution", x, w, bias, **options), want.numpy())
    same = torch.nn.functional.conv2d(tx, tw, padding="same", groups=2)
    found = answer("convolution", x, w, group=2, auto_pad="SAME_UPPER")
    assert_close(found, same.numpy())
    even = numbers(6, 2, 4, 4)
    halves = [answer("convolution", x, even, group=2, auto_pad=f"SAME_{side}") for side in ("UPPER", "LOWER")]
    assert halves[0].shape == halves[1].shape == (2, 6, 9, 8) and not np.array_equal(halves[0], halves[1])
    with pytest.raises(ValueError, match="auto_pad 'SAME' is not known"):
        answer("convolution", x, w, group=2, auto_pad="SAME")


def test_quantize_and_back_by_slice_and_by_block() -> None:
    x, zero = numbers(2, 4), np.array([3, 0, 128, 7], np.uint8)
    scale = np.array([0.1, 0.2, 0.05, 0.3], np.float32)
    places = torch.from_numpy(zero.astype(np.int32))
    want = torch.fake_quantize_per_channel_affine(torch.from_numpy(x), torch.from_numpy(scale), places, 1, 0, 255)
    q = answer("quantizelinear", x, scale, zero)
    assert q.dtype == np.uint8
    assert_close(answer("dequantizelinear", q, scale, zero), want.numpy())
    blocks = answer("dequantizelinear", q, np.array([[0.5, 2], [1, 4]], np.float32), block_size=2)
    np.testing.assert_array_equal(blocks, q * np.repeat(np.array([[0.5, 2], [1, 4]], np.float32), 2, axis=1))
    assert answer("quantizelinear", x, scale[:1], output_type="int8").dtype == np.int8
    with pytest.raises(ValueError, match="axis 2 is out of range for rank 2"):
        answer("quantizelinear", x, scale, axis=2)


def test_operators_are_macros_too() -> None:
    x, y = numbers(3, 1), numbers(4).astype(np.float64)
    np.testing.assert_array_equal(answer("add", x, y), x + y)
    np.testing.assert_array_equal(answer("transpose", x, permutation=[1, 0]), x.T)
    np.testing.assert_array_equal(answer("tile", x, repeats=[2, 2]), np.tile(x, (2, 2)))
    with pytest.raises(ValueError, match="transpose: unknown attribute 'permutatoin'"):
        migraphx.macro("transpose", permutatoin=[1, 0])
    with pytest.raises(ValueError, match="unknown macro 'gemmm'; did you mean 'gemm'"):
        migraphx.macro("gemmm")
    with pytest.raises(ValueError, match="gemm: unknown attribute 'alpa'; did you mean 'alpha'"):
        migraphx.macro("gemm", alpa=1)
