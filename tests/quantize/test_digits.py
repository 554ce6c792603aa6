"""A small trained network on real digits: every quantized form against float, and against exact integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from torch import nn

import migraphx
from tests.onnx.exact_integers import exact
from tests.tiers import few_rows

datasets = pytest.importorskip("sklearn.datasets")
BATCH = 256


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """8 x 8 pictures {N, 1, 8, 8} from 0 to 1, and what they show."""
    found = datasets.load_digits()
    return (found.images[:, None] / 16).astype(np.float32), found.target


@pytest.fixture(scope="module")
def float_model(digits: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained network as ONNX, for BATCH pictures."""
    x, y = (torch.from_numpy(a[BATCH:]) for a in digits)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        with torch.enable_grad():
            for k in range(60):
                loss = nn.functional.cross_entropy(net(x[k % 4 :: 4]), y[k % 4 :: 4])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    path = tmp_path_factory.mktemp("digits") / "float.onnx"
    onnx.save(as_onnx(net), path)
    return path


def as_onnx(net: nn.Sequential) -> onnx.ModelProto:
    nodes, tensors, at = [], [], "x"
    names = {nn.Conv2d: "Conv", nn.ReLU: "Relu", nn.MaxPool2d: "MaxPool", nn.Flatten: "Flatten", nn.Linear: "Gemm"}
    for k, layer in enumerate(net):
        attributes: dict[str, Any] = {"pads": [1, 1, 1, 1]} if isinstance(layer, nn.Conv2d) else {}
        attributes |= {"transB": 1} if isinstance(layer, nn.Linear) else {}
        attributes |= {"kernel_shape": [2, 2], "strides": [2, 2]} if isinstance(layer, nn.MaxPool2d) else {}
        weights = [(f"{n}{k}", p.detach().numpy()) for n, p in layer.named_parameters()]
        tensors += [numpy_helper.from_array(value, name) for name, value in weights]
        nodes.append(helper.make_node(names[type(layer)], [at, *(n for n, _ in weights)], [f"h{k}"], **attributes))
        at = f"h{k}"
    x, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, lens) for n, lens in
              (("x", (BATCH, 1, 8, 8)), (at, (BATCH, 10))))  # fmt: skip
    graph = helper.make_graph(nodes, "digits", [x], [out], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


class Reader(CalibrationDataReader):
    def __init__(self, batch: np.ndarray) -> None:
        self.batches = [{"x": batch}]

    def get_next(self) -> Any:
        return self.batches.pop() if self.batches else None


def ours(path: Path, x: np.ndarray, quantize: str = "", calibration: np.ndarray | None = None) -> np.ndarray:
    program = migraphx.parse_onnx(str(path))
    if calibration is not None:
        migraphx.quantize_int8(program, migraphx.get_target("cpu"), [{"x": calibration}])
    elif quantize:
        getattr(migraphx, quantize)(program)
    program.compile(migraphx.get_target("cpu"))
    return np.array(program.run({"x": x})[0])


def theirs(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def decibels(got: np.ndarray, want: np.ndarray) -> float:
    with np.errstate(divide="ignore"):  # where they are equal
        return float(20 * np.log10(np.linalg.norm(want) / np.linalg.norm(got - want)))


def agreement(got: np.ndarray, want: np.ndarray) -> float:
    """The share of pictures of which both say the same."""
    return float((got.argmax(1) == want.argmax(1)).mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantize", "least"),
    [("quantize_int4_weights", 15), ("quantize_int8", 28)],
)
def test_ours(digits: tuple[np.ndarray, np.ndarray], float_model: Path, quantize: str, least: float) -> None:
    x, labels = digits[0][:BATCH], digits[1][:BATCH]
    want = theirs(float_model, x)
    assert (want.argmax(1) == labels).mean() > 0.9
    calibration = digits[0][BATCH : 2 * BATCH] if quantize == "quantize_int8" else None
    got = ours(float_model, x, quantize, calibration)
    assert decibels(got, want) > least
    assert agreement(got, want) > 0.97


@pytest.mark.parametrize(
    ("form", "activation", "weights", "channels"),
    few_rows(
        [
            (QuantFormat.QDQ, QuantType.QUInt8, QuantType.QInt8, True),
            (QuantFormat.QDQ, QuantType.QUInt8, QuantType.QUInt8, False),
            (QuantFormat.QOperator, QuantType.QUInt8, QuantType.QInt8, True),
            (None, QuantType.QUInt8, QuantType.QUInt8, False),
        ],
        at=[0],
    ),
    ids=["qdq", "qdq unsigned weights", "operators", "dynamic"],
)
def test_models_of_onnxruntime(
    digits: tuple[np.ndarray, np.ndarray], float_model: Path, tmp_path: Path, form: QuantFormat | None,
    activation: QuantType, weights: QuantType, channels: bool,
) -> None:  # fmt: skip
    path, x = tmp_path / "int8.onnx", digits[0][:BATCH]
    if form is None:
        quantize_dynamic(float_model, path, weight_type=weights)
    else:
        reader = Reader(digits[0][BATCH : 2 * BATCH])
        quantize_static(
            float_model, path, reader, quant_format=form, activation_type=activation, weight_type=weights,
            per_channel=channels,
        )  # fmt: skip
    got, (want,) = ours(path, x), exact(str(path), {"x": x})
    assert decibels(got, theirs(float_model, x)) > 20
    assert decibels(got, want) > 35  # where a rounding falls on the other side, it is one step
    assert agreement(got, want) > 0.99
