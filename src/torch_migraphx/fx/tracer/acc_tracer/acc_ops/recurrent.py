"""Acc operators: recurrent layers, as torch's own functions take them (nn.LSTM, nn.GRU, nn.RNN)."""

from __future__ import annotations

from typing import Any

import torch

from ..acc_normalizer import acc_op


@acc_op(torch.gru)
def gru(
    *,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """GRU layers: (outputs, last hidden states); `params` are each layer's and direction's weights and biases."""
    return torch.gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@acc_op(torch.lstm)
def lstm(
    *,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """LSTM layers: (outputs, last hidden states, last cell states); `hx` are both first states."""
    return torch.lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@acc_op(torch.rnn_relu)
def rnn_relu(
    *,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Elman layers with relu: (outputs, last hidden states)."""
    return torch.rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@acc_op(torch.rnn_tanh)
def rnn_tanh(
    *,
    input: Any,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Elman layers with tanh: (outputs, last hidden states)."""
    return torch.rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
