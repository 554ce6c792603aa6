"""Random programs over the operators, tame enough that two targets must agree on them.

Every value is computed by NumPy while the graph grows, once as it is and once with noise of a rounding or two on what
rounds. A step stays only where its value is finite and the noise has not grown: comparisons, conversions to integers
and indices then depend on numbers that both targets have exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, ShapeError, Value
from migraphx.ir.shape import Shape, standard_strides, strided
from migraphx.ops.pointwise import Pointwise
from migraphx.targets.ref.evaluate import evaluate

Values = dict[Instruction, Value]
TYPES = ("float",) * 10 + ("double", "half", "half", "bf16", "int32", "int64", "int64", "int8", "uint8", "bool", "bool")
RARE_TYPES = ("int16", "uint16", "uint32", "uint64")
LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33)
LARGEST = 1e4
MOST_ELEMENTS = 12_000
ROUNDED = 4.0  # roundings of noise on every value that is not a whole number of 64ths
TAME = 0.01  # noise of a value, at most this share of the largest element
Step = Callable[["Graph", Instruction], Any]
"""Called with a graph and one of its values, adds others made of it; ShapeError where it cannot."""


class Graph:
    """Grows a pool of values in a module, with what they are for `arguments`."""

    def __init__(self, module: Module, name: str, rng: np.random.Generator, types: Sequence[str] = TYPES) -> None:
        self.module, self.name, self.b, self.rng, self.types = module, name, Builder(module), rng, types
        self.values: Values = {}
        self.noisy: Values = {}
        self.arguments: dict[str, np.ndarray] = {}
        self.pool: list[Instruction] = []
        self.branches: list[Module] = []  # of its instructions
        self.outputs: list[Instruction] = []

    # ---- chance ----

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def upto(self, most: int, least: int = 0) -> int:
        if most < least:
            raise ShapeError("nothing to choose from")
        return int(self.rng.integers(least, most + 1))

    def axis(self, x: Instruction) -> int:
        if not x.shape.ndim:
            raise ShapeError("a scalar has no axis")
        return self.upto(x.shape.ndim - 1)

    def axes(self, x: Instruction) -> tuple[int, ...]:
        return tuple(d for d in range(x.shape.ndim) if self.chance(0.4)) or (self.axis(x),)

    # ---- values ----

    def numbers(self, type: str, lens: Sequence[int], whole: bool | None = None) -> np.ndarray:
        dtype = dtypes.to_numpy(type)
        if type in dtypes.FLOATS and not (self.chance(0.3) if whole is None else whole):
            return np.asarray(self.rng.standard_normal(lens)).astype(dtype)
        if type == "bool":
            return self.rng.integers(0, 2, lens).astype(dtype)
        quarters = type in dtypes.FLOATS
        low, high = (-12, 13) if quarters else (0 if type in dtypes.UNSIGNED else -4, 5)
        if type in dtypes.INTEGERS and self.chance(0.1):
            low, high = (int(n) for n in (ml_dtypes.iinfo(dtype).min // 2, ml_dtypes.iinfo(dtype).max // 2))
        made = self.rng.integers(low, high, lens)
        return np.asarray(made / 4 if quarters else made).astype(dtype)

    def parameter(self, shape: Shape, value: np.ndarray | None = None) -> Instruction:
        name = f"{self.name}.{len(self.arguments)}"
        made = self.numbers(shape.type, shape.lens) if value is None else value
        self.arguments[name] = at_strides(made, shape)
        return self.keep(self.module.add_parameter(name, shape))

    def literal(self, array: np.ndarray) -> Instruction:
        return self.keep(self.b.literal(array))

    def weight(self, type: str, *lens: int) -> Instruction:
        """A literal, or a parameter so that it is not constant."""
        return self.literal(self.numbers(type, lens)) if self.chance(0.8) else self.parameter(Shape(type, lens))

    def choose(self, *types: str) -> Instruction:
        """A value, of these types if there is one; rather a recent one."""
        fits = [p for p in self.pool if not types or p.shape.type in types]
        if not fits:
            raise ShapeError("no such value")
        return self.pick(fits[-6:] if self.chance(0.7) else fits)

    def keep(self, ins: Instruction) -> Instruction:
        """Compute an instruction; ShapeError where its value is not tame."""
        if isinstance(ins.op, (Parameter, Literal)):
            value = self.arguments[ins.op.parameter] if isinstance(ins.op, Parameter) else ins.op.value
            self.values[ins], self.noisy[ins] = value, self.shaken(value)
            return ins
        with np.errstate(all="ignore"):
            value, noisy = self.computed(ins, self.values), self.computed(ins, self.noisy)
            if ins.shape.type != "tuple":
                noisy = noisy if ins.op.view else self.shaken(noisy, not isinstance(ins.op, Pointwise))
                if not tame(value, noisy):
                    raise ShapeError("the value is not tame")
        self.values[ins], self.noisy[ins] = value, noisy
        return ins

    @staticmethod
    def computed(ins: Instruction, values: Values) -> Value:
        def run(inner: Module, args: Sequence[Value]) -> list[Value]:
            return evaluate(inner, dict(zip(inner.parameters, args, strict=True)), outer=values)

        return ins.op.compute_with([values[i] for i in ins.inputs], ins.modules, run)

    def shaken(self, value: np.ndarray, sums: bool = False) -> np.ndarray:
        """With noise of ROUNDED roundings, unless every number is one of few bits; of `sums`, of the largest one's."""
        if dtypes.from_numpy(value.dtype) not in dtypes.FLOATS:
            return value
        wide = value.astype(np.float64)
        if (np.abs(wide) < 4096).all() and (wide * 64 == np.rint(wide * 64)).all():
            return value
        epsilon = float(ml_dtypes.finfo(value.dtype).eps)
        size = np.abs(wide).max(initial=0.0) if sums else wide
        return (wide + size * ROUNDED * epsilon * (self.rng.random(wide.shape) - 0.5)).astype(value.dtype)

    # ---- growing ----

    def grow(self, steps: Sequence[Step], count: int) -> list[Instruction]:
        """Take `count` steps that fit; what nothing uses then, and a few others."""
        for _ in range(40 * count + 100):
            count -= self.grown_by(self.pick(steps))
            if not count:
                break
        return [p for p in self.pool if not p.users] + [self.choose() for _ in range(2)]

    def grown_by(self, take: Step) -> bool:
        """One step; nothing is left of one that is not kept, but parameters."""
        before = set(self.module)
        try:
            made = take(self, self.choose())
            for ins in [i for i in self.module if i not in before and i not in self.values]:
                self.keep(ins)
        except (ShapeError, IndexError):
            for ins in reversed([i for i in self.module if i not in before and not isinstance(i.op, Parameter)]):
                self.module.remove(ins)
            return False
        results = [made] if isinstance(made, Instruction) else list(made)
        fits = [r for r in results if r.shape.ndim <= 6 and r.shape.elements <= MOST_ELEMENTS]
        self.pool += [r for r in fits if r.shape.elements or self.chance(0.1)]
        return bool(fits)


def tame(value: np.ndarray, noisy: np.ndarray) -> bool:
    """Finite, not large, and as good as without noise; integers are the same."""
    type = dtypes.from_numpy(value.dtype)
    if type not in dtypes.FLOATS:
        return bool((value == noisy).all())
    value, noisy = value.astype(np.float64), noisy.astype(np.float64)
    if not np.isfinite(value).all() or not np.isfinite(noisy).all():
        return False
    largest = np.abs(value).max(initial=0.0)
    share = TAME * min(1.0, float(ml_dtypes.finfo(dtypes.to_numpy(type)).eps) / 1e-5)
    return largest <= LARGEST and bool((np.abs(value - noisy) <= share * largest).all())


def at_strides(values: np.ndarray, shape: Shape) -> np.ndarray:
    """The values in memory as the shape says; where a stride is 0, the last ones count."""
    made = strided(np.zeros(shape.element_space, values.dtype), shape)
    made[...] = values
    return made


def random_shape(rng: np.random.Generator, types: Sequence[str] = TYPES, ndim: int | None = None) -> Shape:
    """Any type and lens; sometimes transposed, or with gaps, or broadcast, or empty."""
    ndim = int(rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 5])) if ndim is None else ndim
    type = str(rng.choice([*types, *RARE_TYPES] if rng.random() < 0.1 else types))
    lens = [int(rng.choice(LENGTHS)) for _ in range(ndim)]
    while np.prod(lens, dtype=np.int64) > 4000:
        lens[int(np.argmax(lens))] //= 2
    if ndim and rng.random() < 0.03:
        lens[int(rng.integers(ndim))] = 0
    kind = rng.random()
    if kind < 0.7 or not ndim:
        return Shape(type, tuple(lens))
    if kind < 0.85:
        order = rng.permutation(ndim)
        strides = standard_strides([lens[d] for d in order])
        return Shape(type, tuple(lens), tuple(strides[list(order).index(d)] for d in range(ndim)))
    if kind < 0.95:
        return Shape(type, tuple(lens), tuple(2 * s for s in standard_strides(lens)))
    return Shape(type, tuple(lens), tuple(s * int(rng.integers(2)) for s in standard_strides(lens)))
