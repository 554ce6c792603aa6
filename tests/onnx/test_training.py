"""Gradients against torch's, random numbers, and what the standard's suite leaves out of its own operators."""

from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import migraphx
import migraphx.backend as backend
from migraphx.onnx.graph import OnnxError
from tests.onnx.one_node import model, one_node, ours, theirs
from tests.tolerances import assert_close

TRAINING = "ai.onnx.preview.training"
X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
W = np.random.default_rng(6).standard_normal((4, 2)).astype(np.float32)


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any):
    return helper.make_node(op, inputs, outputs, **attributes)


def gradient(nodes: list, inputs: dict, xs: list[str], y: str) -> list[np.ndarray]:
    names = [f"d{x}" for x in xs]
    last = node("Gradient", xs, names, domain=TRAINING, xs=xs, y=y)
    data = backend.onnx.ModelProto.FromString(model([*nodes, last], inputs, names))
    data.opset_import.append(helper.make_opsetid(TRAINING, 1))
    return list(backend.RefBackend.run_model(data, list(inputs.values())))


def test_gradient_of_a_layer():
    bias = np.array([0.3, -0.2], np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Add", ["p", "b"], ["s"]),
        node("Tanh", ["s"], ["t"]),
        node("Sigmoid", ["s"], ["g"]),
        node("Mul", ["t", "g"], ["m"]),
        node("Transpose", ["m"], ["u"]),
        node("Div", ["u", "u2"], ["q"]),
        node("Exp", ["q"], ["y"]),
    ]
    nodes.insert(6, node("Sqrt", ["v"], ["u2"]))
    v = np.abs(np.random.default_rng(7).standard_normal((2, 3))).astype(np.float32) + 1
    given = {"x": X, "w": W, "b": bias, "v": v}
    t = {n: torch.tensor(a, requires_grad=True) for n, a in given.items()}
    s = t["x"] @ t["w"] + t["b"]
    ((torch.tanh(s) * torch.sigmoid(s)).T / t["v"].sqrt()).exp().sum().backward()
    for name, got in zip(given, gradient(nodes, given, list(given), "y"), strict=True):
        want = t[name].grad
        assert want is not None
        assert_close(got, want.numpy(), scale=10)


def test_gradient_without_a_rule_names_the_operator():
    with pytest.raises(OnnxError, match="no derivative of erf"):
        gradient([node("Erf", ["x"], ["y"])], {"x": X}, ["x"], "y")


def test_what_does_not_matter_has_gradient_0():
    (got,) = gradient([node("Neg", ["x"], ["y"]), node("Neg", ["z"], ["u"])], {"x": X, "z": W}, ["z"], "y")
    np.testing.assert_array_equal(got, np.zeros_like(W))


# ---- random numbers ----


def test_uniform_and_normal_numbers():
    def drawn(op: str, **attributes: Any) -> np.ndarray:
        return ours(one_node(op, [], shape=[40, 50], **attributes), {})[0]

    x = drawn("RandomUniform", low=2.0, high=5.0, seed=3.0)
    assert x.dtype == np.float32 and ((x >= 2) & (x < 5)).all() and abs(x.mean() - 3.5) < 0.1
    np.testing.assert_array_equal(x, drawn("RandomUniform", low=2.0, high=5.0, seed=3.0))
    assert (x != drawn("RandomUniform", low=2.0, high=5.0, seed=4.0)).any()
    y = drawn("RandomNormal", mean=1.0, scale=2.0, seed=3.0, dtype=TensorProto.DOUBLE)
    assert y.dtype == np.float64 and abs(y.mean() - 1) < 0.15 and abs(y.std() - 2) < 0.15


def test_draws():
    shares = np.log(np.array([[0.2, 0.5, 0.3]], np.float32)) + 7
    data = one_node("Multinomial", [shares], sample_size=4000, seed=1.0, dtype=TensorProto.INT64)
    (got,) = ours(data, {"x0": shares})
    np.testing.assert_allclose(np.bincount(got[0]) / 4000, [0.2, 0.5, 0.3], atol=0.03)
    often = np.full((50, 40), 0.25, np.float32)
    (got,) = ours(one_node("Bernoulli", [often], seed=2.0), {"x0": often})
    assert set(np.unique(got)) == {0, 1} and abs(got.mean() - 0.25) < 0.05


# ---- shapes of inputs, places of maxima ----


def test_places_of_maxima_by_columns():
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 6)).astype(np.float32)
    x[0] -= 10  # below the padding, were that zeros
    for order in (0, 1):
        window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
        data = one_node("MaxPool", [x], outputs=2, storage_order=order, **window)
        for got, want in zip(ours(data, {"x0": x}), theirs(data, {"x0": x}), strict=True):
            np.testing.assert_array_equal(got, want)


def test_parse_onnx_takes_sequences_by_their_items():
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    graph = helper.make_graph(
        [node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        "small",
        [helper.make_value_info("s", kind)],
        [helper.make_empty_tensor_value_info("y")],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    with pytest.raises(OnnxError, match="'s' is a sequence: give the lens"):
        migraphx.parse_onnx_buffer(data)
    program = migraphx.parse_onnx_buffer(data, map_input_dims={"s": [[2, 3], [1, 3]]})
    assert program.get_parameter_names() == ["s[0]", "s[1]"]
    assert program.get_output_shapes()[0].lens() == [3, 3]
