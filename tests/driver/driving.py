"""The driver in this process, and a small model for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from migraphx.driver.main import main
from tests.onnx.one_node import model, theirs

RNG = np.random.default_rng(11)
WEIGHTS = {"w": RNG.standard_normal((16, 8)).astype(np.float32), "b": RNG.standard_normal(8).astype(np.float32)}
NODES = [
    ("MatMul", ["x", "w"], "h", "fc"),
    ("Add", ["h", "b"], "s", "bias"),
    ("Relu", ["s"], "r", "act"),
    ("Softmax", ["r"], "y", "soft"),
]


@dataclass(frozen=True)
class Answer:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def drive(capsys: pytest.CaptureFixture[str], *words: object) -> Answer:
    """Run `migraphx-driver` with these words."""
    capsys.readouterr()
    code = main([str(w) for w in words])
    out, err = capsys.readouterr()
    return Answer(code, out, err)


def small(folder: Path) -> Path:
    """A layer and a softmax of x {batch, 16}."""
    path = folder / "small.onnx"
    path.write_bytes(small_bytes())
    return path


def small_bytes() -> bytes:
    nodes = [helper.make_node(op, inputs, [output], name=name) for op, inputs, output, name in NODES]
    return model(nodes, {"x": (1, ["batch", 16])}, ["y"], WEIGHTS)


def wanted(x: np.ndarray) -> np.ndarray:
    """onnxruntime's answer."""
    return theirs(small_bytes(), {"x": x})[0]
