"""Special functions, in double precision whatever the type: sums of many terms that nearly cancel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction

Value = Instruction

LANCZOS_G = 7.0  # Godfrey's coefficients of Lanczos' series (1964)
LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
PSI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # B_2k / 2k, Abramowitz and Stegun 6.3.18
PSI_STEPS = 8
GILES_INNER = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
GILES_OUTER = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def in_double(function: Callable[[Builder, Value], Value]) -> Callable[[Builder, Value], Value]:
    """The function of its input in double, as the input's type."""

    def wide(b: Builder, x: Value) -> Value:
        return b.cast(function(b, b.cast(x, "double")), x.shape.type)

    wide.__name__, wide.__doc__ = function.__name__, function.__doc__
    return wide


def _polynomial(b: Builder, x: Value, factors: tuple[float, ...]) -> Value:
    """Horner's scheme, the highest power first."""
    return reduce(lambda sum_, c: b.add(b.mul(sum_, x), b.full(c, x)), factors[1:], b.full(factors[0], x))


def _reflected(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Whether x < 1/2; max(x, 1 - x); pi times the distance of x from the whole number next to it."""
    left = b.less(x, b.full(0.5, x))
    away = b.mul(b.sub(x, b.nearbyint(x)), b.full(math.pi, x))
    return left, b.where(left, b.sub(b.full(1, x), x), x), away


@composite
@in_double
def lgamma(b: Builder, x: Value) -> Value:
    """log |gamma(x)| (aten::lgamma); inf at 0, -1, -2, ..."""
    left, z, away = _reflected(b, x)
    terms = [b.div(b.full(c, z), b.add(z, b.full(k - 1.0, z))) for k, c in enumerate(LANCZOS) if k]
    series = reduce(b.add, terms, b.full(LANCZOS[0], z))
    t = b.add(z, b.full(LANCZOS_G - 0.5, z))
    powers = b.sub(b.mul(b.sub(z, b.full(0.5, z)), b.log(t)), t)
    right = b.add(b.add(powers, b.log(series)), b.full(0.5 * math.log(2 * math.pi), z))
    right = b.where(b.isinf(z), b.full(math.inf, z), right)
    mirrored = b.sub(b.log(b.div(b.full(math.pi, x), b.abs(b.sin(away)))), right)
    return b.where(b.isinf(x), b.full(math.inf, x), b.where(left, mirrored, right))


@composite
@in_double
def digamma(b: Builder, x: Value) -> Value:
    """The derivative of log gamma (aten::digamma): -inf at 0, inf at -0, NaN at -1, -2, ..."""
    left, z, away = _reflected(b, x)
    below = [b.recip(b.add(z, b.full(float(k), z))) for k in range(PSI_STEPS)]
    far = b.add(z, b.full(float(PSI_STEPS), z))
    inverse = b.recip(far)
    square = b.mul(inverse, inverse)
    series = b.mul(_polynomial(b, square, PSI[::-1]), square)
    right = b.sub(b.sub(b.log(far), b.mul(inverse, b.full(0.5, z))), b.add(series, reduce(b.add, below)))
    answer = b.where(left, b.sub(right, b.div(b.full(math.pi, x), b.tan(away))), right)
    pole = b.logical_and(b.less(x, b.full(0, x)), b.equal(x, b.floor(x)))
    zero = b.div(b.full(-1.0, x), x)
    answer = b.where(b.equal(x, b.full(0, x)), zero, answer)
    return b.where(pole, b.full(math.nan, x), answer)


@composite
@in_double
def erfinv(b: Builder, x: Value) -> Value:
    """The inverse of erf (aten::erfinv): Giles' approximation (GPU Computing Gems, 2011), two steps of Newton's."""
    w = b.neg(b.log(b.mul(b.sub(b.full(1, x), x), b.add(b.full(1, x), x))))
    inner = _polynomial(b, b.sub(w, b.full(2.5, w)), GILES_INNER)
    outer = _polynomial(b, b.sub(b.sqrt(w), b.full(3.0, w)), GILES_OUTER)
    y = b.mul(b.where(b.less(w, b.full(5.0, w)), inner, outer), x)
    for _ in range(2):
        slope = b.mul(b.exp(b.neg(b.mul(y, y))), b.full(2 / math.sqrt(math.pi), y))
        y = b.sub(y, b.div(b.sub(b.erf(y), x), slope))
    end = b.equal(b.abs(x), b.full(1, x))
    return b.where(end, b.mul(x, b.full(math.inf, x)), y)


STEPS = 12
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip


def _hurwitz(b: Builder, s: int, x: Value) -> Value:
    """The sum of (x + k)^-s over k >= 0, for x >= 1/2: twelve terms, and Euler and Maclaurin's for the others."""
    terms = [b.pow(b.add(x, b.full(float(k), x)), b.full(float(-s), x)) for k in range(STEPS)]
    far = b.add(x, b.full(float(STEPS), x))
    inverse = b.recip(far)
    square = b.mul(inverse, inverse)
    factors = [
        bernoulli / math.factorial(2 * j) * math.prod(range(s, s + 2 * j - 1))
        for j, bernoulli in enumerate(BERNOULLI, 1)
    ]
    series = b.mul(_polynomial(b, square, tuple(factors[::-1])), inverse)
    rest = b.add(b.add(b.div(far, b.full(s - 1.0, x)), b.full(0.5, x)), series)
    return b.add(reduce(b.add, terms), b.mul(rest, b.pow(far, b.full(float(-s), x))))


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial of cot, the lowest power first."""
    factors = [0, 1]
    for _ in range(n):
        slopes = [k * f for k, f in enumerate(factors)][1:]
        factors = [-(a + c) for a, c in zip([*slopes, 0, 0], [0, 0, *slopes], strict=True)]
    return factors


@composite
def polygamma(b: Builder, x: Value, n: int) -> Value:
    """The n-th derivative of digamma, n > 0 (aten::polygamma); infinite at 0, -1, -2, ..."""
    given, x = x, b.cast(x, "double")
    left, z, away = _reflected(b, x)
    sign = -1.0 if n % 2 == 0 else 1.0
    right = b.mul(_hurwitz(b, n + 1, z), b.full(sign * math.factorial(n), x))
    slope = _polynomial(b, b.recip(b.tan(away)), tuple(map(float, _cotangent_derivative(n)[::-1])))
    mirrored = b.sub(b.mul(right, b.full(-sign, x)), b.mul(slope, b.full(math.pi ** (n + 1), x)))
    pole = b.logical_and(b.less_or_equal(x, b.full(0, x)), b.equal(x, b.floor(x)))
    answer = b.where(pole, b.full(sign * math.inf, x), b.where(left, mirrored, right))
    answer = b.where(b.isinf(x), b.where(left, b.full(math.nan, x), b.full(0, x)), answer)
    return b.cast(answer, given.shape.type)
