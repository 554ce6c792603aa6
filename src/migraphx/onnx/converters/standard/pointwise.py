"""Elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.shape import broadcast_lens
from migraphx.onnx.builder import OnnxBuilder, axis_in
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, register

Value = Instruction

UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Det": "det",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hardswish",
    "IsNaN": "isnan",
    "Log": "log",
    "Mish": "mish",
    "Neg": "neg",
    "Not": "not",
    "Reciprocal": "recip",
    "Relu": "relu",
    "Round": "nearbyint",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
"""ONNX operator -> ours, of one input and no attribute."""

BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Div": "div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_or_equal",
    "Less": "less",
    "LessOrEqual": "less_or_equal",
    "Mul": "mul",
    "Or": "logical_or",
    "Sub": "sub",
    "Xor": "logical_xor",
}
"""ONNX operator -> ours, of two inputs that broadcast."""

VARIADIC = {"Max": "max", "Min": "min", "Sum": "add"}


def unary(name: str) -> Callable[..., Value]:
    return lambda b, x: getattr(b, name)(x)


def binary(name: str) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, x: Value, y: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
        return getattr(b, name)(*b.common(x, placed(b, x, y, axis if broadcast else None)))

    return convert


def placed(b: OnnxBuilder, x: Value, y: Value, axis: int | None) -> Value:
    """y with dimensions added behind, so that it begins at x's `axis` (broadcasting before opset 7)."""
    behind = 0 if axis is None else x.shape.ndim - axis_in(axis, x.shape.ndim) - y.shape.ndim
    return y if behind <= 0 else b.unsqueeze(y, axes=tuple(range(y.shape.ndim, y.shape.ndim + behind)))


def variadic(name: str) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, *inputs: Value) -> Value:
        first, *rest = b.common(*inputs)
        for other in rest:
            first = getattr(b, name)(first, other)
        return first

    return convert


COMPARED = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
for op, name in UNARY.items():
    register(op, unary(name), also=dtypes.INTEGERS if name == "not" else frozenset())
for op, name in BINARY.items():
    register(op, binary(name), promotes=False, also=frozenset({"bool"} if op in COMPARED else ()))
for op, name in VARIADIC.items():
    register(op, variadic(name), promotes=False)


@converter("Mean", promotes=False, also=dtypes.INTEGERS)
def mean(b: OnnxBuilder, *inputs: Value) -> Value:
    total = variadic("add")(b, *inputs)
    return b.div(total, b.full(len(inputs), total))


@converter("Erf")
def erf(b: OnnxBuilder, x: Value) -> Value:
    """Of integers, which opset 9 takes, truncated."""
    wide = x if x.shape.type in dtypes.FLOATS else b.cast(x, "double")
    return b.cast(b.erf(wide), x.shape.type)


@converter("Pow")
def pow_(b: OnnxBuilder, x: Value, y: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
    """The result has x's type, whatever y's."""
    return b.cast(b.pow(*b.common(x, placed(b, x, y, axis if broadcast else None))), x.shape.type)


@converter("Mod", promotes=True)
def mod(b: OnnxBuilder, x: Value, y: Value, *, fmod: int) -> Value:
    if fmod not in (0, 1):
        raise OnnxError(f"fmod must be 0 or 1, is {fmod}")
    x, y = b.common(x, y)
    if not fmod and x.shape.type in dtypes.FLOATS and b.version < 28:
        raise OnnxError("before opset 28 the remainder of floats needs fmod=1")
    return b.fmod(x, y) if fmod else b.mod(x, y)


@converter("BitShift")
def bit_shift(b: OnnxBuilder, x: Value, y: Value, *, direction: str) -> Value:
    if direction not in ("LEFT", "RIGHT"):
        raise OnnxError(f"direction must be LEFT or RIGHT, is {direction!r}")
    x, y = b.common(x, y)
    return b.shift_left(x, y) if direction == "LEFT" else b.shift_right(x, y)


@converter("Where")
def where(b: OnnxBuilder, condition: Value, x: Value, y: Value) -> Value:
    lens = broadcast_lens(condition.shape.lens, x.shape.lens, y.shape.lens)
    x, y = b.common(x, y)
    return b.where(*(b.broadcast_to(v, lens) for v in (condition, x, y)))


# ---- activations ----


@converter("LeakyRelu")
def leaky_relu(b: OnnxBuilder, x: Value, *, alpha: float) -> Value:
    return b.leaky_relu(x, alpha=alpha)


@converter("Elu")
def elu(b: OnnxBuilder, x: Value, *, alpha: float) -> Value:
    return b.elu(x, alpha=alpha)


@converter("Celu")
def celu(b: OnnxBuilder, x: Value, *, alpha: float) -> Value:
    if alpha == 0:
        raise OnnxError("alpha is 0, by which x is divided")
    if x.shape.type != "float" and b.version < 28:
        raise OnnxError(f"before opset 28 takes float alone, got {x.shape.type}")
    return b.celu(x, alpha=alpha)


@converter("Selu")
def selu(b: OnnxBuilder, x: Value, *, alpha: float, gamma: float) -> Value:
    return b.selu(x, alpha=alpha, gamma=gamma)


@converter("HardSigmoid")
def hard_sigmoid(b: OnnxBuilder, x: Value, *, alpha: float, beta: float) -> Value:
    return b.hardsigmoid(x, alpha=alpha, beta=beta)


@converter("ThresholdedRelu")
def thresholded_relu(b: OnnxBuilder, x: Value, *, alpha: float) -> Value:
    """x above alpha, else 0: for NaN too, which torch's threshold keeps."""
    return b.where(b.greater(x, b.full(alpha, x)), x, b.full(0.0, x))


@converter("Gelu")
def gelu(b: OnnxBuilder, x: Value, *, approximate: str) -> Value:
    return b.gelu(x, approximate=approximate)


@converter("Swish")
def swish(b: OnnxBuilder, x: Value, *, alpha: float) -> Value:
    return b.silu(x) if alpha == 1 else b.quick_gelu(x, alpha=alpha)


@converter("Softplus")
def softplus(b: OnnxBuilder, x: Value) -> Value:
    return b.softplus(x, threshold=math.inf)


@converter("Shrink")
def shrink(b: OnnxBuilder, x: Value, *, lambd: float, bias: float) -> Value:
    """0 for NaN, which torch's softshrink keeps."""
    if x.shape.type in dtypes.FLOATS:
        return b.where(b.isnan(x), b.full(0.0, x), b.softshrink(x, lambd=lambd, bias=bias))
    return b.cast(b.softshrink(b.cast(x, "float"), lambd=lambd, bias=bias), x.shape.type)


@converter("PRelu")
def prelu(b: OnnxBuilder, x: Value, slope: Value) -> Value:
    """Before opset 7 a slope {C} is one a channel."""
    if b.version < 7 and slope.shape.ndim == 1 and x.shape.ndim > 1 and slope.shape.elements > 1:
        slope = b.reshape(slope, dims=(-1, *(1,) * (x.shape.ndim - 2)))
    lens = x.shape.lens
    x, slope = b.common(x, slope)
    if x.shape.elements != math.prod(lens):
        b.deviates("its slope does not broadcast to x")
    if x.shape.type not in dtypes.UNSIGNED:  # of which none is below 0
        return b.prelu(x, slope)
    return x


@converter("Clip", promotes=True)
def clip(b: OnnxBuilder, x: Value, low: Value | None = None, high: Value | None = None, **bounds: float) -> Value:
    """The bounds are attributes `min` and `max` before opset 11, then inputs of one element."""
    if any(v is not None and v.shape.elements != 1 for v in (low, high)):
        b.deviates("its bounds must be single numbers")
        lens = broadcast_lens(*(v.shape.lens for v in (x, low, high) if v is not None))
        x = b.broadcast_to(x, lens)
        low, high = (v if v is None else b.broadcast_to(v, lens) for v in (low, high))
    for word, bound, attribute in (("max", low, bounds.get("min")), ("min", high, bounds.get("max"))):
        if bound is not None:
            single = b.cast(bound, x.shape.type)
            if bound.shape.elements == 1:
                single = b.broadcast_to(b.reshape(single, dims=(1,) * x.shape.ndim), x.shape.lens)
            x = getattr(b, word)(x, single)
        elif attribute is not None:
            x = getattr(b, word)(x, b.full(attribute, x))
    return x


@converter("IsInf")
def is_inf(b: OnnxBuilder, x: Value, *, detect_negative: int, detect_positive: int) -> Value:
    if detect_negative and detect_positive:
        return b.isinf(x)
    sides = ((detect_negative, -math.inf), (detect_positive, math.inf))
    bound = next((v for wanted, v in sides if wanted), None)
    return b.full(False, b.isinf(x)) if bound is None else b.equal(x, b.full(bound, x))


@converter("Identity")
def identity(b: OnnxBuilder, x: Any) -> Any:
    return x
