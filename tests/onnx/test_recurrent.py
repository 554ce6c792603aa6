"""RNN, GRU and LSTM give onnxruntime's answers."""

import numpy as np
import pytest

from tests.onnx.one_node import one_node, ours, theirs
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


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lens", [False, True])
@pytest.mark.parametrize(("op", "options"), CASES)
def test_layer(op, options, lens, direction):
    rng = np.random.default_rng(0)
    d, g = 2 if direction == "bidirectional" else 1, GATES[op]

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    inputs = [
        normal(STEPS, BATCH, INPUTS),
        normal(d, g * HIDDEN, INPUTS),
        normal(d, g * HIDDEN, HIDDEN),
        normal(d, 2 * g * HIDDEN),
        np.array([5, 2, 3], np.int32) if lens else None,
        normal(d, BATCH, HIDDEN),
    ]
    attributes = dict(options)
    if op == "LSTM":
        inputs.append(normal(d, BATCH, HIDDEN))
    if attributes.pop("peepholes", False):
        inputs.append(normal(d, 3 * HIDDEN))
    for name in ("activations", "activation_alpha"):
        if name in attributes:
            attributes[name] = attributes[name] * d
    data = one_node(
        op, inputs, 3 if op == "LSTM" else 2, hidden_size=HIDDEN, direction=direction, **attributes
    )
    given = {f"x{k}": v for k, v in enumerate(inputs) if v is not None}
    for got, want in zip(ours(data, given), theirs(data, given), strict=True):
        assert_close(got, want, scale=4)


def test_unknown_activation():
    inputs = [np.ones((1, 1, 1), np.float32)] * 3
    with pytest.raises(ValueError, match="'sharp' is not known"):
        ours(one_node("RNN", list(inputs), hidden_size=1, activations=["Sharp"]), {})
