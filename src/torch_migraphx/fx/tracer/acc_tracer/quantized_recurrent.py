"""Recurrent layers whose weights are quantized: every step quantizes what it multiplies, as torch's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .proxies import AccTraceError
from .quantized import dynamic, half_linear, linear, quantized


@dataclass(frozen=True)
class Cell:
    """The products of one layer and direction: of its input, and of its state."""

    of_input: Callable[[Any], Any]
    of_state: Callable[[Any], Any]

    @classmethod
    def of(cls, params: Any) -> Cell:
        """From what torch packed; AccTraceError for a kind that is not known."""
        state = params.__getstate__()
        kind, _, _, flags, packed = state[0] if isinstance(state[0], tuple) else state
        if kind == "quantized_dynamic":
            reduced = bool(flags[0])
            inner, outer = ((lambda x, p=p: linear(dynamic(x, reduced), p)) for p in packed)
        elif kind == "quantized_fp16":
            inner, outer = ((lambda x, p=p: half_linear(x, p)) for p in packed)
        else:
            raise AccTraceError(f"recurrent weights of the kind {kind}")
        return cls(inner, outer)


def lstm_step(gates: Any, cell: Any) -> tuple[Any, Any]:
    """The next hidden and cell state from the sum of both products."""
    i, f, g, o = gates.chunk(4, 1)
    new = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(new), new


def gru_step(x: Any, h: Any, state: Any) -> Any:
    """The next state from the products of the input and of the state."""
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
    reset, update = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    new = torch.tanh(xn + reset * hn)
    return (state - new) * update + new


def lstm(
    input: Any, hx: Any, params: Sequence[Any], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool = False, *, dtype: Any = None, use_dynamic: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """torch.quantized_lstm"""
    hidden, cells = hx

    def run(cell: Cell, steps: Any, k: int) -> tuple[list[Any], Any]:
        h, c, outputs = hidden[k], cells[k], []
        for x in steps:
            h, c = lstm_step(x + cell.of_state(h), c)
            outputs.append(h)
        return outputs, (h, c)

    output, last = layers(run, input, params, num_layers, bidirectional, batch_first)
    return output, torch.stack([h for h, _ in last]), torch.stack([c for _, c in last])


def gru(
    input: Any, hx: Any, params: Sequence[Any], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """torch.quantized_gru"""

    def run(cell: Cell, steps: Any, k: int) -> tuple[list[Any], Any]:
        h, outputs = hx[k], []
        for x in steps:
            h = gru_step(x, cell.of_state(h), h)
            outputs.append(h)
        return outputs, h

    output, last = layers(run, input, params, num_layers, bidirectional, batch_first)
    return output, torch.stack(last)


Run = Callable[[Cell, Any, int], tuple[list[Any], Any]]


def layers(
    run: Run, input: Any, params: Sequence[Any], count: int, bidirectional: bool, batch_first: bool
) -> tuple[Any, list[Any]]:
    """The outputs of the last layer and the last states of all; the product of the inputs is one for all steps."""
    x, last = input.transpose(0, 1) if batch_first else input, []
    directions = 2 if bidirectional else 1
    for layer in range(count):
        sides = []
        for direction in range(directions):
            k = layer * directions + direction
            cell = Cell.of(params[k])
            steps = list(cell.of_input(x).unbind(0))
            outputs, state = run(cell, steps[::-1] if direction else steps, k)
            sides.append(torch.stack(outputs[::-1] if direction else outputs))
            last.append(state)
        x = torch.cat(sides, -1) if bidirectional else sides[0]
    return x.transpose(0, 1) if batch_first else x, last


def _products(input: Any, hx: Any, w_ih: Any, w_hh: Any) -> tuple[Any, Any]:
    """Packed weights hold their biases."""
    return linear(dynamic(input, True), w_ih), linear(dynamic(hx, True), w_hh)


def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    x, h = _products(input, hx[0], w_ih, w_hh)
    return lstm_step(x + h, hx[1])


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    return gru_step(*_products(input, hx, w_ih, w_hh), hx)


def rnn_cell(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        x, h = _products(input, hx, w_ih, w_hh)
        return activation(x + h)

    return run


QUANTIZED_RECURRENT: dict[Any, Callable[..., Any]] = {
    torch.quantized_lstm: lstm,
    torch.quantized_gru: gru,
    quantized.quantized_lstm_cell_dynamic: lstm_cell,
    quantized.quantized_gru_cell_dynamic: gru_cell,
    quantized.quantized_rnn_tanh_cell_dynamic: rnn_cell(torch.tanh),
    quantized.quantized_rnn_relu_cell_dynamic: rnn_cell(torch.relu),
}
