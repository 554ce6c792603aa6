"""Weights are views of the mapped file where they are aligned, and never read before they are needed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import migraphx
from migraphx.ir.dtype import NUMPY_TYPES
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.model import Tensors, aligned, read, read_buffer
from migraphx.onnx.wire import encoded, varint, without_weights
from tests.onnx.one_node import model

SOURCE = Path(__file__).resolve().parents[2] / "src"


def big(dtype: type = np.float32) -> tuple[bytes, np.ndarray]:
    weight = np.random.default_rng(0).integers(0, 100, (64, 96)).astype(dtype)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, {"x": np.ones((2, 64), dtype)}, ["y"], {"w": weight, "small": np.ones(3, dtype)}), weight


def test_engine_does_not_import_onnx():
    code = "import sys, migraphx; print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE, check=True)
    assert done.stdout.strip() == "False"


def test_skeleton_and_weights_make_the_model():
    data, weight = big()
    skeleton, weights = without_weights(memoryview(data))
    assert list(weights) == [0] and weights[0] == weight.tobytes()
    assert len(skeleton) < len(data) - weight.nbytes
    message = onnx.ModelProto.FromString(skeleton)
    assert [t.name for t in message.graph.initializer] == ["w", "small"]
    message.graph.initializer[0].raw_data = bytes(weights[0])
    assert message == onnx.ModelProto.FromString(data)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1])
def test_varint(value):
    text = encoded(value)
    assert varint(memoryview(text), 0, len(text)) == (value, len(text))
    with pytest.raises(ValueError, match="truncated"):
        varint(memoryview(text), 0, len(text) - 1)


@pytest.mark.parametrize("shift", range(4))
def test_aligned_weights_share_the_buffer(shift):
    """The model moved by `shift` bytes: one of four positions is aligned and then not copied."""
    data, weight = big()
    buffer = np.zeros(len(data) + 8, np.uint8)
    buffer[shift : shift + len(data)] = np.frombuffer(data, np.uint8)
    moved = memoryview(buffer.data)[shift : shift + len(data)]
    got = read_buffer(moved).graph.initializers["w"]  # type: ignore[arg-type]
    np.testing.assert_array_equal(got, weight)
    at = without_weights(moved)[1][0]
    address = np.frombuffer(at, np.uint8).__array_interface__["data"][0]
    assert np.shares_memory(got, buffer) == (address % 4 == 0)
    assert got.flags.aligned


def test_external_weights_are_views_of_one_mapping(tmp_path):
    data, weight = big()
    onnx.save(
        onnx.ModelProto.FromString(data),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=100,
    )
    loaded = read(tmp_path / "m.onnx")
    got = loaded.graph.initializers["w"]
    np.testing.assert_array_equal(got, weight)
    assert not got.flags.owndata and not got.flags.writeable
    program = migraphx.parse_onnx(tmp_path / "m.onnx")
    (literal,) = (i for i in program.get_main_module() if i.name() == "@literal")
    assert not literal.get_literal().array.flags.owndata


def test_aligned():
    whole = np.zeros(3, np.float32)
    assert aligned(whole) is whole
    shifted = np.ndarray((2,), np.float32, memoryview(bytearray(13)), offset=1)
    assert aligned(shifted).flags.aligned and aligned(shifted) is not shifted


TYPES = [
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.INT8,
    TensorProto.UINT16,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E5M2,
]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_tensor(kind, raw):
    values = np.array([[0, 1, 3], [1, 0, 2]]).astype(helper.tensor_dtype_to_np_dtype(kind))
    vals = values.tobytes() if raw else values.astype(np.float64).ravel().tolist()
    tensor = helper.make_tensor("t", kind, (2, 3), vals, raw=raw)
    got = Tensors(None).array(tensor)
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got.astype(float), values.astype(float))


def test_four_bit_tensors():
    values = numpy_helper.from_array(np.array([-8, 7, 3], np.int8).astype(helper.tensor_dtype_to_np_dtype(22)), "t")
    got = Tensors(None).array(values)
    assert got.dtype == NUMPY_TYPES["int4"]
    np.testing.assert_array_equal(got.astype(np.int8), [-8, 7, 3])


def test_strings_pass_through():
    words = np.array(["a", "b"], object)
    array = Tensors(None).array(numpy_helper.from_array(words, "t"))
    nodes = [helper.make_node("Identity", ["t"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    with pytest.raises(OnnxError, match=r"Relu.*is a tensor of strings"):
        migraphx.parse_onnx_buffer(model(nodes, {}, ["z"], {"t": array}))
