"""Recurrent layers, unrolled over time: RNN, GRU, LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.movement import reverse_sequence
from migraphx.onnx.registry import converter
from migraphx.ops.composites_activation import scaled, shifted

Value = Instruction
Function = Callable[[Value], Value]
Cell = Callable[[Value, list[Value]], list[Value]]
"""(inputs times weights {N, gates * H}, state) -> new state, whose first is the hidden state {N, H}."""

ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Value]]] = {
    "Affine": ((1.0, 0.0), lambda b, x, alpha, beta: shifted(b, scaled(b, x, alpha), beta)),
    "Elu": ((1.0,), lambda b, x, alpha: b.elu(x, alpha=alpha)),
    "HardSigmoid": ((0.2, 0.5), lambda b, x, alpha, beta: b.hardsigmoid(x, alpha=alpha, beta=beta)),
    "LeakyRelu": ((0.01,), lambda b, x, alpha: b.leaky_relu(x, alpha=alpha)),
    "Relu": ((), lambda b, x: b.relu(x)),
    "ScaledTanh": ((1.0, 1.0), lambda b, x, alpha, beta: scaled(b, b.tanh(scaled(b, x, beta)), alpha)),
    "Sigmoid": ((), lambda b, x: b.sigmoid(x)),
    "Softplus": ((), lambda b, x: b.softplus(x)),
    "Softsign": ((), lambda b, x: b.softsign(x)),
    "Tanh": ((), lambda b, x: b.tanh(x)),
    "ThresholdedRelu": ((1.0,), lambda b, x, alpha: b.threshold(x, threshold=alpha, value=0.0)),
}
"""Name -> its constants' defaults, and the function."""


@dataclass(frozen=True)
class Layer:
    """The inputs and attributes that the three layers share."""

    b: OnnxBuilder
    x: Value  # {steps, N, inputs}
    lens: Value | None
    hidden: int
    gates: int
    directions: int
    clip: float | None
    functions: Sequence[Function]

    def part(self, v: Value, k: int) -> Value:
        """The k-th of the parts of length H of v's last dimension."""
        axis, start = v.shape.ndim - 1, k * self.hidden
        return self.b.slice(v, axes=(axis,), starts=(start,), ends=(start + self.hidden,))

    def of(self, v: Value | None, d: int) -> Value | None:
        """Direction d of a parameter or state."""
        if v is None:
            return None
        return self.b.squeeze(self.b.slice(v, axes=(0,), starts=(d,), ends=(d + 1,)), axes=(0,))

    def wide(self, v: Value, like: Value) -> Value:
        return self.b.broadcast_to(v, like.shape.lens)

    def apply(self, k: int, d: int, v: Value) -> Value:
        """Activation k of direction d, the input clipped."""
        each = len(self.functions) // self.directions
        return self.functions[d * each + k](
            v if self.clip is None else self.b.clamp(v, -self.clip, self.clip)
        )


def activations(
    b: OnnxBuilder, names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Function]:
    """The functions by name; those that take constants consume `alphas` and `betas` in turn."""
    left = [list(alphas), list(betas)]
    made: list[Function] = []
    for name in names:
        found = next((n for n in ACTIVATIONS if n.lower() == name.lower()), None)
        if found is None:
            raise OnnxError(f"activation {name!r} is not known: {', '.join(ACTIVATIONS)}")
        defaults, function = ACTIVATIONS[found]
        given = [left[k].pop(0) if left[k] else default for k, default in enumerate(defaults)]
        made.append(lambda x, function=function, given=given: function(b, x, *given))
    return made


def layer(
    b: OnnxBuilder, x: Value, lens: Value | None, gates: int, default: list[str], given: dict[str, Any]
) -> Layer:
    direction = given.get("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise OnnxError(f"direction {direction!r} is not known")
    count = 2 if direction == "bidirectional" else 1
    names = list(given.get("activations") or default * count)
    if len(names) == len(default):
        names *= count
    names = names[: count * len(default)]  # RNN's default is two, also for one direction
    functions = activations(b, names, given.get("activation_alpha", ()), given.get("activation_beta", ()))
    if len(functions) != count * len(default):
        raise OnnxError(f"needs {count * len(default)} activations, has {len(functions)}")
    x = b.transpose(x, permutation=(1, 0, 2)) if given.get("layout") else x
    return Layer(b, x, lens, given["hidden_size"], gates, count, given.get("clip"), functions)


def turned(run: Layer, v: Value) -> Value:
    """{steps, N, ...} in opposite order of time, each item within its own length."""
    if run.lens is None:
        return run.b.reverse(v, axes=(0,))
    return reverse_sequence(run.b, v, run.lens, batch_axis=1, time_axis=0)


def steps(run: Layer, cell: Cell, x: Value, state: list[Value]) -> tuple[list[Value], list[Value]]:
    """The hidden state after each step of x {steps, N, gates * H}, and the last state."""
    b, outputs = run.b, []
    for t in range(x.shape.lens[0]):
        now = b.squeeze(b.slice(x, axes=(0,), starts=(t,), ends=(t + 1,)), axes=(0,))
        fresh = cell(now, state)
        shown = fresh[0]
        if run.lens is not None:
            inside = b.less(b.full(t, run.lens), run.lens)
            mask = b.broadcast_to(b.unsqueeze(inside, axes=(1,)), fresh[0].shape.lens)
            shown = b.where(mask, shown, b.full(0, shown))
            fresh = [b.where(mask, new, old) for new, old in zip(fresh, state, strict=True)]
        state = fresh
        outputs.append(shown)
    return outputs, state


def unrolled(
    run: Layer,
    w: Value,
    bias: Value | None,
    first: Sequence[Value | None],
    reverse: bool,
    cell_of: Callable[[int, Value | None], Cell],
    layout: int,
) -> tuple[Value, ...]:
    """(Y {steps, directions, N, H}, then each state's last value {directions, N, H}).

    `cell_of(d, rb)` makes the cell of a direction; rb are the biases of the recurrence {gates * H}.
    """
    b = run.b
    batch, width = run.x.shape.lens[1], run.gates * run.hidden
    sequences, last = [], []
    for d in range(run.directions):
        backwards = reverse or d == 1
        x = turned(run, run.x) if backwards else run.x
        weights = run.of(w, d)
        assert weights is not None
        projected = b.linear(x, weights)
        both, rb = run.of(bias, d), None
        if both is not None:
            wb = b.slice(both, axes=(0,), starts=(0,), ends=(width,))
            rb = b.slice(both, axes=(0,), starts=(width,), ends=(2 * width,))
            projected = b.add(projected, run.wide(wb, projected))
        zeros = b.multibroadcast(b.literal(np.zeros(1, x.shape.numpy_dtype)), out_lens=(batch, run.hidden))
        turned_first = [
            b.transpose(v, permutation=(1, 0, 2)) if v is not None and layout else v for v in first
        ]
        state = [zeros if v is None else run.of(v, d) or zeros for v in turned_first]
        outputs, state = steps(run, cell_of(d, rb), projected, state)
        stacked = b.concat(*(b.unsqueeze(o, axes=(0,)) for o in outputs), axis=0)
        stacked = turned(run, stacked) if backwards else stacked
        sequences.append(b.unsqueeze(stacked, axes=(1,)))
        last.append([b.unsqueeze(s, axes=(0,)) for s in state])
    y = b.concat(*sequences, axis=1) if run.directions > 1 else sequences[0]
    columns = [list(parts) for parts in zip(*last, strict=True)]
    ends = [b.concat(*parts, axis=0) if run.directions > 1 else parts[0] for parts in columns]
    if layout:
        y = b.transpose(y, permutation=(2, 0, 1, 3))
        ends = [b.transpose(e, permutation=(1, 0, 2)) for e in ends]
    return (y, *ends)


def product(run: Layer, h: Value, weights: Value | None, bias: Value | None) -> Value:
    """h times recurrent weights {M, H} transposed, plus a bias {M}."""
    assert weights is not None
    return run.b.linear(h, weights, bias)


@converter("RNN")
def rnn(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lens: Value | None = None,
    h: Value | None = None,
    **given: Any,
) -> tuple[Value, ...]:
    """h = f(x w + h r + biases)"""
    run = layer(b, x, lens, 1, ["Tanh"], given)

    def cell_of(d: int, rb: Value | None) -> Cell:
        weights = run.of(r, d)
        return lambda now, state: [run.apply(0, d, b.add(now, product(run, state[0], weights, rb)))]

    return unrolled(run, w, bias, [h], given.get("direction") == "reverse", cell_of, given.get("layout", 0))


@converter("GRU")
def gru(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lens: Value | None = None,
    h: Value | None = None,
    *,
    linear_before_reset: int = 0,
    **given: Any,
) -> tuple[Value, ...]:
    """h = (1 - z) g(x + reset * h) + z h, gates in the order z, reset, h (1406.1078)."""
    run = layer(b, x, lens, 3, ["Sigmoid", "Tanh"], given)
    size = run.hidden

    def cell_of(d: int, rb: Value | None) -> Cell:
        weights = run.of(r, d)
        assert weights is not None
        both = b.slice(weights, axes=(0,), starts=(0,), ends=(2 * size,))
        third = b.slice(weights, axes=(0,), starts=(2 * size,), ends=(3 * size,))
        both_bias = None if rb is None else b.slice(rb, axes=(0,), starts=(0,), ends=(2 * size,))
        third_bias = None if rb is None else b.slice(rb, axes=(0,), starts=(2 * size,), ends=(3 * size,))

        def cell(now: Value, state: list[Value]) -> list[Value]:
            gates = product(run, state[0], both, both_bias)
            z = run.apply(0, d, b.add(run.part(now, 0), run.part(gates, 0)))
            reset = run.apply(0, d, b.add(run.part(now, 1), run.part(gates, 1)))
            if linear_before_reset:
                inner = b.mul(reset, product(run, state[0], third, third_bias))
            else:
                inner = product(run, b.mul(reset, state[0]), third, third_bias)
            fresh = run.apply(1, d, b.add(run.part(now, 2), inner))
            return [b.add(b.mul(b.sub(b.full(1, z), z), fresh), b.mul(z, state[0]))]

        return cell

    return unrolled(run, w, bias, [h], given.get("direction") == "reverse", cell_of, given.get("layout", 0))


@converter("LSTM")
def lstm(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lens: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    peepholes: Value | None = None,
    *,
    input_forget: int = 0,
    **given: Any,
) -> tuple[Value, ...]:
    """c = f c + i g(...), h = o k(c), gates in the order i, o, f, c (Hochreiter and Schmidhuber, 1997)."""
    run = layer(b, x, lens, 4, ["Sigmoid", "Tanh", "Tanh"], given)

    def cell_of(d: int, rb: Value | None) -> Cell:
        weights, peep = run.of(r, d), run.of(peepholes, d)

        def with_peep(gate: Value, k: int, cell: Value) -> Value:
            return gate if peep is None else b.add(gate, b.mul(run.wide(run.part(peep, k), cell), cell))

        def cell(now: Value, state: list[Value]) -> list[Value]:
            gates = b.add(now, product(run, state[0], weights, rb))
            i = run.apply(0, d, with_peep(run.part(gates, 0), 0, state[1]))
            f = b.sub(b.full(1, i), i)
            if not input_forget:
                f = run.apply(0, d, with_peep(run.part(gates, 2), 2, state[1]))
            fresh = b.add(b.mul(f, state[1]), b.mul(i, run.apply(1, d, run.part(gates, 3))))
            o = run.apply(0, d, with_peep(run.part(gates, 1), 1, fresh))
            each = len(run.functions) // run.directions
            return [b.mul(o, run.functions[d * each + 2](fresh)), fresh]

        return cell

    return unrolled(
        run, w, bias, [h, c], given.get("direction") == "reverse", cell_of, given.get("layout", 0)
    )
