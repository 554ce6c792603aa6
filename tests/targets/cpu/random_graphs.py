"""Random graphs over the operators that passes rewrite and fuse."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction

UNARY = ("relu", "tanh", "sigmoid", "neg", "abs", "erf", "gelu", "silu")
BINARY = ("add", "mul", "sub", "max", "min")


class RandomGraph:
    """Grows a pool of values of modest size; every step applies one operator that fits."""

    def __init__(self, b: Builder, inputs: list[Instruction], seed: int) -> None:
        self.b, self.pool, self.rng = b, list(inputs), np.random.default_rng(seed)

    def grow(self, steps: int) -> list[Instruction]:
        """Add `steps` values; returns those that nothing uses, and a few others."""
        moves = [m for name, m in sorted(vars(type(self)).items()) if name.startswith("do_")]
        while steps:
            made = moves[int(self.rng.integers(len(moves)))](self, self.pick())
            if made is not None and 0 < made.shape.elements <= 20000:
                self.pool.append(made)
                steps -= 1
        ends = [p for p in self.pool if not p.users]
        return ends + [self.pick() for _ in range(2)]

    def pick(self) -> Instruction:
        recent = self.pool[-6:] if self.rng.random() < 0.7 else self.pool
        return recent[int(self.rng.integers(len(recent)))]

    def weight(self, *lens: int) -> Instruction:
        return self.b.literal((self.rng.standard_normal(lens) * 0.4).astype(np.float32))

    def dim(self, x: Instruction) -> int:
        return int(self.rng.integers(x.shape.ndim))

    def do_unary(self, x: Instruction) -> Instruction:
        return getattr(self.b, UNARY[int(self.rng.integers(len(UNARY)))])(x)

    def do_binary(self, x: Instruction) -> Instruction | None:
        y = self.pick()
        try:
            np.broadcast_shapes(x.shape.lens, y.shape.lens)
        except ValueError:
            return None
        return getattr(self.b, BINARY[int(self.rng.integers(len(BINARY)))])(*self.b.common(x, y))

    def do_constant(self, x: Instruction) -> Instruction:
        lens = [n if self.rng.random() < 0.6 else 1 for n in x.shape.lens]
        return getattr(self.b, BINARY[int(self.rng.integers(len(BINARY)))])(*self.b.common(x, self.weight(*lens)))

    def do_reduce(self, x: Instruction) -> Instruction:
        name = ("reduce_sum", "reduce_mean", "reduce_max")[int(self.rng.integers(3))]
        axes = [d for d in range(x.shape.ndim) if self.rng.random() < 0.5] or [self.dim(x)]
        return getattr(self.b, name)(x, axes=tuple(axes))

    def do_softmax(self, x: Instruction) -> Instruction:
        return self.b.softmax(x, axis=self.dim(x))

    def do_norm(self, x: Instruction) -> Instruction:
        n = x.shape.lens[-1]
        return self.b.layer_norm(x, self.weight(n), self.weight(n), axes=(-1,), epsilon=0.1)

    def do_transpose(self, x: Instruction) -> Instruction:
        return self.b.transpose(x, permutation=tuple(int(d) for d in self.rng.permutation(x.shape.ndim)))

    def do_reshape(self, x: Instruction) -> Instruction:
        lens = [n for n in x.shape.lens if n > 1] or [1]
        cut = int(self.rng.integers(len(lens)))
        merged = [int(np.prod(lens[: cut + 1])), *lens[cut + 1 :]]
        return self.b.reshape(x, dims=tuple(merged + [1] * max(0, 2 - len(merged))))

    def do_slice(self, x: Instruction) -> Instruction | None:
        d = self.dim(x)
        n = x.shape.lens[d]
        if n < 2:
            return None
        start = int(self.rng.integers(0, n - 1))
        return self.b.slice(x, axes=(d,), starts=(start,), ends=(int(self.rng.integers(start + 1, n + 1)),))

    def do_concat(self, x: Instruction) -> Instruction | None:
        d = self.dim(x)
        rest = x.shape.lens[:d] + x.shape.lens[d + 1 :]
        fits = [p for p in self.pool if p.shape.ndim == x.shape.ndim]
        fits = [p for p in fits if p.shape.lens[:d] + p.shape.lens[d + 1 :] == rest]
        others = [fits[int(self.rng.integers(len(fits)))] for _ in range(2)]
        return self.b.concat(*others, x, axis=d)

    def do_dot(self, x: Instruction) -> Instruction:
        k, n = x.shape.lens[-1], int(self.rng.integers(1, 40))
        lead = x.shape.lens[:-2]
        w = self.weight(k, n)
        return self.b.dot(x, self.b.broadcast_to(w, (*lead, k, n)) if lead else w)

    def do_self_dot(self, x: Instruction) -> Instruction:
        order = (*range(x.shape.ndim - 2), x.shape.ndim - 1, x.shape.ndim - 2)
        return self.b.mul(
            *self.b.common(self.b.dot(x, self.b.transpose(x, permutation=order)), self.b.literal(np.float32(0.1)))
        )

    def do_convolution(self, x: Instruction) -> Instruction | None:
        if x.shape.ndim != 4 or min(x.shape.lens[2:]) < 3:
            return None
        c, k = x.shape.lens[1], int(self.rng.choice([1, 3]))
        group = c if self.rng.random() < 0.3 else 1
        oc = c if group > 1 else int(self.rng.integers(1, 40))
        return self.b.convolution(
            x, self.weight(oc, c // group, k, k), padding=(k // 2,) * 2, stride=(1, 1), dilation=(1, 1), group=group
        )

    def do_pool(self, x: Instruction) -> Instruction | None:
        if x.shape.ndim != 4 or min(x.shape.lens[2:]) < 3:
            return None
        mode = ("max", "average")[int(self.rng.integers(2))]
        return self.b.pooling(x, mode=mode, lengths=(2, 2), stride=(2, 2), padding=(0, 0), dilations=(1, 1))

    def do_pad(self, x: Instruction) -> Instruction:
        pads = tuple(int(n) for n in self.rng.integers(0, 2, 2 * x.shape.ndim))
        return self.b.pad(x, pads=pads, value=0.5)
