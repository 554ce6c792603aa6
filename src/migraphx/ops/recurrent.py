"""Recurrent layers (ONNX RNN, GRU, LSTM), what they mean as loops, and the operators round sequences of unequal length.

Shapes: T steps, N sequences, I inputs, H hidden, D directions (2 where `direction` is bidirectional, else 1), G gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import ModuleArgument, Operation, RunModule, Value
from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open
from migraphx.ops.composites.activation import scaled, shifted
from migraphx.ops.open_values import open_literal

Function = Callable[[Builder, Instruction], Instruction]
DIRECTIONS = ("forward", "reverse", "bidirectional")

Activation = (
    Callable[[Builder, Instruction], Instruction]
    | Callable[[Builder, Instruction, float], Instruction]
    | Callable[[Builder, Instruction, float, float], Instruction]
)
ACTIVATIONS: dict[str, tuple[tuple[float, ...], Activation]] = {
    "affine": ((1.0, 0.0), lambda b, x, alpha, beta: shifted(b, scaled(b, x, alpha), beta)),
    "elu": ((1.0,), lambda b, x, alpha: b.elu(x, alpha=alpha)),
    "hardsigmoid": ((0.2, 0.5), lambda b, x, alpha, beta: b.hardsigmoid(x, alpha=alpha, beta=beta)),
    "leaky_relu": ((0.01,), lambda b, x, alpha: b.leaky_relu(x, alpha=alpha)),
    "relu": ((), lambda b, x: b.relu(x)),
    "scaled_tanh": ((1.0, 1.0), lambda b, x, alpha, beta: scaled(b, b.tanh(scaled(b, x, beta)), alpha)),
    "sigmoid": ((), lambda b, x: b.sigmoid(x)),
    "softplus": ((), lambda b, x: b.softplus(x)),
    "softsign": ((), lambda b, x: b.softsign(x)),
    "tanh": ((), lambda b, x: b.tanh(x)),
    "thresholded_relu": ((1.0,), lambda b, x, alpha: b.threshold(x, threshold=alpha, value=0.0)),
}
"""Name -> its constants' defaults, and the function."""


@dataclass(frozen=True)
class Cell:
    """One direction of a layer inside its loop: `b` writes there.

    Its recurrent weights r {G H, H}, the biases {G H} that stay in the loop, and peepholes {3 H}.
    """

    op: Recurrent
    b: Builder
    direction: int
    r: Instruction
    bias: Instruction | None
    peepholes: Instruction | None

    def part(self, v: Instruction, first: int, count: int = 1) -> Instruction:
        return part(self.b, v, self.op.hidden_size, first, count)

    def product(self, h: Instruction, first: int, count: int) -> Instruction:
        """h times the recurrent weights of some gates."""
        size = self.op.hidden_size
        whole = count * size == self.r.shape.lens[0]
        some = [first * size], [(first + count) * size]
        return self.b.linear(h, self.r if whole else self.b.slice(self.r, axes=(0,), starts=some[0], ends=some[1]))

    def apply(self, k: int, v: Instruction, clipped: bool = True) -> Instruction:
        """Activation k, its input clipped."""
        clip = self.op.clip if clipped else 0.0
        return self.op.function(self.direction, k)(self.b, self.b.clamp(v, -clip, clip) if clip else v)

    def one_minus(self, v: Instruction) -> Instruction:
        return self.b.sub(self.b.full(1, v), v)


def part(b: Builder, v: Instruction, size: int, first: int, count: int = 1) -> Instruction:
    """`count` of v's last dimension's parts of that size, from number `first` on."""
    return b.slice(v, axes=(v.shape.ndim - 1,), starts=(first * size,), ends=((first + count) * size,))


def of_direction(b: Builder, v: Instruction | None, d: int) -> Instruction | None:
    """Row d of a parameter or state."""
    return None if v is None else b.squeeze(b.slice(v, axes=(0,), starts=(d,), ends=(d + 1,)), axes=(0,))


class Recurrent(Operation):
    """Base of the layers.

    Inputs: x {T, N, I}, weights {D, G H, I}, recurrent weights {D, G H, H}; then, where given: biases {D, 2 G H},
    lengths {N} of integers, first hidden state {D, N, H}, and more; `undefined` for one that is left out.
    `clip` of 0 is none. `actv_func` names the activations of each direction, or of one for both; those that take
    constants consume `actv_alpha` and `actv_beta` in turn.
    """

    hidden_size: int = 1
    actv_func: tuple[str, ...] = ()
    direction: str = "forward"
    clip: float = 0.0
    actv_alpha: tuple[float, ...] = ()
    actv_beta: tuple[float, ...] = ()

    gates: ClassVar[int] = 1
    default: ClassVar[tuple[str, ...]] = ("tanh",)
    states: ClassVar[int] = 1
    most: ClassVar[int] = 6

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r} is not known: {', '.join(DIRECTIONS)}")
        for name in self.actv_func:
            if name not in ACTIVATIONS:
                raise ValueError(f"activation {name!r} is not known: {', '.join(ACTIVATIONS)}")
        if len(self.actv_func) not in (0, len(self.default), self.directions * len(self.default)):
            count = self.directions * len(self.default)
            raise ValueError(f"needs {count} activations, has {len(self.actv_func)}")

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def backwards(self, d: int) -> bool:
        return self.direction == "reverse" or d == 1

    def function(self, d: int, k: int) -> Function:
        """Activation k of direction d."""
        names = self.actv_func or self.default
        names = names if len(names) > len(self.default) else names * self.directions
        left = [list(self.actv_alpha), list(self.actv_beta)]
        made: list[Function] = []
        for name in names:
            defaults, function = ACTIVATIONS[name]
            given = [left[n].pop(0) if left[n] else default for n, default in enumerate(defaults)]
            made.append(lambda b, x, function=function, given=given: function(b, x, *given))
        return made[d * len(self.default) + k]

    def infer(self, *inputs: Shape) -> Shape:
        self.require(3 <= len(inputs) <= self.most, inputs, f"takes 3 to {self.most} inputs, got {len(inputs)}")
        x, *rest = inputs
        self.require(x.ndim == 3 and x.type in dtypes.FLOATS, inputs, "x must be floats {steps, batch, inputs}")
        steps, batch, width = x.lens
        d, h = self.directions, self.hidden_size
        wide = self.gates * h
        wanted = [(d, wide, width), (d, wide, h), (d, 2 * wide), (batch,), (d, batch, h), (d, batch, h), (d, 3 * h)]
        for k, (shape, lens) in enumerate(zip(rest, wanted, strict=False)):
            absent = k > 1 and shape.type == "tuple"
            right = shape.type in (("int32", "int64") if k == 3 else (x.type,))
            self.require(absent or (right and shape.lens == lens), inputs, f"input {k + 1} must be {list(lens)}")
        out = Shape(x.type, (steps, d, batch, h))
        return out if self.states == 1 else Shape.tuple_of([out] * self.states)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        """What `in_loops` writes: the operator's meaning is written once."""
        module = Module(self.name)
        given: list[Value] = []
        inputs: list[Instruction | None] = []
        for k, a in enumerate(args):
            inputs.append(None if isinstance(a, tuple) else module.add_parameter(f"x{k}", shape_of(a)))
            given += [] if isinstance(a, tuple) else [a]
        module.add_return(self.in_loops(Builder(module), inputs))
        made = run(module, given)
        return made[0] if self.states == 1 else tuple(made)

    def in_loops(self, b: Builder, inputs: Sequence[Instruction | None]) -> list[Instruction]:
        """Every state after every step, {T, D, N, H} each: the hidden state, then others; one loop a direction.

        The inputs' product with the weights is one dot ahead of the loop. Sequences are not masked in the loop: one
        that is read backwards is moved to the end, and what comes of the steps beyond its length is cut off.
        """
        x, w, r, bias, lens, *first = [*inputs, *[None] * (self.most - len(inputs))]
        assert x is not None
        peepholes = first[self.states] if len(first) > self.states else None
        made: list[list[Instruction]] = []
        for d in range(self.directions):
            moved = x if lens is None or not self.backwards(d) else b.rnn_var_sl_shift_sequence(x, lens)
            weights, recurrent = of_direction(b, w, d), of_direction(b, r, d)
            assert weights is not None and recurrent is not None
            outside, inside = self.biases(b, of_direction(b, bias, d))
            projected = b.linear(moved, weights, outside)
            state = [of_direction(b, v, d) or zeros(b, x, self.hidden_size) for v in first[: self.states]]
            cell = Cell(self, b, d, recurrent, inside, of_direction(b, peepholes, d))
            made.append(self.one_loop(cell, projected, state))
        columns = [[b.unsqueeze(v, axes=(1,)) for v in column] for column in zip(*made, strict=True)]
        joined = [b.concat(*column, axis=1) if len(column) > 1 else column[0] for column in columns]
        if lens is not None:
            joined = [b.rnn_var_sl_shift_output(v, lens, direction=self.direction) for v in joined]
        return joined

    def one_loop(self, cell: Cell, projected: Instruction, state: Sequence[Instruction]) -> list[Instruction]:
        """The states {T, N, H} of one direction; `projected` {T, N, G H}, and `cell` as it is ahead of the loop."""
        b, steps, back = cell.b, projected.shape.lens[0], int(self.backwards(cell.direction))
        body = Module(fresh_name(b.module, self.name))
        number, going = body.add_parameter("step", Shape("int64")), body.add_parameter("condition", Shape("bool"))
        now = [body.add_parameter(f"state{k}", v.shape.as_standard()) for k, v in enumerate(state)]
        inner = Builder(body, origin=b.origin)
        row = inner.squeeze(inner.scan_slice(projected, number, axis=0, direction=back), axes=(0,))
        fresh = self.cell(replace(cell, b=inner), row, now)
        body.add_return([going, *fresh, *fresh])
        trips = b.module.add_open_literal(open_literal([steps]), b.origin) if is_open(steps) else b.literal([steps])
        given = [trips, b.literal(np.array([True])), *state]
        ways = (back,) * len(state)
        made = b.loop(*given, modules=[body], max_iterations=steps, scan_output_directions=ways)
        return b.outputs(made, 2 * len(state))[len(state) :]

    def biases(self, b: Builder, both: Instruction | None) -> tuple[Instruction | None, Instruction | None]:
        """The biases {G H} that are added ahead of the loop, and those that stay in it."""
        if both is None:
            return None, None
        width = self.gates * self.hidden_size
        return b.add(part(b, both, width, 0), part(b, both, width, 1)), None

    def cell(self, c: Cell, now: Instruction, state: Sequence[Instruction]) -> list[Instruction]:
        """The states after a step; `now` {N, G H} is what comes from its input."""
        raise NotImplementedError


class Rnn(Recurrent, name="rnn"):
    """h = f(x w + h r + biases) (ONNX RNN, aten::rnn_tanh); every step's h {T, D, N, H}."""

    def cell(self, c: Cell, now: Instruction, state: Sequence[Instruction]) -> list[Instruction]:
        return [c.apply(0, c.b.add(now, c.product(state[0], 0, 1)))]


class Gru(Recurrent, name="gru"):
    """h = (1 - z) g(x + reset * h) + z h, gates in the order z, reset, h (1406.1078; ONNX GRU); every step's h.

    `linear_before_reset`: the reset gate multiplies h's product with its weights instead of h (as aten::gru does).
    """

    linear_before_reset: bool = False

    gates: ClassVar[int] = 3
    default: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh")

    def biases(self, b: Builder, both: Instruction | None) -> tuple[Instruction | None, Instruction | None]:
        if both is None or not self.linear_before_reset:
            return super().biases(b, both)
        h = self.hidden_size
        w, r = part(b, both, 3 * h, 0), part(b, both, 3 * h, 1)
        none = b.full(0, part(b, r, h, 2))
        return b.add(w, b.concat(part(b, r, h, 0, 2), none, axis=0)), part(b, r, h, 2)

    def cell(self, c: Cell, now: Instruction, state: Sequence[Instruction]) -> list[Instruction]:
        b, (h,) = c.b, state
        if self.linear_before_reset:
            product = c.product(h, 0, 3)
            gates, third = c.part(product, 0, 2), c.part(product, 2)
            third = third if c.bias is None else b.add(third, b.broadcast_to(c.bias, third.shape.lens))
        else:
            gates, third = c.product(h, 0, 2), None
        gates = c.apply(0, b.add(c.part(now, 0, 2), gates))
        z, reset = c.part(gates, 0), c.part(gates, 1)
        third = b.mul(reset, third) if third is not None else c.product(b.mul(reset, h), 2, 1)
        fresh = c.apply(1, b.add(c.part(now, 2), third))
        return [b.add(b.mul(c.one_minus(z), fresh), b.mul(z, h))]


class Lstm(Recurrent, name="lstm"):
    """c = f c + i g(...), h = o k(c), gates in the order i, o, f, c (Hochreiter and Schmidhuber, 1997; ONNX LSTM).

    Further inputs: the first cell state {D, N, H}, peepholes {D, 3 H} for i, o, f. The result is a tuple: every
    step's h and c, {T, D, N, H} each. `input_forget`: f is 1 - i.
    """

    input_forget: bool = False

    gates: ClassVar[int] = 4
    default: ClassVar[tuple[str, ...]] = ("sigmoid", "tanh", "tanh")
    states: ClassVar[int] = 2
    most: ClassVar[int] = 8

    def cell(self, c: Cell, now: Instruction, state: Sequence[Instruction]) -> list[Instruction]:
        b, (h, cell) = c.b, state
        gates = b.add(now, c.product(h, 0, 4))

        def gate(k: int, seen: Instruction) -> Instruction:
            v = c.part(gates, k)
            if c.peepholes is not None:
                v = b.add(v, b.mul(b.broadcast_to(c.part(c.peepholes, k), seen.shape.lens), seen))
            return c.apply(0, v)

        i = gate(0, cell)
        f = c.one_minus(i) if self.input_forget else gate(2, cell)
        fresh = b.add(b.mul(f, cell), b.mul(i, c.apply(1, c.part(gates, 3))))
        return [b.mul(gate(1, fresh), c.apply(2, fresh, clipped=False)), fresh]


def zeros(b: Builder, x: Instruction, hidden: int) -> Instruction:
    """The first state where none is given."""
    return b.multibroadcast(b.literal(np.zeros(1, x.shape.numpy_dtype)), out_lens=(x.shape.lens[1], hidden))


def shape_of(array: np.ndarray) -> Shape:
    return Shape(dtypes.from_numpy(array.dtype), array.shape)


def fresh_name(module: Module, stem: str) -> str:
    """A name for a new module inside this one: main:lstm0, ..."""
    used = {m.name for ins in module for m in ins.modules}
    return next(name for n in range(len(used) + 1) if (name := f"{module.name}:{stem}{n}") not in used)


class Sequences(Operation):
    """Base of what takes x {T, ...} and lengths."""

    arity = 2

    def check(self, inputs: Sequence[Shape], ndim: int, batch: int) -> tuple[Shape, Shape]:
        x, lens = inputs
        self.require(x.ndim >= ndim, inputs, f"x must have rank {ndim}")
        right = lens.type in ("int32", "int64") and lens.lens == (x.lens[batch],)
        self.require(right, inputs, "takes one length, int32 or int64, for each sequence")
        return x, lens


class ShiftSequence(Sequences, name="rnn_var_sl_shift_sequence"):
    """x {T, N, ...}: the first lengths[n] steps of each sequence moved to the end, 0 before."""

    def infer(self, *inputs: Shape) -> Shape:
        return self.check(inputs, 2, 1)[0].as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, lens = args
        out = np.zeros_like(x, order="C")
        for n, k in enumerate(np.clip(lens, 0, len(x))):
            out[len(x) - k :, n] = x[:k, n]
        return out


class ShiftOutput(Sequences, name="rnn_var_sl_shift_output"):
    """x {T, D, N, H}, 0 beyond lengths[n].

    Of a direction that is read backwards the last steps are moved to the front first. `output_name` says what it is.
    """

    output_name: str = "hidden_states"
    direction: str = "forward"

    def infer(self, *inputs: Shape) -> Shape:
        return self.check(inputs, 4, 2)[0].as_standard()

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, lens = args
        out = np.zeros_like(x, order="C")
        for d in range(x.shape[1]):
            back = self.direction == "reverse" or d == 1
            for n, k in enumerate(np.clip(lens, 0, len(x))):
                out[:k, d, n] = x[len(x) - k :, d, n] if back else x[:k, d, n]
        return out


class LastOutput(Sequences, name="rnn_var_sl_last_output"):
    """x {T, D, N, H}, as rnn_var_sl_shift_output gives it: each direction's last step, {D, N, H}."""

    data_movement = True
    direction: str = "forward"

    def infer(self, *inputs: Shape) -> Shape:
        x, _ = self.check(inputs, 4, 2)
        self.require(x.lens[0] > 0, inputs, "no step")
        return Shape(x.type, x.lens[1:])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, lens = args
        at = np.clip(lens - 1, 0, len(x) - 1)
        out = [
            x[0, d] if self.direction == "reverse" or d == 1 else x[at, d, np.arange(x.shape[2])]
            for d in range(x.shape[1])
        ]
        return np.stack(out)


class LastState(Operation):
    """Base of what takes the last step of each direction of x {T, D, N, H}: {D, N, H}."""

    arity = 1
    data_movement = True
    direction: str = "forward"

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.ndim == 4 and x.lens[0] > 0, inputs, "takes {steps, directions, batch, hidden}")
        return Shape(x.type, x.lens[1:])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        return np.stack([x[0 if self.direction == "reverse" or d == 1 else -1, d] for d in range(x.shape[1])])


class LastHidden(LastState, name="rnn_last_hs_output"):
    """The hidden state after the last step of each direction, of all steps' {T, D, N, H}: {D, N, H}."""


class LastCell(LastState, name="rnn_last_cell_output"):
    """The cell state after the last step of each direction, of all steps' {T, D, N, H}: {D, N, H}."""
