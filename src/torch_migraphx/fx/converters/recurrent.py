"""Recurrent layers: one `lstm`, `gru` or `rnn` a layer, both directions in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Value, lens
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten
LSTM = 2
"""The number of an lstm among the kinds of layers that oneDNN has."""
GATES = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""torch's gates (reset, update, new; input, forget, cell, output) in the order of ONNX."""


def _layers(
    b: Builder, op: str, input: Value, states: Sequence[Value], params: Any, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool, **attributes: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """(outputs of the last layer {T, N, D H}, then each state's last value {layers D, N, H})"""
    if not isinstance(params, list | tuple):
        raise UnsupportedError(f"{op} of a packed sequence")
    if train and dropout:
        raise UnsupportedError(f"{op} with dropout in training")
    directions, each = 1 + bidirectional, 4 if has_biases else 2
    if len(params) != each * directions * num_layers:
        raise UnsupportedError(f"{op} with projections")
    x = b.permute(input, [1, 0, 2]) if batch_first else input
    ends: list[list[Value]] = []
    for layer in range(num_layers):
        first = layer * directions
        own = [params[each * k : each * (k + 1)] for k in range(first, first + directions)]
        now = [b.cut(s, 0, first, first + directions) for s in states]
        every, last = _layer(b, op, x, own, now, **attributes)
        steps, _, batch, hidden = lens(every)
        x = b.view(b.permute(every, [0, 2, 1, 3]), [steps, batch, directions * hidden])
        ends.append(last)
    joined = [b.concat(*s, axis=0) if num_layers > 1 else s[0] for s in zip(*ends, strict=True)]
    return (b.permute(x, [1, 0, 2]) if batch_first else x, *joined)


def _layer(
    b: Builder, op: str, x: Value, params: Sequence[Sequence[Value]], states: Sequence[Value], **attributes: Any
) -> tuple[Value, list[Value]]:
    """All hidden states {T, D, N, H}, and each state's last value {D, N, H}."""

    def stacked(k: int) -> Value:
        parts = [b.unsqueeze(_ordered(b, op, of[k]), axes=[0]) for of in params]
        return b.concat(*parts, axis=0) if len(parts) > 1 else parts[0]

    bias = b.concat(stacked(2), stacked(3), axis=1) if len(params[0]) > 2 else b.undefined()
    direction = "bidirectional" if len(params) > 1 else "forward"
    made = getattr(b, op)(
        x, stacked(0), stacked(1), bias, b.undefined(), *states,
        hidden_size=lens(states[0])[2], direction=direction, **attributes,
    )  # fmt: skip
    if op != "lstm":
        return made, [b.rnn_last_hs_output(made, direction=direction)]
    every, cells = b.get_tuple_elem(made, index=0), b.get_tuple_elem(made, index=1)
    ends = [b.rnn_last_hs_output(every, direction=direction), b.rnn_last_cell_output(cells, direction=direction)]
    return every, ends


def _ordered(b: Builder, op: str, weights: Value) -> Value:
    """A parameter {G H, ...} with its gates in ONNX's order."""
    order = GATES[op]
    size = lens(weights)[0] // len(order)
    return b.concat(*(b.cut(weights, 0, k * size, (k + 1) * size) for k in order), axis=0) if order[1:] else weights


def _recurrent(op: str, **attributes: Any) -> Callable[..., tuple[Value, ...]]:
    def convert(
        b: Builder, input: Value, hx: Any, params: Any, has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Value, ...]:  # fmt: skip
        several = isinstance(hx, list | tuple)
        if op == "lstm" and not several:
            raise UnsupportedError("lstm of a packed sequence")
        return _layers(
            b, op, input, hx if several else [hx], params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first, **attributes,
        )  # fmt: skip

    return convert


converter(acc_ops.lstm, aten.lstm.input)(_recurrent("lstm"))
converter(acc_ops.gru, aten.gru.input)(_recurrent("gru", linear_before_reset=True))
converter(acc_ops.rnn_tanh, aten.rnn_tanh.input)(_recurrent("rnn"))
converter(acc_ops.rnn_relu, aten.rnn_relu.input)(_recurrent("rnn", actv_func=["relu"]))


@converter(aten.mkldnn_rnn_layer.default)
def mkldnn_rnn_layer(
    b: Builder, input: Value, weight0: Value, weight1: Value, weight2: Value, weight3: Value, hx_: Value, cx_: Value,
    reverse: bool, batch_sizes: Sequence[int], mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Value, Value, Value, Value]:  # fmt: skip
    """One direction of one layer, as torch writes an lstm for its own kernel: (outputs, both last states, nothing)."""
    if mode != LSTM or num_layers != 1 or bidirectional or batch_first or train or batch_sizes:
        raise UnsupportedError("an mkldnn_rnn_layer that is not one direction of an lstm in inference")
    x = b.reverse(input, axes=[0]) if reverse else input
    params = [weight0, weight1, *([weight2, weight3] if has_biases else [])]
    every, (hidden, cell) = _layer(b, "lstm", x, [params], [hx_, cx_])
    outputs = b.squeeze(every, axes=[1])
    outputs = b.reverse(outputs, axes=[0]) if reverse else outputs
    return outputs, hidden, cell, b.full(0, torch.uint8, [0])
