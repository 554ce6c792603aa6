"""Elementwise operators: each is its scalar body, written once in the words of ops/scalar.py.

Inputs have the same lens: broadcasting is an instruction of its own (multibroadcast). They have one type,
which is the result's, unless the declaration says otherwise; there is no implicit conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType, new_class
from typing import Any, ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape, elementwise
from migraphx.ops.scalar import COSTS, Cost, NumpyScalar, ScalarOps, T, WordsOf

ANY = dtypes.COMPUTED
NUMBERS = ANY - {"bool"}
FLOATS = dtypes.FLOATS
INTEGERS = dtypes.INTEGERS
BITS = INTEGERS | {"bool"}
REAL = FLOATS | dtypes.SIGNED


class Pointwise(Operation):
    """Base of the elementwise operators: `body(s, *inputs, **attributes)` in the words of `s`."""

    body: ClassVar[Callable[..., Any]]
    accepts: ClassVar[frozenset[str]]
    result: ClassVar[str | None]  # None: the inputs' type

    def apply(self, s: Any, *args: Any) -> Any:
        """The body read by `s`."""
        return type(self).body(s, *args, **self.attributes())

    @property
    def costs(self) -> frozenset[Cost]:
        """What the words of the body cost."""
        return frozenset(COSTS.get(word, Cost.FUNCTION) for word in self.words)

    @property
    def words(self) -> frozenset[str]:
        """The scalar words of the body."""
        asked = WordsOf()
        self.apply(asked, *[None] * (self.arity or 0))
        return frozenset(asked.found)

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        """One an element, whatever the function takes."""
        return output.elements

    def result_type(self, types: Sequence[str]) -> str:
        return self.result or types[-1]

    def infer(self, *inputs: Shape) -> Shape:
        self.require(not any(s.sub_shapes for s in inputs), inputs, "takes no tuple")
        self.same_lens(inputs)
        self.check_types(inputs)
        return elementwise(self.result_type([s.type for s in inputs]), inputs)

    def check_types(self, inputs: Sequence[Shape]) -> None:
        self.same_type(inputs)
        self.require(inputs[0].type in self.accepts, inputs, f"does not take {inputs[0].type}")

    def compute(self, *args: np.ndarray) -> np.ndarray:
        types = [dtypes.from_numpy(a.dtype) for a in args]
        wide = [np.asarray(a, dtypes.accumulator(t)) for a, t in zip(args, types, strict=True)]
        with np.errstate(all="ignore"):
            result = self.apply(NumpyScalar, *wide)
            return np.asarray(result).astype(dtypes.to_numpy(self.result_type(types)), copy=False)


class Conditional(Pointwise):
    """Its first input is bool and has no part in the type of the result."""

    def check_types(self, inputs: Sequence[Shape]) -> None:
        self.require(inputs[0].type == "bool", inputs, "the condition is not bool")
        self.same_type(inputs[1:])


class Converting(Pointwise):
    """The result's type is the attribute `target_type`."""

    target_type: str

    def __post_init__(self) -> None:
        dtypes.to_numpy(self.target_type)  # refuses an unknown name
        object.__setattr__(self, "target_type", self.target_type.removesuffix("_type"))

    def result_type(self, types: Sequence[str]) -> str:
        return self.target_type


def pointwise(
    accepts: frozenset[str], result: str | None = None, base: type[Pointwise] = Pointwise, **traits: bool
) -> Callable[[Callable[..., Any]], type[Pointwise]]:
    """Declare an elementwise operator from its body.

    Positional parameters after `s` are the inputs, keyword-only ones the attributes; the docstring is the
    meaning. `accepts` holds the types of the inputs; `result` is the result's type where it is not theirs;
    `traits` are those of Operation (commutative, idempotent).
    """

    def declare(body: Callable[..., Any]) -> type[Pointwise]:
        assert isinstance(body, FunctionType)
        positional = body.__code__.co_argcount  # inspect.signature would slow the import
        attributes = body.__code__.co_varnames[positional:][: body.__code__.co_kwonlyargcount]
        defaults: dict[str, Any] = body.__kwdefaults__ or {}
        inherited: set[str] = set(getattr(base, "__dataclass_fields__", ()))
        members: dict[str, Any] = {
            "__doc__": body.__doc__,
            "__module__": body.__module__,
            "__qualname__": body.__name__,
            "__annotations__": {},
            "body": staticmethod(body),
            "arity": positional - 1,
            "accepts": accepts,
            "result": result,
            **traits,
        }
        for attribute in attributes:
            if attribute not in inherited:
                members["__annotations__"][attribute] = body.__annotations__[attribute]
                if attribute in defaults:
                    members[attribute] = defaults[attribute]
        name = body.__name__.rstrip("_")
        return new_class(body.__name__, (base,), {"name": name}, lambda space: space.update(members))

    return declare


# ---- arithmetic ----


@pointwise(NUMBERS, commutative=True)
def add(s: ScalarOps[T], x: T, y: T) -> T:
    """x + y"""
    return s.add(x, y)


@pointwise(NUMBERS)
def sub(s: ScalarOps[T], x: T, y: T) -> T:
    """x - y"""
    return s.sub(x, y)


@pointwise(ANY, commutative=True)
def mul(s: ScalarOps[T], x: T, y: T) -> T:
    """x * y; of bools: both"""
    return s.mul(x, y)


@pointwise(NUMBERS)
def div(s: ScalarOps[T], x: T, y: T) -> T:
    """x / y; of integers: truncated"""
    return s.div(x, y)


@pointwise(NUMBERS)
def fmod(s: ScalarOps[T], x: T, y: T) -> T:
    """Remainder of x / y with the sign of x (ONNX Mod with fmod=1)"""
    return s.fmod(x, y)


@pointwise(NUMBERS)
def mod(s: ScalarOps[T], x: T, y: T) -> T:
    """Remainder of x / y with the sign of y (ONNX Mod, ATen remainder)"""
    return s.mod(x, y)


@pointwise(NUMBERS)
def pow_(s: ScalarOps[T], x: T, y: T) -> T:
    """x to the power of y"""
    return s.pow(x, y)


@pointwise(NUMBERS, commutative=True)
def sqdiff(s: ScalarOps[T], x: T, y: T) -> T:
    """(x - y)^2"""
    d = s.sub(x, y)
    return s.mul(d, d)


@pointwise(ANY, commutative=True)
def max_(s: ScalarOps[T], x: T, y: T) -> T:
    """The larger of x and y; NaN if either is"""
    return s.max(x, y)


@pointwise(ANY, commutative=True)
def min_(s: ScalarOps[T], x: T, y: T) -> T:
    """The smaller of x and y; NaN if either is"""
    return s.min(x, y)


@pointwise(NUMBERS)
def clip(s: ScalarOps[T], x: T, low: T, high: T) -> T:
    """min(max(x, low), high) (ONNX Clip, ATen clamp)"""
    return s.min(s.max(x, low), high)


@pointwise(NUMBERS)
def neg(s: ScalarOps[T], x: T) -> T:
    """-x"""
    return s.neg(x)


@pointwise(NUMBERS, idempotent=True)
def abs_(s: ScalarOps[T], x: T) -> T:
    """|x|"""
    return s.abs(x)


@pointwise(NUMBERS, idempotent=True)
def sign(s: ScalarOps[T], x: T) -> T:
    """-1, 0 or 1; NaN for NaN (ONNX Sign)"""
    return s.sign(x)


@pointwise(FLOATS)
def recip(s: ScalarOps[T], x: T) -> T:
    """1 / x"""
    return s.recip(x)


@pointwise(FLOATS)
def sqrt(s: ScalarOps[T], x: T) -> T:
    """Square root"""
    return s.sqrt(x)


@pointwise(FLOATS)
def rsqrt(s: ScalarOps[T], x: T) -> T:
    """1 / sqrt(x)"""
    return s.rsqrt(x)


# ---- exponentials, logarithms, trigonometry ----


@pointwise(FLOATS)
def exp(s: ScalarOps[T], x: T) -> T:
    """e to the power of x"""
    return s.exp(x)


@pointwise(FLOATS)
def expm1(s: ScalarOps[T], x: T) -> T:
    """exp(x) - 1, exact near 0"""
    return s.expm1(x)


@pointwise(FLOATS)
def log(s: ScalarOps[T], x: T) -> T:
    """Natural logarithm"""
    return s.log(x)


@pointwise(FLOATS)
def log2(s: ScalarOps[T], x: T) -> T:
    """Logarithm to base 2"""
    return s.log2(x)


@pointwise(FLOATS)
def log1p(s: ScalarOps[T], x: T) -> T:
    """log(1 + x), exact near 0"""
    return s.log1p(x)


@pointwise(FLOATS)
def sin(s: ScalarOps[T], x: T) -> T:
    """Sine of radians"""
    return s.sin(x)


@pointwise(FLOATS)
def cos(s: ScalarOps[T], x: T) -> T:
    """Cosine of radians"""
    return s.cos(x)


@pointwise(FLOATS)
def tan(s: ScalarOps[T], x: T) -> T:
    """Tangent of radians"""
    return s.tan(x)


@pointwise(FLOATS)
def asin(s: ScalarOps[T], x: T) -> T:
    """Arc sine in radians"""
    return s.asin(x)


@pointwise(FLOATS)
def acos(s: ScalarOps[T], x: T) -> T:
    """Arc cosine in radians"""
    return s.acos(x)


@pointwise(FLOATS)
def atan(s: ScalarOps[T], x: T) -> T:
    """Arc tangent in radians"""
    return s.atan(x)


@pointwise(FLOATS)
def sinh(s: ScalarOps[T], x: T) -> T:
    """Hyperbolic sine"""
    return s.sinh(x)


@pointwise(FLOATS)
def cosh(s: ScalarOps[T], x: T) -> T:
    """Hyperbolic cosine"""
    return s.cosh(x)


@pointwise(FLOATS)
def tanh(s: ScalarOps[T], x: T) -> T:
    """Hyperbolic tangent"""
    return s.tanh(x)


@pointwise(FLOATS)
def asinh(s: ScalarOps[T], x: T) -> T:
    """Inverse hyperbolic sine"""
    return s.asinh(x)


@pointwise(FLOATS)
def acosh(s: ScalarOps[T], x: T) -> T:
    """Inverse hyperbolic cosine"""
    return s.acosh(x)


@pointwise(FLOATS)
def atanh(s: ScalarOps[T], x: T) -> T:
    """Inverse hyperbolic tangent"""
    return s.atanh(x)


@pointwise(FLOATS)
def erf(s: ScalarOps[T], x: T) -> T:
    """Error function"""
    return s.erf(x)


# ---- rounding ----


@pointwise(FLOATS, idempotent=True)
def floor(s: ScalarOps[T], x: T) -> T:
    """The largest whole number not above x"""
    return s.floor(x)


@pointwise(FLOATS, idempotent=True)
def ceil(s: ScalarOps[T], x: T) -> T:
    """The smallest whole number not below x"""
    return s.ceil(x)


@pointwise(FLOATS, idempotent=True)
def trunc(s: ScalarOps[T], x: T) -> T:
    """x without its fraction"""
    return s.trunc(x)


@pointwise(FLOATS, idempotent=True)
def nearbyint(s: ScalarOps[T], x: T) -> T:
    """The nearest whole number, ties to even (ONNX Round)"""
    return s.nearbyint(x)


# ---- activations ----


@pointwise(NUMBERS, idempotent=True)
def relu(s: ScalarOps[T], x: T) -> T:
    """max(x, 0)"""
    return s.max(x, s.const(x, 0))


@pointwise(FLOATS)
def sigmoid(s: ScalarOps[T], x: T) -> T:
    """1 / (1 + exp(-x))"""
    return s.sigmoid(x)


@pointwise(FLOATS)
def leaky_relu(s: ScalarOps[T], x: T, *, alpha: float = 0.01) -> T:
    """x above 0, alpha * x elsewhere"""
    return s.where(s.greater(x, s.const(x, 0)), x, s.mul(x, s.const(x, alpha)))


@pointwise(FLOATS)
def elu(s: ScalarOps[T], x: T, *, alpha: float = 1.0) -> T:
    """x above 0, alpha * (exp(x) - 1) elsewhere"""
    return s.where(s.greater(x, s.const(x, 0)), x, s.mul(s.const(x, alpha), s.expm1(x)))


@pointwise(REAL)
def prelu(s: ScalarOps[T], x: T, slope: T) -> T:
    """slope * x below 0, x elsewhere"""
    return s.where(s.less(x, s.const(x, 0)), s.mul(x, slope), x)


# ---- comparison and logic ----


@pointwise(ANY, "bool", commutative=True)
def equal(s: ScalarOps[T], x: T, y: T) -> T:
    """x == y, as bool"""
    return s.equal(x, y)


@pointwise(ANY, "bool")
def less(s: ScalarOps[T], x: T, y: T) -> T:
    """x < y, as bool"""
    return s.less(x, y)


@pointwise(ANY, "bool")
def greater(s: ScalarOps[T], x: T, y: T) -> T:
    """x > y, as bool"""
    return s.greater(x, y)


@pointwise(FLOATS, "bool")
def isnan(s: ScalarOps[T], x: T) -> T:
    """Whether x is NaN, as bool"""
    return s.isnan(x)


@pointwise(FLOATS, "bool")
def isinf(s: ScalarOps[T], x: T) -> T:
    """Whether x is inf or -inf, as bool"""
    return s.isinf(x)


@pointwise(ANY, "bool", commutative=True)
def logical_and(s: ScalarOps[T], x: T, y: T) -> T:
    """Whether x and y are both other than 0, as bool"""
    return s.logical_and(x, y)


@pointwise(ANY, "bool", commutative=True)
def logical_or(s: ScalarOps[T], x: T, y: T) -> T:
    """Whether x or y is other than 0, as bool"""
    return s.logical_or(x, y)


@pointwise(ANY, "bool", commutative=True)
def logical_xor(s: ScalarOps[T], x: T, y: T) -> T:
    """Whether exactly one of x and y is other than 0, as bool"""
    return s.logical_xor(x, y)


@pointwise(ANY, "bool")
def not_(s: ScalarOps[T], x: T) -> T:
    """Whether x is 0, as bool"""
    return s.logical_not(x)


@pointwise(BITS, commutative=True)
def bitwise_and(s: ScalarOps[T], x: T, y: T) -> T:
    """x & y"""
    return s.bitwise_and(x, y)


@pointwise(BITS, commutative=True)
def bitwise_or(s: ScalarOps[T], x: T, y: T) -> T:
    """x | y"""
    return s.bitwise_or(x, y)


@pointwise(BITS, commutative=True)
def bitwise_xor(s: ScalarOps[T], x: T, y: T) -> T:
    """x ^ y"""
    return s.bitwise_xor(x, y)


@pointwise(INTEGERS)
def bitwise_not(s: ScalarOps[T], x: T) -> T:
    """~x (of a bool: use not)"""
    return s.bitwise_not(x)


@pointwise(INTEGERS)
def shift_left(s: ScalarOps[T], x: T, y: T) -> T:
    """x << y; 0 where y is not inside the width of the type"""
    return s.shift_left(x, y)


@pointwise(INTEGERS)
def shift_right(s: ScalarOps[T], x: T, y: T) -> T:
    """x >> y; signed types keep the sign"""
    return s.shift_right(x, y)


# ---- choice and conversion ----


@pointwise(ANY, base=Conditional)
def where(s: ScalarOps[T], condition: T, x: T, y: T) -> T:
    """x where the condition is true, else y"""
    return s.where(condition, x, y)


@pointwise(ANY, base=Converting)
def convert(s: ScalarOps[T], x: T, *, target_type: str) -> T:
    """x as another element type (ONNX Cast); floats truncate to integers"""
    return s.cast(x, target_type)


class Identity(Operation, name="identity"):
    """x itself."""

    arity = 1
    view = True
    data_movement = True

    def infer(self, *inputs: Shape) -> Shape:
        return inputs[0]

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return args[0]
