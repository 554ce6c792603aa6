"""Acc operators: recurrent layers, as torch's own functions take them (nn.LSTM, nn.GRU, nn.RNN)."""

from __future__ import annotations

import torch

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import declare

# `params` are the weights and biases of each layer and direction. Each gives (outputs, last hidden states), the lstm,
# whose `hx` are both first states, the last cell states as well.
for _function in (torch.gru, torch.lstm, torch.rnn_relu, torch.rnn_tanh):
    _arguments = "input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first"
    declare(f"{_function.__name__}({_arguments})", _function)
