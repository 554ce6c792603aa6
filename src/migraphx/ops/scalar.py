"""The words in which pointwise bodies are written, and their NumPy reading.

A body is `def relu(s, x): return s.max(x, s.const(x, 0))`. `s` is a reading: NumpyScalar here, C++ and Triton
text with the targets. Every reading has exactly the words of VOCABULARY. Operands of one word have one type,
and so has its result, except where the table says bool. half, bf16 and fp8 are computed in float. Words
marked `float` take floats only, `integer` integers and bool; bool itself has no arithmetic but mul.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes

IEEE = "NaN, -0 and inf as in IEEE 754"
ODD = "float; NaN gives NaN, -0 gives -0"

VOCABULARY: dict[str, tuple[int, str]] = {
    "add": (2, f"a + b. Integers wrap. {IEEE}."),
    "sub": (2, f"a - b. Integers wrap. {IEEE}."),
    "mul": (2, f"a * b. Integers wrap. {IEEE}."),
    "div": (2, f"a / b. Integers truncate to zero, x / 0 is 0, lowest / -1 wraps. {IEEE}."),
    "fmod": (2, "Remainder with the sign of a; fmod(inf, b), fmod(a, 0) are NaN; integers: x fmod 0 is 0."),
    "mod": (
        2,
        "Remainder with the sign of b; mod(inf, b), mod(a, 0) are NaN; integers: x mod 0 is 0. The "
        "sign of a 0 is not specified.",
    ),
    "pow": (
        2,
        "a ** b, as C's pow; pow(x, 0) and pow(1, x) are 1 even for NaN. Integers wrap; a negative "
        "exponent gives the truncated quotient, and 0 for 0.",
    ),
    "max": (2, "The larger; NaN if either is NaN; the sign of max(-0, 0) is not specified."),
    "min": (2, "The smaller; NaN if either is NaN; the sign of min(-0, 0) is not specified."),
    "neg": (1, "-a; changes the sign of 0, inf and NaN alike. Integers wrap."),
    "abs": (1, "|a|; clears the sign of -0 and -inf, NaN stays NaN. Integers wrap."),
    "sign": (1, "-1, 0 or 1; 0 for 0 and -0; NaN gives NaN (torch.sign gives 0)."),
    "recip": (1, f"float; 1 / a. {IEEE}."),
    "sqrt": (1, "float; NaN below 0, sqrt(-0) is -0, sqrt(inf) is inf."),
    "rsqrt": (1, "float; 1 / sqrt(a): inf for 0, -inf for -0, 0 for inf, NaN below 0."),
    "exp": (1, "float; exp(-inf) is 0, exp(inf) and overflow are inf, NaN gives NaN."),
    "expm1": (1, "float; exp(a) - 1, exact near 0; -0 gives -0, -inf gives -1, NaN gives NaN."),
    "log": (1, "float; -inf for 0 and -0, NaN below 0, log(inf) is inf."),
    "log2": (1, "float; -inf for 0 and -0, NaN below 0, log2(inf) is inf."),
    "log1p": (1, "float; log(1 + a), exact near 0; -0 gives -0, -1 gives -inf, NaN below -1."),
    "sin": (1, f"{ODD}; NaN for inf."),
    "cos": (1, "float; NaN for NaN and inf."),
    "tan": (1, f"{ODD}; NaN for inf."),
    "asin": (1, f"{ODD}; NaN outside [-1, 1]."),
    "acos": (1, "float; NaN outside [-1, 1]; acos(1) is 0."),
    "atan": (1, f"{ODD}; atan(inf) is pi / 2."),
    "sinh": (1, f"{ODD}; inf keeps its sign."),
    "cosh": (1, "float; inf for inf and -inf, NaN gives NaN."),
    "tanh": (1, f"{ODD}; tanh(inf) is 1."),
    "asinh": (1, f"{ODD}; inf keeps its sign."),
    "acosh": (1, "float; NaN below 1; acosh(1) is 0, acosh(inf) is inf."),
    "atanh": (1, f"{ODD}; inf with the sign of a at 1 and -1, NaN beyond."),
    "erf": (1, f"{ODD}; erf(inf) is 1."),
    "sigmoid": (1, "float; 1 / (1 + exp(-a)): 0 for -inf, 1 for inf, NaN gives NaN."),
    "floor": (1, f"{ODD}, inf gives inf. The largest whole number that is not above a."),
    "ceil": (1, f"{ODD}, inf gives inf. ceil(-0.5) is -0."),
    "trunc": (1, f"{ODD}, inf gives inf. Towards 0; trunc(-0.5) is -0."),
    "nearbyint": (1, f"{ODD}, inf gives inf. To the nearest whole number, ties to even."),
    "equal": (2, "a == b as bool; NaN equals nothing, -0 equals 0."),
    "less": (2, "a < b as bool; false where either is NaN; -0 is not less than 0."),
    "greater": (2, "a > b as bool; false where either is NaN."),
    "isnan": (1, "float; whether a is NaN, as bool."),
    "isinf": (1, "float; whether a is inf or -inf, as bool."),
    "logical_and": (2, "Whether both are other than 0, as bool; NaN is other than 0, -0 is not."),
    "logical_or": (2, "Whether either is other than 0, as bool; NaN is other than 0, -0 is not."),
    "logical_xor": (2, "Whether exactly one is other than 0, as bool; NaN is other than 0, -0 is not."),
    "logical_not": (1, "Whether a is 0, as bool; NaN is not 0, -0 is."),
    "bitwise_and": (2, "integer; a & b."),
    "bitwise_or": (2, "integer; a | b."),
    "bitwise_xor": (2, "integer; a ^ b."),
    "bitwise_not": (1, "integer, no bool; ~a."),
    "shift_left": (2, "integer, no bool; a << b; 0 where b is negative or at least the width of the type."),
    "shift_right": (2, "integer, no bool; a >> b, signed types keep the sign; else as shift_left."),
    "where": (3, "b where the bool a is true, else c; takes over NaN, -0 and inf unchanged."),
    "cast": (
        2,
        "cast(a, type): a as another type. Floats truncate to integers, NaN and out of range are not "
        "specified; bool is a != 0, so true for NaN; to floats rounds to nearest even; integers wrap.",
    ),
    "const": (2, "const(a, value): a constant of a's type."),
}


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


class WordCosts:
    """The reading that asks what the words of a body cost."""

    def __init__(self) -> None:
        self.found: set[Cost] = set()

    def __getattr__(self, word: str) -> Callable[..., None]:
        if word not in VOCABULARY:
            raise AttributeError(f"no scalar word {word!r}")
        return lambda *operands: self.found.add(COSTS.get(word, Cost.FUNCTION))


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
