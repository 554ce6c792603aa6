"""Functions of two values that take many steps for some elements and few for others: NumPy computes them.

Series run until their terms are too small to matter, which no kernel of a fixed number of steps does.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape

STEPS = 20_000  # a series of igamma takes some square roots of its order
TINY = 1e-300
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
    854513 / 138, -236364091 / 2730,
)  # fmt: skip
ZETA_FROM = 10.0  # where the series' rest is that of Euler and Maclaurin, to double's precision
log_gamma: Any = np.frompyfunc(math.lgamma, 1, 1)


class OfTwo(Operation):
    """Elementwise on two inputs of one type and of equal lens."""

    on_host: ClassVar[bool] = True
    arity = 2
    types: ClassVar[frozenset[str]] = frozenset({"float", "double"})

    def infer(self, *inputs: Shape) -> Shape:
        self.same_type(inputs)
        self.require(inputs[0].lens == inputs[1].lens, inputs, "inputs differ in lens")
        self.require(inputs[0].type in self.types, inputs, "inputs have another type than it takes")
        return Shape(inputs[0].type, inputs[0].lens)


class Gcd(OfTwo, name="gcd"):
    """The greatest common divisor of integers (aten::gcd)."""

    types = frozenset(dtypes.INTEGERS)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.asarray(np.gcd(*args))


class Lcm(OfTwo, name="lcm"):
    """The least common multiple of integers (aten::lcm)."""

    types = frozenset(dtypes.INTEGERS)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.asarray(np.lcm(*args))


def _lower_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sum of x^k / ((a + 1) ... (a + k)), for x < a + 1 (Abramowitz and Stegun 6.5.29)."""
    term, total, place = np.ones_like(a), np.ones_like(a), a.copy()
    for _ in range(STEPS):
        place += 1
        term *= x / place
        total += term
        if np.all(np.abs(term) <= np.abs(total) * 1e-17):
            break
    return total / a


def _upper_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of gamma(a, x) e^x x^-a, for x >= a + 1 (6.5.31, by Lentz's method)."""
    b = x + 1 - a
    c, d = np.full_like(a, 1 / TINY), 1 / np.where(b == 0, TINY, b)
    h, done = d.copy(), np.zeros(a.shape, bool)
    for k in range(1, STEPS):
        factor = -k * (k - a)
        b = b + 2
        d = factor * d + b
        c = b + factor / c
        d = 1 / np.where(np.abs(d) < TINY, TINY, d)
        step = d * np.where(np.abs(c) < TINY, TINY, c)
        h = np.where(done, h, h * step)
        done |= np.abs(step - 1) <= 2.3e-16
        if done.all():
            break
    return h


def _share(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    """The regularized incomplete gamma function in double, the part below x or the one above it."""
    a, x = a.astype(np.float64), x.astype(np.float64)
    made = np.full(a.shape, math.nan)
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    made[(a > 0) & (x == 0)] = low
    made[(a == 0) & (x > 0)] = high
    made[np.isinf(a) & (a > 0) & np.isfinite(x) & (x >= 0)] = low
    made[np.isinf(x) & (x > 0) & np.isfinite(a) & (a >= 0)] = high
    plain = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    for chosen, series, below in ((x < a + 1, _lower_series, True), (x >= a + 1, _upper_fraction, False)):
        own = plain & chosen
        if own.any():
            p, q = a[own], x[own]
            scale = np.exp(p * np.log(q) - q - log_gamma(p).astype(np.float64))
            value = scale * series(p, q)
            made[own] = value if below != upper else 1 - value
    return made


class Igamma(OfTwo, name="igamma"):
    """gamma(a, x) / gamma(a), the regularized lower incomplete gamma function (aten::igamma)."""

    def compute(self, *args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _share(*args, upper=False).astype(args[0].dtype)


class Igammac(OfTwo, name="igammac"):
    """1 - igamma(a, x), the regularized upper incomplete gamma function (aten::igammac)."""

    def compute(self, *args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _share(*args, upper=True).astype(args[0].dtype)


class Zeta(OfTwo, name="zeta"):
    """The sum of (q + k)^-x for k from 0 on, Hurwitz's zeta function (aten::special_zeta).

    Terms are added up to q + k = 10 + x / 2, the rest is the formula of Euler and Maclaurin (DLMF 25.11.5).
    """

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, q = (a.astype(np.float64) for a in args)
        with np.errstate(all="ignore"):
            total, place = np.zeros_like(x), q.copy()
            end = ZETA_FROM + np.minimum(x, STEPS) / 2
            sums = (x > 1) & (place > -STEPS)
            while (more := sums & (place < end)).any():
                total = np.where(more, total + place**-x, total)
                place = np.where(more, place + 1, place)
            power = place**-x
            total += power * place / (x - 1) + 0.5 * power
            factor, power = x.copy(), power / place
            for k, number in enumerate(BERNOULLI, 1):
                total += factor * number / math.factorial(2 * k) * power
                factor *= (x + 2 * k - 1) * (x + 2 * k)
                power = power / (place * place)
            far = np.where(q == 1, 1, np.where(q < 1, math.inf, math.nan))  # of x that is infinite, as torch has it
            made = np.where(np.isinf(x), far, total)
            below, whole = q <= 0, q == np.floor(q)
            made = np.where(below, np.where(whole, math.inf, np.where(x == np.floor(x), made, math.nan)), made)
            made = np.where(x == 1, math.inf, np.where(x < 1, math.nan, made))
        return made.astype(args[0].dtype)
