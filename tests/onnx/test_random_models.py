"""Random graphs of many operators give onnxruntime's answers on `ref`, a few of them on `cpu` too."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx.one_node import model, ours, theirs
from tests.tiers import few
from tests.tolerances import assert_close

UNARY = [
    "Abs",
    "Neg",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Softsign",
    "Floor",
    "Ceil",
    "Sin",
    "Cos",
    "Softplus",
    "Sign",
]
WITH_ATTRIBUTES = [
    ("LeakyRelu", {"alpha": 0.3}),
    ("Elu", {"alpha": 0.7}),
    ("Selu", {}),
    ("HardSigmoid", {"alpha": 0.3}),
    ("HardSwish", {}),
    ("Softmax", {"axis": 1}),
    ("LogSoftmax", {"axis": -1}),
    ("Gelu", {"approximate": "tanh"}),
    ("ThresholdedRelu", {"alpha": 0.4}),
    ("Celu", {"alpha": 0.8}),
]
BINARY = ["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"]
LENS = (2, 3, 4)


class Graph:
    """Grows by random nodes, every value of lens LENS."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values = ["a", "b"]

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op: str, inputs: list[str], keep: bool = True, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        if keep:
            self.values.append(name)
        return name

    def pick(self) -> str:
        return str(self.rng.choice(self.values))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def grow(self) -> None:
        kinds = [
            self.unary,
            self.attributed,
            self.binary,
            self.broadcast,
            self.moved,
            self.reduced,
            self.product,
            self.shaped,
            self.chosen,
        ]
        kinds[self.rng.integers(len(kinds))]()

    def unary(self) -> None:
        self.add(str(self.rng.choice(UNARY)), [self.pick()])

    def attributed(self) -> None:
        op, attributes = WITH_ATTRIBUTES[self.rng.integers(len(WITH_ATTRIBUTES))]
        self.add(op, [self.pick()], **attributes)

    def binary(self) -> None:
        self.add(str(self.rng.choice(BINARY)), [self.pick(), self.pick()])

    def broadcast(self) -> None:
        lens = [n if self.rng.random() < 0.5 else 1 for n in LENS][self.rng.integers(3) :]
        self.add("Mul", [self.pick(), self.constant(self.rng.normal(size=lens).astype(np.float32))])

    def moved(self) -> None:
        order = [int(d) for d in self.rng.permutation(3)]
        turned = self.add("Transpose", [self.pick()], keep=False, perm=order)
        doubled = self.add("Concat", [turned, turned], keep=False, axis=1)
        back = [order.index(d) for d in range(3)]
        cut = self.add("Slice", [doubled, self.ints(0), self.ints(LENS[order[1]]), self.ints(1)], keep=False)
        self.add("Transpose", [cut], perm=back)

    def reduced(self) -> None:
        op = str(self.rng.choice(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum"]))
        x = self.pick()
        axes = [int(a) for a in self.rng.choice(3, self.rng.integers(1, 3), replace=False)]
        mean = self.add(op, [x, self.ints(*axes)], keep=False, keepdims=1)
        self.add("Sub", [x, mean])

    def product(self) -> None:
        weight = self.constant((self.rng.normal(size=(4, 4)) / 2).astype(np.float32))
        self.add("MatMul", [self.pick(), weight])

    def shaped(self) -> None:
        x = self.pick()
        shape = self.add("Shape", [x], keep=False)
        last = self.add("Gather", [shape, self.ints(2)], keep=False)
        wanted = self.add("Concat", [self.ints(-1), last], keep=False, axis=0)
        flat = self.add("Reshape", [x, wanted], keep=False)
        self.add("Reshape", [flat, shape])

    def chosen(self) -> None:
        x, y = self.pick(), self.pick()
        less = self.add(str(self.rng.choice(["Less", "GreaterOrEqual", "Equal"])), [x, y], keep=False)
        self.add("Where", [less, y, x])


def random_graph(seed: int) -> tuple[bytes, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    graph = Graph(rng)
    inputs = {n: rng.normal(size=LENS).astype(np.float32) for n in ("a", "b")}
    for _ in range(12):
        graph.grow()
    return model(graph.nodes, inputs, graph.values[-3:], graph.constants), inputs


@pytest.mark.parametrize("seed", few(range(40), *range(10)))
def test_random_graph_on_ref(seed):
    data, inputs = random_graph(seed)
    for got, want in zip(ours(data, inputs), theirs(data, inputs), strict=True):
        assert_close(got, want, scale=8)


@pytest.mark.parametrize("seed", few(range(100, 104), 100))
def test_random_graph_on_cpu(seed):
    data, inputs = random_graph(seed)
    for got, want in zip(ours(data, inputs, "cpu"), theirs(data, inputs), strict=True):
        assert_close(got, want, scale=8)
