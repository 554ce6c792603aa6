"""The pipeline on random graphs: the same answers, whatever meets whatever."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.pipeline import optimize
from tests.passes.checking import checked, program_of

UNARY = ("relu", "abs", "neg", "tanh", "sigmoid", "exp", "floor")
BINARY = ("add", "mul", "sub", "max", "min")
DIMS = (1, 2, 3, 4, 6)


class Grower:
    """Adds random instructions to a graph; every value keeps at most 4 dimensions and stays small."""

    def __init__(self, b: Builder, values: list[Instruction], rng: np.random.Generator) -> None:
        self.b, self.values, self.rng = b, values, rng

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def constant(self, *lens: int) -> Instruction:
        return self.b.literal(self.rng.standard_normal(lens).astype(np.float32))

    def step(self) -> None:
        x = self.pick(self.values)
        kinds = ["unary", "binary", "transpose", "reshape", "slice", "concat", "reduce", "dot",
                 "softmax", "squeeze", "expand", "scale", "convolution"]
        y = getattr(self, self.pick(kinds))(x)
        if y.shape.elements <= 4000 and 1 <= y.shape.ndim <= 5:
            self.values.append(y)

    def unary(self, x):
        return self.b.tanh(getattr(self.b, self.pick(UNARY))(x))

    def binary(self, x):
        same = [v for v in self.values if v.shape.lens == x.shape.lens]
        return getattr(self.b, self.pick(BINARY))(x, self.pick(same))

    def constant_of(self, x):
        lens = [n if self.rng.random() < 0.5 else 1 for n in x.shape.lens]
        return self.b.broadcast_to(self.constant(*lens), x.shape.lens)

    def scale(self, x):
        word = self.pick(("mul", "add", "sub", "div"))
        c = self.b.abs(self.b.full(float(self.rng.integers(1, 5)), x)) if word == "div" else self.constant_of(x)
        return getattr(self.b, word)(x, c)

    def transpose(self, x):
        return self.b.transpose(x, permutation=[int(d) for d in self.rng.permutation(x.shape.ndim)])

    def reshape(self, x):
        left, dims = x.shape.elements, []
        while left > 1 and len(dims) < 3:
            n = self.pick([d for d in range(1, left + 1) if left % d == 0])
            dims, left = [*dims, n], left // n
        return self.b.reshape(x, dims=[*dims, left])

    def slice(self, x):
        axis = int(self.rng.integers(x.shape.ndim))
        start = int(self.rng.integers(x.shape.lens[axis]))
        end = int(self.rng.integers(start + 1, x.shape.lens[axis] + 1))
        return self.b.slice(x, axes=(axis,), starts=(start,), ends=(end,))

    def concat(self, x):
        same = [v for v in self.values if v.shape.lens == x.shape.lens]
        return self.b.concat(x, self.pick(same), axis=int(self.rng.integers(x.shape.ndim)))

    def reduce(self, x):
        axes = [d for d in range(x.shape.ndim) if self.rng.random() < 0.5] or [0]
        small = getattr(self.b, self.pick(("reduce_mean", "reduce_max", "reduce_min")))(x, axes=axes)
        return self.b.sub(x, self.b.broadcast_to(small, x.shape.lens)) if self.rng.random() < 0.5 else small

    def dot(self, x):
        if x.shape.ndim < 2:
            return self.unary(x)
        w = self.constant(x.shape.lens[-1], int(self.pick(DIMS)))
        return self.b.dot(x, self.b.broadcast_to(w, (*x.shape.lens[:-2], *w.shape.lens)))

    def softmax(self, x):
        return self.b.softmax(x, axis=int(self.rng.integers(x.shape.ndim)))

    def squeeze(self, x):
        if self.rng.random() < 0.5 and x.shape.ndim > 1 and 1 in x.shape.lens:
            return self.b.squeeze(x, axes=[x.shape.lens.index(1)])
        return self.b.unsqueeze(x, axes=[int(self.rng.integers(x.shape.ndim + 1))])

    def expand(self, x):
        return self.b.multibroadcast(x, out_lens=[3 if n == 1 else n for n in x.shape.lens])

    def convolution(self, x):
        if x.shape.ndim != 4:
            return self.unary(x)
        return self.b.convolution(x, self.constant(int(self.pick(DIMS)), x.shape.lens[1], 1, 1))


def grow(seed: int):
    rng = np.random.default_rng(seed)

    def build(b: Builder, *parameters: Instruction) -> list[Instruction]:
        grower = Grower(b, list(parameters), rng)
        for _ in range(14):
            grower.step()
        return [v for v in grower.values[len(parameters) :] if not v.users] or [grower.values[-1]]

    return program_of(build, x=(2, 3, 4, 4), y=(2, 3, 4, 4), z=(6, 4))


@pytest.mark.parametrize("seed", range(60))
def test_random_graph(seed: int):
    checked(grow(seed), optimize, scale=100)
