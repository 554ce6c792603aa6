"""Acc operators: arithmetic, comparisons, elementary functions, selection by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from ..acc_normalizer import NodeBuilder, acc_mapper, acc_op


def _unary(fn: Callable[..., Any], *targets: Callable[..., Any] | str) -> Callable[..., Any]:
    """One row: the torch function `fn`, its method, its in-place method, and other `targets`."""
    name = fn.__name__
    methods = [m for m in (name, name + "_") if hasattr(torch.Tensor, m)]

    def unary(*, input: Any) -> Any:
        return fn(input)

    unary.__name__ = name
    unary.__doc__ = f"torch.{name}, element by element."
    return acc_op(fn, *methods, *targets)(unary)


def _binary(fn: Callable[..., Any], *targets: Callable[..., Any] | str) -> Callable[..., Any]:
    """One row: the torch function `fn`, its method, its in-place method, and other `targets`."""
    name = fn.__name__
    methods = [m for m in (name, name + "_") if hasattr(torch.Tensor, m)]

    def binary(*, input: Any, other: Any) -> Any:
        return fn(input, other)

    binary.__name__ = name
    binary.__doc__ = f"torch.{name}, element by element, with broadcasting."
    return acc_op(fn, *methods, *targets)(binary)


abs = _unary(torch.abs, operator.abs, torch.absolute, "absolute", "absolute_", "__abs__")
acos = _unary(torch.acos, torch.arccos, "arccos")
acosh = _unary(torch.acosh, torch.arccosh, "arccosh")
asin = _unary(torch.asin, torch.arcsin, "arcsin")
asinh = _unary(torch.asinh, torch.arcsinh, "arcsinh")
atan = _unary(torch.atan, torch.arctan, "arctan")
atanh = _unary(torch.atanh, torch.arctanh, "arctanh")
bitwise_not = _unary(torch.bitwise_not, operator.inv, operator.invert, "__invert__")
ceil = _unary(torch.ceil)
cos = _unary(torch.cos)
cosh = _unary(torch.cosh)
deg2rad = _unary(torch.deg2rad)
digamma = _unary(torch.digamma)
erf = _unary(torch.erf, torch.special.erf)
erfc = _unary(torch.erfc, torch.special.erfc)
erfinv = _unary(torch.erfinv)
exp = _unary(torch.exp)
exp2 = _unary(torch.exp2, torch.special.exp2)
expm1 = _unary(torch.expm1, torch.special.expm1)
floor = _unary(torch.floor)
frac = _unary(torch.frac)
isfinite = _unary(torch.isfinite)
isinf = _unary(torch.isinf)
isnan = _unary(torch.isnan)
lgamma = _unary(torch.lgamma)
log = _unary(torch.log)
log10 = _unary(torch.log10)
log1p = _unary(torch.log1p, torch.special.log1p)
log2 = _unary(torch.log2)
logical_not = _unary(torch.logical_not)
neg = _unary(torch.neg, operator.neg, torch.negative, "negative", "negative_", "__neg__")
rad2deg = _unary(torch.rad2deg)
reciprocal = _unary(torch.reciprocal)
rsqrt = _unary(torch.rsqrt)
sgn = _unary(torch.sgn)
sign = _unary(torch.sign)
sin = _unary(torch.sin)
sinh = _unary(torch.sinh)
sqrt = _unary(torch.sqrt)
square = _unary(torch.square)
tan = _unary(torch.tan)
trunc = _unary(torch.trunc, torch.fix, "fix", "fix_")

bitwise_and = _binary(torch.bitwise_and, operator.and_, operator.iand, "__and__", "__iand__", "__rand__")
bitwise_or = _binary(torch.bitwise_or, operator.or_, operator.ior, "__or__", "__ior__", "__ror__")
bitwise_xor = _binary(torch.bitwise_xor, operator.xor, operator.ixor, "__xor__", "__ixor__", "__rxor__")
atan2 = _binary(torch.atan2, torch.arctan2, "arctan2")
fmax = _binary(torch.fmax)
fmin = _binary(torch.fmin)
logaddexp = _binary(torch.logaddexp)
logical_and = _binary(torch.logical_and)
logical_or = _binary(torch.logical_or)
logical_xor = _binary(torch.logical_xor)
maximum = _binary(torch.maximum)
minimum = _binary(torch.minimum)
xlogy = _binary(torch.xlogy)


@acc_op(operator.add, operator.iadd, "__add__", "__radd__", "__iadd__")
def add(*, input: Any, other: Any) -> Any:
    """input + other"""
    return input + other


@acc_op(operator.sub, operator.isub, "__sub__", "__isub__")
def sub(*, input: Any, other: Any) -> Any:
    """input - other"""
    return input - other


@acc_op(
    *(operator.mul, operator.imul, torch.mul, torch.multiply),
    *("mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__"),
)
def mul(*, input: Any, other: Any) -> Any:
    """input * other"""
    return input * other


@acc_op(operator.truediv, operator.itruediv, torch.true_divide, "true_divide", "__truediv__", "__itruediv__")
def div(*, input: Any, other: Any) -> Any:
    """input / other, in floating point."""
    return input / other


@acc_op(
    *(operator.floordiv, operator.ifloordiv, torch.floor_divide),
    *("floor_divide", "floor_divide_", "__floordiv__", "__ifloordiv__"),
)
def floor_div(*, input: Any, other: Any) -> Any:
    """floor(input / other)"""
    return input // other


@acc_op()
def trunc_div(*, input: Any, other: Any) -> Any:
    """input / other, rounded toward zero."""
    return torch.div(input, other, rounding_mode="trunc")


@acc_op(operator.mod, operator.imod, torch.remainder, "remainder", "remainder_", "__mod__", "__imod__")
def remainder(*, input: Any, other: Any) -> Any:
    """The remainder of floor division; its sign is other's."""
    return torch.remainder(input, other)


@acc_op(torch.fmod, "fmod", "fmod_")
def fmod(*, input: Any, other: Any) -> Any:
    """The remainder of truncating division; its sign is input's."""
    return torch.fmod(input, other)


@acc_op(operator.pow, operator.ipow, torch.pow, "pow", "pow_", "__pow__", "__ipow__", other="exponent")
def pow(*, input: Any, exponent: Any) -> Any:
    """input ** exponent"""
    return input**exponent


@acc_op(torch.eq, operator.eq, "eq", "__eq__")
def eq(*, input: Any, other: Any) -> Any:
    """input == other"""
    return input == other


@acc_op(torch.ne, torch.not_equal, operator.ne, "ne", "not_equal", "__ne__")
def ne(*, input: Any, other: Any) -> Any:
    """input != other"""
    return input != other


@acc_op(torch.lt, torch.less, operator.lt, "lt", "less", "__lt__")
def lt(*, input: Any, other: Any) -> Any:
    """input < other"""
    return input < other


@acc_op(torch.le, torch.less_equal, operator.le, "le", "less_equal", "__le__")
def le(*, input: Any, other: Any) -> Any:
    """input <= other"""
    return input <= other


@acc_op(torch.gt, torch.greater, operator.gt, "gt", "greater", "__gt__")
def gt(*, input: Any, other: Any) -> Any:
    """input > other"""
    return input > other


@acc_op(torch.ge, torch.greater_equal, operator.ge, "ge", "greater_equal", "__ge__")
def ge(*, input: Any, other: Any) -> Any:
    """input >= other"""
    return input >= other


@acc_op(torch.round, "round", "round_")
def round(*, input: Any, decimals: int = 0) -> Any:
    """Half to even, to `decimals` digits after the point."""
    return torch.round(input, decimals=decimals)


@acc_op(torch.logit, torch.special.logit, "logit")
def logit(*, input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), x clamped to [eps, 1 - eps] where eps is given."""
    return torch.logit(input, eps)


@acc_op(torch.nan_to_num, "nan_to_num", "nan_to_num_")
def nan_to_num(
    *, input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """NaN and the infinities replaced; None is 0 for NaN and the type's largest values for the others."""
    return torch.nan_to_num(input, nan, posinf, neginf)


@acc_op(torch.clamp, torch.clip, "clamp", "clamp_", "clip", "clip_")
def clamp(*, input: Any, min: Any = None, max: Any = None) -> Any:
    """min(max(input, min), max); a bound may be a number, a tensor or None."""
    return torch.clamp(input, min, max)


@acc_op(torch.lerp, "lerp", "lerp_")
def lerp(*, input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input)"""
    return torch.lerp(input, end, weight)


@acc_op(torch.addcmul, "addcmul", "addcmul_")
def addcmul(*, input: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Any:
    """input + value * tensor1 * tensor2"""
    return torch.addcmul(input, tensor1, tensor2, value=value)


@acc_op(torch.addcdiv, "addcdiv", "addcdiv_")
def addcdiv(*, input: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Any:
    """input + value * tensor1 / tensor2"""
    return torch.addcdiv(input, tensor1, tensor2, value=value)


@acc_op(torch.where, input="x", self="x", other="y")
def where(*, condition: Any, x: Any, y: Any) -> Any:
    """x where condition, else y."""
    return torch.where(condition, x, y)


@acc_op(torch.masked_fill, "masked_fill", "masked_fill_")
def masked_fill(*, input: Any, mask: Any, value: Any) -> Any:
    """value where mask, else input."""
    return torch.masked_fill(input, mask, value)


@acc_mapper(torch.add, "add", "add_")
def add_mapper(b: NodeBuilder, input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input + alpha * other"""
    scaled = other if alpha == 1 else b(mul, input=other, other=alpha)
    return b(add, input=input, other=scaled)


@acc_mapper(torch.sub, torch.subtract, "sub", "sub_", "subtract", "subtract_")
def sub_mapper(b: NodeBuilder, input: Any, other: Any, *, alpha: float = 1) -> Any:
    """input - alpha * other"""
    scaled = other if alpha == 1 else b(mul, input=other, other=alpha)
    return b(sub, input=input, other=scaled)


@acc_mapper(torch.rsub)
def rsub_mapper(b: NodeBuilder, input: Any, other: Any, *, alpha: float = 1) -> Any:
    """other - alpha * input"""
    scaled = input if alpha == 1 else b(mul, input=input, other=alpha)
    return b(sub, input=other, other=scaled)


@acc_mapper("__rsub__")
def reflected_sub_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """other - input"""
    return b(sub, input=other, other=input)


@acc_mapper("__rtruediv__", "__rdiv__")
def reflected_div_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """other / input"""
    return b(div, input=other, other=input)


@acc_mapper("__rpow__")
def reflected_pow_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """other ** input"""
    return b(pow, input=other, exponent=input)


@acc_mapper(torch.div, torch.divide, "div", "div_", "divide", "divide_")
def div_mapper(b: NodeBuilder, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """The division that `rounding_mode` names."""
    divisions = {None: div, "floor": floor_div, "trunc": trunc_div}
    return b(divisions[rounding_mode], input=input, other=other)


@acc_mapper("where")
def where_mapper(b: NodeBuilder, input: Any, condition: Any, other: Any) -> Any:
    """input where condition, else other."""
    return b(where, condition=condition, x=input, y=other)


@acc_mapper(torch.clamp_min, "clamp_min", "clamp_min_")
def clamp_min_mapper(b: NodeBuilder, input: Any, min: Any) -> Any:
    """max(input, min)"""
    return b(clamp, input=input, min=min)


@acc_mapper(torch.clamp_max, "clamp_max", "clamp_max_")
def clamp_max_mapper(b: NodeBuilder, input: Any, max: Any) -> Any:
    """min(input, max)"""
    return b(clamp, input=input, max=max)
