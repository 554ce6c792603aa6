"""The words in which pointwise bodies are written, and their NumPy reading.

A body is `def relu(s, x): return s.max(x, s.const(x, 0))`. `s` is a reading: NumpyScalar here, C++ and Triton
text with the targets. Every reading has exactly the methods of ScalarOps. Operands of one word have one type,
and so has its result, except where its docstring says bool. half, bf16 and fp8 are computed in float. Words
marked `float` take floats only, `integer` integers and bool; bool itself has no arithmetic but mul.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np

from migraphx.ir import dtype as dtypes

T = TypeVar("T")


class ScalarOps(Protocol[T]):
    """Every word, as a method from operands to a result. IEEE: NaN, -0 and inf as in IEEE 754."""

    def add(self, a: T, b: T, /) -> T:
        """a + b. Integers wrap. IEEE."""
        ...

    def sub(self, a: T, b: T, /) -> T:
        """a - b. Integers wrap. IEEE."""
        ...

    def mul(self, a: T, b: T, /) -> T:
        """a * b. Integers wrap. IEEE."""
        ...

    def div(self, a: T, b: T, /) -> T:
        """a / b. Integers truncate to zero, x / 0 is 0, lowest / -1 wraps. IEEE."""
        ...

    def fmod(self, a: T, b: T, /) -> T:
        """Remainder with the sign of a; fmod(inf, b), fmod(a, 0) are NaN; integers: x fmod 0 is 0."""
        ...

    def mod(self, a: T, b: T, /) -> T:
        """Remainder with the sign of b; mod(inf, b), mod(a, 0) are NaN; integers: x mod 0 is 0.

        The sign of a 0 is not specified.
        """
        ...

    def pow(self, a: T, b: T, /) -> T:
        """a ** b, as C's pow; pow(x, 0) and pow(1, x) are 1 even for NaN.

        Integers wrap; a negative exponent gives the truncated quotient, and 0 for 0.
        """
        ...

    def max(self, a: T, b: T, /) -> T:
        """The larger; NaN if either is NaN; the sign of max(-0, 0) is not specified."""
        ...

    def min(self, a: T, b: T, /) -> T:
        """The smaller; NaN if either is NaN; the sign of min(-0, 0) is not specified."""
        ...

    def neg(self, a: T, /) -> T:
        """-a; changes the sign of 0, inf and NaN alike. Integers wrap."""
        ...

    def abs(self, a: T, /) -> T:
        """|a|; clears the sign of -0 and -inf, NaN stays NaN. Integers wrap."""
        ...

    def sign(self, a: T, /) -> T:
        """-1, 0 or 1; 0 for 0 and -0; NaN gives NaN (torch.sign gives 0)."""
        ...

    def recip(self, a: T, /) -> T:
        """float; 1 / a. IEEE."""
        ...

    def sqrt(self, a: T, /) -> T:
        """float; NaN below 0, sqrt(-0) is -0, sqrt(inf) is inf."""
        ...

    def rsqrt(self, a: T, /) -> T:
        """float; 1 / sqrt(a): inf for 0, -inf for -0, 0 for inf, NaN below 0."""
        ...

    def exp(self, a: T, /) -> T:
        """float; exp(-inf) is 0, exp(inf) and overflow are inf, NaN gives NaN."""
        ...

    def expm1(self, a: T, /) -> T:
        """float; exp(a) - 1, exact near 0; -0 gives -0, -inf gives -1, NaN gives NaN."""
        ...

    def log(self, a: T, /) -> T:
        """float; -inf for 0 and -0, NaN below 0, log(inf) is inf."""
        ...

    def log2(self, a: T, /) -> T:
        """float; -inf for 0 and -0, NaN below 0, log2(inf) is inf."""
        ...

    def log1p(self, a: T, /) -> T:
        """float; log(1 + a), exact near 0; -0 gives -0, -1 gives -inf, NaN below -1."""
        ...

    def sin(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; NaN for inf."""
        ...

    def cos(self, a: T, /) -> T:
        """float; NaN for NaN and inf."""
        ...

    def tan(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; NaN for inf."""
        ...

    def asin(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; NaN outside [-1, 1]."""
        ...

    def acos(self, a: T, /) -> T:
        """float; NaN outside [-1, 1]; acos(1) is 0."""
        ...

    def atan(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; atan(inf) is pi / 2."""
        ...

    def sinh(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; inf keeps its sign."""
        ...

    def cosh(self, a: T, /) -> T:
        """float; inf for inf and -inf, NaN gives NaN."""
        ...

    def tanh(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; tanh(inf) is 1."""
        ...

    def asinh(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; inf keeps its sign."""
        ...

    def acosh(self, a: T, /) -> T:
        """float; NaN below 1; acosh(1) is 0, acosh(inf) is inf."""
        ...

    def atanh(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; inf with the sign of a at 1 and -1, NaN beyond."""
        ...

    def erf(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0; erf(inf) is 1."""
        ...

    def sigmoid(self, a: T, /) -> T:
        """float; 1 / (1 + exp(-a)): 0 for -inf, 1 for inf, NaN gives NaN."""
        ...

    def floor(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0, inf gives inf. The largest whole number that is not above a."""
        ...

    def ceil(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0, inf gives inf. ceil(-0.5) is -0."""
        ...

    def trunc(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0, inf gives inf. Towards 0; trunc(-0.5) is -0."""
        ...

    def nearbyint(self, a: T, /) -> T:
        """float; NaN gives NaN, -0 gives -0, inf gives inf. To the nearest whole number, ties to even."""
        ...

    def equal(self, a: T, b: T, /) -> T:
        """a == b as bool; NaN equals nothing, -0 equals 0."""
        ...

    def less(self, a: T, b: T, /) -> T:
        """a < b as bool; false where either is NaN; -0 is not less than 0."""
        ...

    def greater(self, a: T, b: T, /) -> T:
        """a > b as bool; false where either is NaN."""
        ...

    def isnan(self, a: T, /) -> T:
        """float; whether a is NaN, as bool."""
        ...

    def isinf(self, a: T, /) -> T:
        """float; whether a is inf or -inf, as bool."""
        ...

    def logical_and(self, a: T, b: T, /) -> T:
        """Whether both are other than 0, as bool; NaN is other than 0, -0 is not."""
        ...

    def logical_or(self, a: T, b: T, /) -> T:
        """Whether either is other than 0, as bool; NaN is other than 0, -0 is not."""
        ...

    def logical_xor(self, a: T, b: T, /) -> T:
        """Whether exactly one is other than 0, as bool; NaN is other than 0, -0 is not."""
        ...

    def logical_not(self, a: T, /) -> T:
        """Whether a is 0, as bool; NaN is not 0, -0 is."""
        ...

    def bitwise_and(self, a: T, b: T, /) -> T:
        """integer; a & b."""
        ...

    def bitwise_or(self, a: T, b: T, /) -> T:
        """integer; a | b."""
        ...

    def bitwise_xor(self, a: T, b: T, /) -> T:
        """integer; a ^ b."""
        ...

    def bitwise_not(self, a: T, /) -> T:
        """integer, no bool; ~a."""
        ...

    def shift_left(self, a: T, b: T, /) -> T:
        """integer, no bool; a << b; 0 where b is negative or at least the width of the type."""
        ...

    def shift_right(self, a: T, b: T, /) -> T:
        """integer, no bool; a >> b, signed types keep the sign; else as shift_left."""
        ...

    def where(self, condition: T, a: T, b: T, /) -> T:
        """a where the bool condition is true, else b; takes over NaN, -0 and inf unchanged."""
        ...

    def cast(self, a: T, type: str, /) -> T:
        """a as another type.

        Floats truncate to integers, NaN and out of range are not specified; bool is a != 0, so true for NaN;
        to floats rounds to nearest even; integers wrap.
        """
        ...

    def const(self, a: T, value: float | bool, /) -> T:
        """A constant of a's type."""
        ...


VOCABULARY: dict[str, tuple[int, str]] = {
    word: (method.__code__.co_argcount - 1, method.__doc__ or "")
    for word, method in vars(ScalarOps).items()
    if not word.startswith("_")
}
"""Word -> how many operands it takes, and what it means."""


class Cost(Enum):
    """What a word costs on vectors, an element of memory being read or written in as much time as an addition."""

    ARITHMETIC = "one instruction, no slower than a load"
    MASK = "a few instructions, no slower than a load: a bool or another type has vectors of another width"
    DIVISION = "one instruction, several times slower than a load"
    FUNCTION = "dozens of instructions: a polynomial, or a loop"


COSTS: dict[str, Cost] = {
    **dict.fromkeys(("const", "add", "sub", "mul", "neg", "abs", "max", "min"), Cost.ARITHMETIC),
    **dict.fromkeys(("floor", "ceil", "trunc", "nearbyint"), Cost.ARITHMETIC),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), Cost.ARITHMETIC),
    **dict.fromkeys(("where", "cast", "equal", "less", "greater", "isnan", "isinf", "sign"), Cost.MASK),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), Cost.MASK),
    **dict.fromkeys(("shift_left", "shift_right"), Cost.MASK),
    **dict.fromkeys(("div", "recip", "sqrt", "rsqrt"), Cost.DIVISION),
}
"""Of the words that are no FUNCTION."""

JUMPS = frozenset({"floor", "ceil", "trunc", "nearbyint", "sign", "fmod", "mod", "cast"})
"""Words that may make a whole of the least difference between two operands: these must be exact."""

Array = np.ndarray


def _is_float(a: Array) -> bool:
    return a.dtype.kind == "f"


def div(a: Array, b: Array) -> Array:
    if _is_float(a):
        return np.true_divide(a, b)
    quotient = np.floor_divide(a, np.where(b == 0, np.ones_like(b), b))
    inexact = (quotient < 0) & (quotient * b != a)  # floor went one below the truncated quotient
    return np.where(b == 0, np.zeros_like(a), np.where(inexact, quotient + quotient.dtype.type(1), quotient))


def fmod(a: Array, b: Array) -> Array:
    return np.fmod(a, b)  # NumPy's integers: x fmod 0 is 0


def mod(a: Array, b: Array) -> Array:
    return np.remainder(a, b)


def power(a: Array, b: Array) -> Array:
    if _is_float(a) or not (b < 0).any():
        return np.power(a, b)
    raised = np.power(a, np.where(b < 0, np.zeros_like(b), b))
    odd = (b & 1).astype(bool)
    one, zero = np.ones_like(a), np.zeros_like(a)
    inverse = np.where(a == 1, one, np.where(a == -1, np.where(odd, -one, one), zero))
    return np.where(b < 0, inverse, raised)


def sigmoid(a: Array) -> Array:
    """Through exp(-|a|), which does not overflow."""
    e, one = np.exp(-np.abs(a)), a.dtype.type(1)
    return np.where(a < 0, e, one) / (one + e)


def shift(by: Callable[..., Array], a: Array, b: Array) -> Array:
    """NumPy leaves shifts beyond the width to the compiler; here they shift everything out."""
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width)
    shifted = by(a, np.where(inside, b, np.zeros_like(b)))
    rest = np.zeros_like(a)
    if by is np.right_shift and a.dtype.kind == "i":
        rest = np.where(a < 0, np.full_like(a, -1), rest)
    return np.where(inside, shifted, rest)


def erf(a: Array) -> Array:
    """From the C library, element by element, in double: NumPy has none."""
    return np.vectorize(math.erf, otypes=[np.float64])(a).astype(a.dtype)


def cast(a: Array, type: str) -> Array:
    """Narrow floats stay in float, rounded to what the type can hold."""
    target = dtypes.to_numpy(type)
    if a.dtype.kind == "f" and target.kind in "iu":
        # Through the widest type first, as torch does: a negative float becomes a wrapped unsigned number.
        wide = np.dtype(np.uint64) if target == np.uint64 else np.dtype(np.int64)
        return a.astype(wide).astype(target)
    return a.astype(target).astype(dtypes.accumulator(type))


class WordsOf:
    """The reading that asks which words a body has."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __getattr__(self, word: str) -> Callable[..., None]:
        if word not in VOCABULARY:
            raise AttributeError(f"no scalar word {word!r}")
        return lambda *operands: self.found.add(word)


class NumpyScalar:
    """The words on NumPy arrays whose type is that of an accumulator."""

    add, sub, mul = staticmethod(np.add), staticmethod(np.subtract), staticmethod(np.multiply)
    div, fmod, mod, pow = staticmethod(div), staticmethod(fmod), staticmethod(mod), staticmethod(power)
    max, min = staticmethod(np.maximum), staticmethod(np.minimum)
    neg, abs, sign = staticmethod(np.negative), staticmethod(np.abs), staticmethod(np.sign)
    sqrt, exp, expm1 = staticmethod(np.sqrt), staticmethod(np.exp), staticmethod(np.expm1)
    log, log2, log1p = staticmethod(np.log), staticmethod(np.log2), staticmethod(np.log1p)
    sin, cos, tan = staticmethod(np.sin), staticmethod(np.cos), staticmethod(np.tan)
    asin, acos, atan = staticmethod(np.arcsin), staticmethod(np.arccos), staticmethod(np.arctan)
    sinh, cosh, tanh = staticmethod(np.sinh), staticmethod(np.cosh), staticmethod(np.tanh)
    asinh, acosh, atanh = staticmethod(np.arcsinh), staticmethod(np.arccosh), staticmethod(np.arctanh)
    erf, sigmoid, cast = staticmethod(erf), staticmethod(sigmoid), staticmethod(cast)
    floor, ceil = staticmethod(np.floor), staticmethod(np.ceil)
    trunc, nearbyint = staticmethod(np.trunc), staticmethod(np.rint)
    equal, less, greater = staticmethod(np.equal), staticmethod(np.less), staticmethod(np.greater)
    isnan, isinf = staticmethod(np.isnan), staticmethod(np.isinf)
    logical_and, logical_or = staticmethod(np.logical_and), staticmethod(np.logical_or)
    logical_xor, logical_not = staticmethod(np.logical_xor), staticmethod(np.logical_not)
    bitwise_and, bitwise_or = staticmethod(np.bitwise_and), staticmethod(np.bitwise_or)
    bitwise_xor, bitwise_not = staticmethod(np.bitwise_xor), staticmethod(np.invert)
    where = staticmethod(np.where)

    @staticmethod
    def recip(a: Array) -> Array:
        return a.dtype.type(1) / a

    @staticmethod
    def rsqrt(a: Array) -> Array:
        return a.dtype.type(1) / np.sqrt(a)

    @staticmethod
    def shift_left(a: Array, b: Array) -> Array:
        return shift(np.left_shift, a, b)

    @staticmethod
    def shift_right(a: Array, b: Array) -> Array:
        return shift(np.right_shift, a, b)

    @staticmethod
    def const(like: Array, value: Any) -> Array:
        return np.asarray(value, like.dtype)
