"""Nodes not quite as the standard has them: read as what they mean, logged once a file, refused by `strict`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import migraphx
from migraphx.driver.main import main
from tests.onnx.one_node import model, ours
from tests.tolerances import assert_close

RNG = np.random.default_rng(7)


def f(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Odd:
    """A node, its inputs (those in `constants` are initializers), and what it means."""

    op: str
    inputs: list[np.ndarray]
    want: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    constants: tuple[int, ...] = ()
    domain: str = ""

    def model(self) -> tuple[bytes, dict[str, np.ndarray]]:
        names = [f"x{k}" for k in range(len(self.inputs))]
        node = helper.make_node(self.op, names, ["y0"], name="it", domain=self.domain, **self.attributes)
        given = dict(zip(names, self.inputs, strict=True))
        constants = {names[k]: self.inputs[k] for k in self.constants}
        feeds = {n: a for n, a in given.items() if n not in constants}
        return model([node], feeds, ["y0"], constants, self.opset), feeds


X = f(2, 3, 4)
IMAGE = f(1, 2, 3, 3)
Q, P = RNG.integers(0, 256, (2, 2, 4)).astype(np.uint8)
S = np.array(0.1, np.float32)
TEN = np.array(10, np.uint8)


def requantized(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / 0.1) + 10, 0, 255).astype(np.uint8)


TWICE = np.repeat(np.repeat(IMAGE, 2, 2), 2, 3)
UP_DOWN = np.array([1, -1], np.float32)
ONE, ZERO = np.ones(2, np.float32), np.zeros(2, np.float32)
WAVE = f(1, 8)
SPECTRUM = np.fft.rfft(WAVE).astype(np.complex64).view(np.float32).reshape(1, 1, 5, 2)
WIDE = (Q.astype(np.float32) - 10) * S

ODD = [
    # attributes and inputs of other opsets
    Odd("Squeeze", [X[:, :1]], X[:, 0], {"axes": [1]}),
    Odd("Unsqueeze", [X], X[:, None], {"axes": [1]}),
    Odd("ReduceSum", [X], X.sum(1, keepdims=True), {"axes": [1]}),
    Odd("ReduceMax", [X], X.max((0, 2)), {"axes": [0, 2], "keepdims": 0}, 20),
    Odd("ReduceMean", [X, ints(1)], X.mean(1, keepdims=True), {}, 13, (1,)),
    Odd("TopK", [X], -np.sort(-X, -1)[..., :2], {"k": 2}),
    Odd("Pad", [X], np.pad(X, ((0, 0), (0, 0), (1, 2))), {"pads": [0, 0, 1, 0, 0, 2]}, 18),
    Odd("Slice", [X], X[:, 1:3], {"starts": [1], "ends": [3], "axes": [1]}, 13),
    Odd("Split", [X], X, {"split": [3], "axis": 1}, 18),
    Odd("Clip", [X], np.clip(X, -0.5, 0.5), {"min": -0.5, "max": 0.5}, 13),
    Odd("Dropout", [X], X, {"ratio": 0.4}, 13),
    Odd("Upsample", [IMAGE], TWICE, {"scales": [1.0, 1.0, 2.0, 2.0]}, 10),
    Odd("Upsample", [IMAGE], TWICE, {"height_scale": 2.0, "width_scale": 2.0}, 9),
    Odd("Upsample", [IMAGE, np.array([1, 1, 2, 2], np.float32)], TWICE, {}, 7, (1,)),
    Odd("Resize", [IMAGE, np.array([1, 1, 2, 2], np.float32)], TWICE, {"mode": "nearest"}, 11, (1,)),
    Odd("Resize", [IMAGE, np.array([1, 1, 2, 2], np.float32)], TWICE, {"mode": "nearest"}, 13, (1,)),
    Odd("BatchNormalization", [IMAGE, ONE, ZERO, ZERO, ONE], IMAGE, {"spatial": 1, "epsilon": 0.0}, 15),
    Odd("BatchNormalization", [IMAGE, ONE, ZERO, ZERO, ONE], IMAGE, {"is_test": 1, "epsilon": 0.0}, 15),
    Odd("QuantizeLinear", [ints(3, -4).astype(np.int32), S], np.array([30, 0], np.uint8), {}, 21),
    # operators that a later opset brought
    Odd("LayerNormalization", [X, np.ones(4, np.float32)], (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True),
        {"epsilon": 0.0}, 11),
    Odd("Trilu", [X], np.triu(X), {}, 13),
    Odd("CumSum", [X, np.array(1)], X.cumsum(1), {}, 9, (1,)),
    Odd("NegativeLogLikelihoodLoss", [X[0], ints(0, 3, 1)], -X[0][np.arange(3), [0, 3, 1]].mean(), {}, 11),
    Odd("Unique", [ints(3, 1, 3)], ints(1, 3), {}, 10, (0,)),
    # one number where a list of one is meant, a signal without its last dimension
    Odd("ReduceSum", [X, np.array(1)], X.sum(1, keepdims=True), {}, 13, (1,)),
    Odd("Conv", [IMAGE, IMAGE], np.sum(IMAGE * IMAGE).reshape(1, 1, 1, 1), {"auto_pad": "VALID", "pads": [0] * 4}),
    Odd("STFT", [WAVE, np.array(8), np.ones(8, np.float32)], SPECTRUM, {}, 17, (1, 2)),
    # values of other kinds
    Odd("LeakyRelu", [X], np.where(X < 0, 2 * X, X), {"alpha": 2}),
    Odd("Softmax", [X], np.exp(X) / np.exp(X).sum(1, keepdims=True), {"axis": [1]}),
    Odd("Concat", [X, X], np.concatenate([X, X], 2), {"axis": [2]}),
    Odd("Gemm", [X[0], X[0].T], 2 * X[0] @ X[0].T, {"alpha": [2.0]}),
    Odd("Squeeze", [X[:, :1]], X[:, 0], {"axes": 1}, 11),
    # operators of other domains
    Odd("QLinearAdd", [Q, S, TEN, P, S, TEN, S, TEN], requantized(WIDE + (P.astype(np.float32) - 10) * S)),
    Odd("QLinearSigmoid", [Q, S, TEN, S, TEN], requantized(1 / (1 + np.exp(-WIDE)))),
    Odd("BiasAdd", [X, X[0, 0], X], 2 * X + X[0, 0]),
    Odd("Inverse", [np.eye(3, dtype=np.float32) * 2], np.eye(3, dtype=np.float32) / 2),
    Odd("ImageScaler", [IMAGE], IMAGE * 2 + UP_DOWN[:, None, None], {"scale": 2.0, "bias": UP_DOWN.tolist()}),
    Odd("ConstantFill", [ints(2, 3)], np.full((2, 3), 7, np.float32), {"value": 7.0, "input_as_shape": 1}, 6, (0,)),
    # types that operators do not take, or not together
    Odd("Add", [X, X.astype(np.float64)], X + X.astype(np.float64)),
    Odd("Mean", [np.arange(6, dtype=np.int32), np.arange(6, dtype=np.int32)], np.arange(6, dtype=np.int32)),
    Odd("Gather", [X, np.array([1, 0], np.int32)], X[[1, 0]], {"axis": [0]}),
    Odd("Tile", [X, ints(2), ints(-1)], np.tile(X, (1, 1, 2)), {}, 1, (1, 2)),
    # lens
    Odd("PRelu", [X[0], X[:, :1]], np.where(X[0] < 0, X[0] * X[:, :1], X[0])),
    Odd("Clip", [X, X[0, :1]], np.maximum(X, X[0, :1]), {}, 13),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=[f"{k}-{o.op}" for k, o in enumerate(ODD)])
def test_meant_and_refused_where_strict(odd: Odd, caplog: pytest.LogCaptureFixture) -> None:
    data, feeds = odd.model()
    with caplog.at_level(logging.WARNING, "migraphx"):
        (got, *_) = ours(data, feeds)
    (line,) = [r.getMessage() for r in caplog.records]
    assert odd.op in line and "strict=True refuses it" in line
    assert_close(got, odd.want)
    with pytest.raises(ValueError, match=odd.op):
        migraphx.parse_onnx_buffer(data, strict=True)


def test_one_line_for_a_file(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["a"], name="first", alpha=1),
        helper.make_node("ReduceSum", ["a"], ["b"], name="second", axes=[1]),
        helper.make_node("Relu", ["b"], ["y"], name="third"),
    ]
    data = model(nodes, {"x": X}, ["y"])
    with caplog.at_level(logging.WARNING, "migraphx"):
        migraphx.parse_onnx_buffer(data)
    (line,) = [r.getMessage() for r in caplog.records]
    assert "first" in line and "'alpha' must be FLOAT, is INT" in line and "and 1 more" in line
    (tmp_path / "odd.onnx").write_bytes(data)
    assert main(["read", str(tmp_path / "odd.onnx")]) == 0
    assert main(["read", str(tmp_path / "odd.onnx"), "--strict"]) != 0
    assert "'alpha' must be FLOAT, is INT" in capsys.readouterr().err


def test_what_is_as_the_standard_has_it_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    leaky = Odd("LeakyRelu", [X], np.where(X < 0, 2 * X, X), {"alpha": 2.0})
    for odd in (leaky, Odd("Squeeze", [X[:, :1]], X[:, 0], {"axes": [1]}, 11)):
        data, feeds = odd.model()
        assert_close(ours(data, feeds, strict=True)[0], odd.want)
    assert not caplog.records


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("Relu", {"alpha": 1.0}, "has no attribute 'alpha'"),
        ("LeakyRelu", {"alpha": "1"}, "'alpha' must be FLOAT, is STRING"),
        ("LeakyRelu", {"alpha": [1.0, 2.0]}, "'alpha' must be FLOAT, is FLOATS"),
        ("Softmax", {"axis": 1.0}, "'axis' must be INT, is FLOAT"),
        ("Squeeze", {"axes": [0], "k": 1}, "has no attribute"),
    ],
)
def test_what_has_no_plain_meaning(op: str, attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        migraphx.parse_onnx_buffer(Odd(op, [X], X, attributes).model()[0])
