"""RNN, GRU and LSTM give onnxruntime's answers."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import migraphx
from tests.onnx.one_node import model, one_node, ours, theirs
from tests.tiers import few_rows
from tests.tolerances import assert_close

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPTIONS = {
    "RNN": [{}, {"activations": ["Relu"]}, {"clip": 0.3}],
    "GRU": [
        {},
        {"linear_before_reset": 1},
        {"activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.3, 0.1]},
    ],
    "LSTM": [{}, {"peepholes": True}, {"clip": 0.2}, {"input_forget": 1}],
}
CASES = [(op, options) for op, every in OPTIONS.items() for options in every]


def layer(
    rng: np.random.Generator, op: str, options: dict[str, Any], direction: str, lens: bool
) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    """Inputs and attributes of one node."""
    d, g = 2 if direction == "bidirectional" else 1, GATES[op]

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    inputs = [
        normal(STEPS, BATCH, INPUTS),
        normal(d, g * HIDDEN, INPUTS),
        normal(d, g * HIDDEN, HIDDEN),
        normal(d, 2 * g * HIDDEN),
        np.array([5, 2, 3], np.int32) if lens else None,
        normal(d, BATCH, HIDDEN),
    ]
    attributes = {"hidden_size": HIDDEN, "direction": direction, **options}
    if op == "LSTM":
        inputs.append(normal(d, BATCH, HIDDEN))
    if attributes.pop("peepholes", False):
        inputs.append(normal(d, 3 * HIDDEN))
    for name in ("activations", "activation_alpha"):
        if name in attributes:
            attributes[name] = attributes[name] * d
    return inputs, attributes


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lens", [False, True])
@pytest.mark.parametrize(("op", "options"), CASES)
def test_layer(op, options, lens, direction):
    inputs, attributes = layer(np.random.default_rng(0), op, options, direction, lens)
    data = one_node(op, inputs, 3 if op == "LSTM" else 2, **attributes)
    given = {f"x{k}": v for k, v in enumerate(inputs) if v is not None}
    for got, want in zip(ours(data, given), theirs(data, given), strict=True):
        assert_close(got, want, scale=4)


@pytest.mark.parametrize(
    ("direction", "lens"), few_rows([("forward", True), ("reverse", True), ("bidirectional", False)], ("forward", True))
)
def test_layers_on_cpu(direction, lens):
    """All options in one program; weights are constants, as in models."""
    rng, nodes, given, constants, outputs = np.random.default_rng(1), [], {}, {}, []
    for n, (op, options) in enumerate(CASES):
        inputs, attributes = layer(rng, op, options, direction, lens)
        names = ["" if v is None else f"n{n}x{k}" for k, v in enumerate(inputs)]
        made = [f"n{n}y{k}" for k in range(3 if op == "LSTM" else 2)]
        nodes.append(helper.make_node(op, names, made, **attributes))
        outputs += made
        for k, v in enumerate(inputs):
            if v is not None:
                (constants if k in (1, 2, 3, 7) else given)[names[k]] = v
    data = model(nodes, given, outputs, constants)
    for got, want in zip(ours(data, given, "cpu"), theirs(data, given), strict=True):
        assert_close(got, want, scale=4)


@pytest.mark.parametrize("op", GATES)
def test_layers_of_constants_and_of_steps_known_in_a_run(op):
    """A layer all of whose inputs are known is no constant that the reader could compute by itself."""
    inputs, attributes = layer(np.random.default_rng(2), op, {}, "bidirectional", False)
    names = ["" if v is None else f"x{k}" for k, v in enumerate(inputs)]
    given = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    data = model([helper.make_node(op, names, ["y"], **attributes)], {}, ["y"], given)
    (want,) = theirs(data, {})
    assert_close(ours(data, {})[0], want, scale=4)
    x = ("x0", TensorProto.FLOAT, ["steps", BATCH, INPUTS])
    node = helper.make_node(op, names, ["y"], **attributes)
    data = model([node], {x[0]: x[1:]}, ["y"], {n: v for n, v in given.items() if n != "x0"})
    steps = migraphx.shape.dynamic_dimension(1, 8)
    assert_close(ours(data, {"x0": given["x0"]}, default_dyn_dim_value=steps)[0], want, scale=4)


@pytest.mark.parametrize("op", GATES)
def test_hidden_size_that_only_the_weights_tell(op):
    inputs, attributes = layer(np.random.default_rng(2), op, {}, "forward", True)
    given = {f"x{k}": v for k, v in enumerate(inputs) if v is not None}
    (want,) = ours(one_node(op, inputs, **attributes), given)
    del attributes["hidden_size"]
    np.testing.assert_array_equal(ours(one_node(op, inputs, **attributes), given)[0], want)


def test_unknown_activation():
    inputs = [np.ones((1, 1, 1), np.float32)] * 3
    with pytest.raises(ValueError, match="'sharp' is not known"):
        ours(one_node("RNN", list(inputs), hidden_size=1, activations=["Sharp"]), {})


def test_direction_that_opset_3_misspells() -> None:
    """Its schema's default for GRU is 'foward'."""
    rng = np.random.default_rng(5)
    lens = ((3, 2, 4), (1, 9, 4), (1, 9, 3))
    arrays: list[np.ndarray | None] = [rng.standard_normal(s).astype(np.float32) for s in lens]
    inputs = {f"x{k}": a for k, a in enumerate(arrays) if a is not None}
    (old, new) = (ours(one_node("GRU", arrays, opset=v, hidden_size=3), inputs)[0] for v in (3, 7))
    np.testing.assert_array_equal(old, new)
