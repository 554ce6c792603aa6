"""Activations and other elementwise functions, written in pointwise operators."""

from __future__ import annotations

import math

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction

Value = Instruction

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al., 1706.02515


def scaled(b: Builder, x: Value, factor: float) -> Value:
    """x * factor; nothing is added for a factor of 1."""
    return x if factor == 1 else b.mul(x, b.full(factor, x))


def shifted(b: Builder, x: Value, term: float) -> Value:
    """x + term; nothing is added for a term of 0."""
    return x if term == 0 else b.add(x, b.full(term, x))


@composite
def clamp(b: Builder, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """x limited to [low, high], either of which may be absent (aten::clamp). NaN stays.

    What lies beyond an integer type limits nothing.
    """
    if x.shape.type in dtypes.INTEGERS:
        least, most = dtypes.limits(x.shape.type)
        low = low if low is None or low > least else None
        high = high if high is None or high < most else None
    if low is not None:
        x = b.max(x, b.full(low, x))
    return x if high is None else b.min(x, b.full(high, x))


@composite
def gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    """x times the normal distribution function of x (1606.08415), exact or by `approximate`="tanh"."""
    if approximate == "none":
        inner = b.erf(scaled(b, x, math.sqrt(0.5)))
    elif approximate == "tanh":
        cube = b.mul(b.mul(x, x), x)
        inner = b.tanh(scaled(b, b.add(x, scaled(b, cube, 0.044715)), math.sqrt(2 / math.pi)))
    else:
        raise ValueError(f"gelu: approximate is none or tanh, not {approximate!r}")
    return b.mul(scaled(b, x, 0.5), shifted(b, inner, 1.0))


@composite
def quick_gelu(b: Builder, x: Value, alpha: float = 1.702) -> Value:
    """x * sigmoid(alpha * x)"""
    return b.mul(x, b.sigmoid(scaled(b, x, alpha)))


@composite
def silu(b: Builder, x: Value) -> Value:
    """x * sigmoid(x) (aten::silu, ONNX Swish)"""
    return b.mul(x, b.sigmoid(x))


@composite
def hardsigmoid(b: Builder, x: Value, alpha: float = 1 / 6, beta: float = 0.5) -> Value:
    """alpha * x + beta, limited to [0, 1]. The defaults are torch's; ONNX HardSigmoid has alpha 0.2."""
    left = beta / alpha if alpha else 0.5
    if x.shape.type in dtypes.NARROW_FLOATS and left in (2.5, 3.0):  # near -left the sum would be alpha's rounding
        return b.clamp(scaled(b, shifted(b, x, left), alpha), 0.0, 1.0)
    return b.clamp(shifted(b, scaled(b, x, alpha), beta), 0.0, 1.0)


@composite
def hardswish(b: Builder, x: Value) -> Value:
    """x * hardsigmoid(x) (aten::hardswish, ONNX HardSwish)"""
    return b.mul(x, b.hardsigmoid(x))


@composite
def softplus(b: Builder, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold` (aten::softplus)."""
    bx = scaled(b, x, beta)
    small = b.log1p(b.exp(b.neg(b.abs(bx))))  # exp(bx) itself would overflow half below the threshold
    soft = scaled(b, b.add(b.max(bx, b.full(0.0, x)), small), 1 / beta)
    return b.where(b.greater(bx, b.full(threshold, x)), x, soft)


@composite
def mish(b: Builder, x: Value) -> Value:
    """x * tanh(softplus(x)) (1908.08681)"""
    return b.mul(x, b.tanh(b.softplus(x)))


@composite
def logsigmoid(b: Builder, x: Value) -> Value:
    """log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|))"""
    return b.sub(b.min(x, b.full(0.0, x)), b.log1p(b.exp(b.neg(b.abs(x)))))


@composite
def celu(b: Builder, x: Value, alpha: float = 1.0) -> Value:
    """x above 0, alpha * (exp(x / alpha) - 1) elsewhere (1704.07483)"""
    low = scaled(b, b.expm1(b.div(x, b.full(alpha, x))), alpha)
    return b.where(b.greater(x, b.full(0.0, x)), x, low)


@composite
def selu(b: Builder, x: Value, alpha: float = SELU_ALPHA, gamma: float = SELU_SCALE) -> Value:
    """gamma * elu(x, alpha) (1706.02515)"""
    return scaled(b, b.elu(x, alpha=alpha), gamma)


@composite
def softsign(b: Builder, x: Value) -> Value:
    """x / (1 + |x|)"""
    return b.div(x, shifted(b, b.abs(x), 1.0))


@composite
def tanhshrink(b: Builder, x: Value) -> Value:
    """x - tanh(x)"""
    return b.sub(x, b.tanh(x))


@composite
def softshrink(b: Builder, x: Value, lambd: float = 0.5, bias: float | None = None) -> Value:
    """x moved towards 0 by `bias` (`lambd` where absent), 0 where |x| <= lambd (ONNX Shrink)."""
    bias = lambd if bias is None else bias
    zero = b.full(0.0, x)
    low = b.where(b.less(x, b.full(-lambd, x)), shifted(b, x, bias), zero)
    high = b.where(b.greater(x, b.full(lambd, x)), shifted(b, x, -bias), low)
    return b.where(b.isnan(x), x, high)


@composite
def hardshrink(b: Builder, x: Value, lambd: float = 0.5) -> Value:
    """0 where |x| <= lambd, x elsewhere (aten::hardshrink)"""
    inside = b.logical_and(b.less_or_equal(x, b.full(lambd, x)), b.greater_or_equal(x, b.full(-lambd, x)))
    return b.where(inside, b.full(0.0, x), x)


@composite
def threshold(b: Builder, x: Value, threshold: float, value: float) -> Value:
    """x above `threshold`, `value` elsewhere; NaN stays (aten::threshold)."""
    return b.where(b.less_or_equal(x, b.full(threshold, x)), b.full(value, x), x)


@composite
def glu(b: Builder, x: Value, axis: int = -1) -> Value:
    """First half along `axis` times the sigmoid of the second (1612.08083); the length must be even."""
    axis %= x.shape.ndim
    length = x.shape.lens[axis]
    if length % 2:
        raise ValueError(f"glu: axis {axis} of {x.shape} is not even")
    half = length // 2
    first = b.slice(x, axes=(axis,), starts=(0,), ends=(half,))
    second = b.slice(x, axes=(axis,), starts=(half,), ends=(length,))
    return b.mul(first, b.sigmoid(second))


# ---- comparison and arithmetic that have no operator of their own ----


@composite
def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """x != y, as bool; true where either is NaN"""
    return b.instruction("not", [b.equal(x, y)])


def with_equal(b: Builder, strict: Value, x: Value, y: Value) -> Value:
    """`strict` or x == y: not the negated opposite, which would be true for NaN."""
    return b.logical_or(strict, b.equal(x, y))


@composite
def less_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """x <= y, as bool; false where either is NaN"""
    return with_equal(b, b.less(x, y), x, y)


@composite
def greater_or_equal(b: Builder, x: Value, y: Value) -> Value:
    """x >= y, as bool; false where either is NaN"""
    return with_equal(b, b.greater(x, y), x, y)


@composite
def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """The quotient rounded down, as Python's // (aten::floor_divide); integers: x // 0 is 0."""
    if x.shape.type in dtypes.INTEGERS:
        return b.div(b.sub(x, b.mod(x, y)), y)
    rest = b.fmod(x, y)  # and not mod, which is y itself for an infinite y of the other sign
    toward_zero = b.nearbyint(b.div(b.sub(x, rest), y))  # a whole number but for rounding
    below = b.less(b.mul(b.sign(rest), b.sign(y)), b.full(0.0, x))
    down = b.where(below, b.sub(toward_zero, b.full(1.0, x)), toward_zero)
    return b.where(b.equal(y, b.full(0.0, y)), b.div(x, y), down)


@composite
def log10(b: Builder, x: Value) -> Value:
    """Logarithm to base 10"""
    return scaled(b, b.log(x), 1 / math.log(10))


@composite
def exp2(b: Builder, x: Value) -> Value:
    """2 to the power of x"""
    return b.pow(b.full(2.0, x), x)
