"""Operators that exporters write and no standard has agree with torch, and with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import migraphx
from tests.onnx.contrib_cases import MICROSOFT
from tests.onnx.one_node import model, one_node, ours, theirs
from tests.tolerances import assert_close

RNG = np.random.default_rng(5)


def f(*lens: int) -> np.ndarray:
    return np.asarray(RNG.standard_normal(lens), np.float32)


@pytest.mark.parametrize(("mode", "name"), [(0, "sum"), (1, "mean"), (2, "max")])
@pytest.mark.parametrize("offsets", [[0, 3, 3, 4], [0, 0, 6], [0]])
def test_embedding_bags(mode: int, name: str, offsets: list[int]) -> None:
    table, indices = f(9, 4), RNG.integers(0, 9, 6)
    attributes = {"operator": "embedding_bag", "mode": mode}
    node = helper.make_node("ATen", ["t", "i", "o"], ["y"], domain="org.pytorch.aten", **attributes)
    data = model([node], {"t": table, "i": indices}, ["y"], {"o": np.array(offsets)})
    bags = torch.tensor(offsets)
    want = torch.nn.functional.embedding_bag(torch.tensor(indices), torch.tensor(table), bags, mode=name)
    assert_close(ours(data, {"t": table, "i": indices})[0], want.numpy())


def test_embedding_bags_that_are_refused() -> None:
    for offsets, more, words in [
        ([1, 3], {}, "offsets"), ([0, 9], {}, "offsets"), ([0], {"mode": 3}, "mode"),
        ([0], {"include_last_offset": 1}, "include_last_offset"), ([0], {"operator": "addmm"}, "addmm"),
    ]:  # fmt: skip
        node = helper.make_node("ATen", ["t", "i", "o"], ["y"], **{"operator": "embedding_bag", **more})
        inputs = {"t": f(9, 4), "i": RNG.integers(0, 9, 6)}
        with pytest.raises(ValueError, match=words):
            migraphx.parse_onnx_buffer(model([node], inputs, ["y"], {"o": np.array(offsets)}))


def test_constant_fill() -> None:
    x = f(2, 3)
    for given, attributes, want in [
        ([x], {"value": 2.0}, np.full((2, 3), 2, np.float32)),
        ([x], {"value": 2.0, "extra_shape": [4], "dtype": TensorProto.INT32}, np.full((2, 3, 4), 2, np.int32)),
        ([], {"shape": [3, 1], "value": 0.5}, np.full((3, 1), 0.5, np.float32)),
    ]:
        data = one_node("ConstantFill", given, opset=1, **attributes)
        (got,) = ours(data, {"x0": x})
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


NARROW = {
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 2),
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 15),
}


def blocks_of(x: np.ndarray, size: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """The scales of blocks along the last axis, and one for each element."""
    n = -(-x.shape[-1] // size)
    whole = np.zeros((*x.shape[:-1], n * size), np.float32)
    whole[..., : x.shape[-1]] = x
    largest = np.abs(whole.reshape(*x.shape[:-1], n, size)).max(-1)
    scales = 2.0 ** (np.floor(np.log2(np.maximum(largest, 2.0**-126))) - power)
    return scales, np.repeat(scales, size, -1)[..., : x.shape[-1]]


@pytest.mark.parametrize("element", NARROW)
@pytest.mark.parametrize("axis", [1, -1])
def test_microscaling(element: str, axis: int) -> None:
    x = f(3, 10) * np.float32(3.0) ** np.arange(10, dtype=np.float32)
    x[0] = 0
    narrow, power = NARROW[element]
    _, scales = blocks_of(x, 4, power)
    most = float(ml_dtypes.finfo(narrow).max)
    want = np.clip(x / scales, -most, most).astype(narrow).astype(np.float32) * scales
    for op in ("MXQuantizeDequantize", "MXFixNeuron"):
        data = one_node(op, [x], axis=axis, block_size=4, element_dtype=element)
        np.testing.assert_array_equal(ours(data, {"x0": x})[0], want.astype(np.float32))


def test_dynamic_scales() -> None:
    x = f(3, 8)
    data = one_node("DynamicScale", [x], group_dim=1, group_size=4, output_dtype=TensorProto.FLOAT8E4M3FN)
    assert_close(ours(data, {"x0": x})[0], blocks_of(x, 4, 8)[0].astype(np.float32))


def contrib(op: str, inputs: list[np.ndarray | None], **attributes: Any) -> bytes:
    return one_node(op, inputs, domain=MICROSOFT, **attributes)


def test_biases_of_diffusion_models() -> None:
    x, bias, skip = f(2, 3, 8), f(8), f(2, 3, 8)
    (got,) = ours(contrib("BiasAdd", [x, bias, skip]), {"x0": x, "x1": bias, "x2": skip})
    assert_close(got, x + bias + skip)
    left, right = torch.tensor(x + bias).chunk(2, -1)
    (got,) = ours(contrib("BiasSplitGelu", [x, bias]), {"x0": x, "x1": bias})
    assert_close(got, (left * torch.nn.functional.gelu(right)).numpy())


@pytest.mark.parametrize("lens", [(), (5,)])
def test_integer_products_to_float(lens: tuple[int, ...]) -> None:
    a, b = RNG.integers(0, 256, (4, 3)).astype(np.uint8), RNG.integers(-128, 128, (3, 5)).astype(np.int8)
    scale = np.asarray(np.abs(f(*lens)), np.float32)
    inputs = [a, b, np.array(0.1, np.float32), scale, np.array(7, np.uint8), np.array(-3, np.int8), f(5)]
    node = helper.make_node("MatMulIntegerToFloat", [f"x{k}" for k in range(7)], ["y0"], domain=MICROSOFT)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    feeds = {f"x{k}": v for k, v in enumerate(inputs)}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()
    ]
    result = helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [result])
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    want = (a.astype(np.int64) - 7) @ (b.astype(np.int64) + 3) * (np.float32(0.1) * scale) + inputs[6]
    assert_close(ours(data, feeds)[0], want.astype(np.float32))
    assert_close(ours(data, feeds)[0], theirs(data, feeds)[0])


@pytest.mark.parametrize("mode", ["reflect", "wrap", "edge"])
def test_padding_longer_than_the_axis(mode: Any) -> None:
    """As NumPy pads: reflect and wrap go on from the other end."""
    x, pads = f(2, 3), np.array([0, 7, 1, 8])
    data = model([helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)], {"x": x}, ["y"], {"p": pads})
    np.testing.assert_array_equal(ours(data, {"x": x})[0], np.pad(x, ((0, 1), (7, 8)), mode))
