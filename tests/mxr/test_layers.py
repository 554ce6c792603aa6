"""Recurrent layers as upstream's programs have them, built and read from files, against torch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import migraphx
from tests.tolerances import assert_close

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 2
LENGTHS = [5, 2, 4]
ORDER = [0, 3, 1, 2]  # of ONNX's gates i, o, f, c among torch's i, f, g, o


def layer() -> torch.nn.LSTM:
    torch.manual_seed(0)
    return torch.nn.LSTM(WIDTH, HIDDEN, bidirectional=True)


def stacked(net: torch.nn.LSTM, *names: str) -> np.ndarray:
    """A parameter of both directions {2, G H, ...}, gates in ONNX's order; of several names, one behind the other."""
    parts = []
    for end in ("", "_reverse"):
        given = [getattr(net, f"{name}_l0{end}").detach().numpy() for name in names]
        parts.append(np.concatenate([np.concatenate([np.split(g, 4)[k] for k in ORDER]) for g in given]))
    return np.stack(parts)


def program(net: torch.nn.LSTM, lengths: bool) -> migraphx.program:
    """All hidden states, the last ones, the last cell states: each taken of the layer itself."""
    p = migraphx.program()
    m, op = p.get_main_module(), migraphx.op
    x = m.add_parameter("x", migraphx.shape("float", [STEPS, BATCH, WIDTH]))
    given = [x, *(m.add_literal(stacked(net, f"weight_{k}h")) for k in "ih")]
    given.append(m.add_literal(stacked(net, "bias_ih", "bias_hh")))
    given += [m.add_literal(np.array(LENGTHS, np.int32))] if lengths else []
    made = m.add_instruction(op("lstm", hidden_size=HIDDEN, direction=op.rnn_direction.bidirectional), given)
    last = [m.add_instruction(op(f"rnn_last_{what}_output"), [made]) for what in ("hs", "cell")]
    m.add_return([made, *last])
    return p


def answers(p: migraphx.program, x: np.ndarray) -> list[np.ndarray]:
    p = p.clone()
    p.compile(migraphx.get_target("ref"))
    return [np.array(r) for r in p.run({"x": x})]


@pytest.mark.parametrize("lengths", [False, True])
def test_an_lstm_is_its_hidden_states(lengths: bool) -> None:
    net, x = layer(), np.random.default_rng(0).standard_normal((STEPS, BATCH, WIDTH)).astype(np.float32)
    given: Any = torch.from_numpy(x)
    if lengths:
        given = torch.nn.utils.rnn.pack_padded_sequence(given, LENGTHS, enforce_sorted=False)
    every, (h, c) = net(given)
    every = torch.nn.utils.rnn.pad_packed_sequence(every)[0] if lengths else every
    p = program(net, lengths)
    programs = [p, *(migraphx.load_buffer(migraphx.save_buffer(p, form)) for form in ("json", "msgpack"))]
    for one in programs:
        hidden, *last = answers(one, x)
        wanted = every.detach().numpy().reshape(STEPS, BATCH, 2, HIDDEN).transpose(0, 2, 1, 3)
        assert_close(hidden, wanted)
        for found, want in zip(last, (h, c), strict=True):
            assert_close(found, want.detach().numpy())


def test_files_hold_the_layer_itself() -> None:
    written = json.loads(migraphx.save_buffer(program(layer(), lengths=False), "json"))
    nodes = {n["name"]: n for n in written["modules"]["main"]["nodes"]}
    lstm = nodes["lstm"]
    assert lstm["shape"]["type"] == "float_type" and lstm["shape"]["lens"] == [STEPS, 2, BATCH, HIDDEN]
    functions = [{"name": name, "operator": {}} for name in ("sigmoid", "tanh", "tanh")]
    assert lstm["operator"]["actv_func"] == functions * 2
    for name in ("rnn_last_hs_output", "rnn_last_cell_output"):
        assert nodes[name]["inputs"] == [lstm["output"]]
    assert "get_tuple_elem" not in nodes


def test_constants_of_activations() -> None:
    p = migraphx.program()
    m = p.get_main_module()
    x, w = (
        m.add_parameter("x", migraphx.shape("float", [2, 1, 3])),
        m.add_parameter("w", migraphx.shape(lens=[1, 2, 3])),
    )
    r = m.add_parameter("r", migraphx.shape("float", [1, 2, 2]))
    attributes = {"hidden_size": 2, "actv_func": ["leaky_relu"], "actv_alpha": [0.5]}
    m.add_return([m.add_instruction(migraphx.op("rnn", **attributes), [x, w, r])])
    written = json.loads(migraphx.save_buffer(p, "json"))
    node = next(n for n in written["modules"]["main"]["nodes"] if n["name"] == "rnn")
    assert node["operator"]["actv_func"] == [{"name": "leaky_relu", "operator": {"alpha": 0.5}}]
    assert migraphx.load_buffer(json.dumps(written).encode()) == p
