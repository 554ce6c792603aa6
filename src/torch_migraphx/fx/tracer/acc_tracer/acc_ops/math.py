"""Acc operators: arithmetic, comparisons, elementary functions, selection by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import NodeBuilder, acc_mapper, acc_op, declare

aten = torch.ops.aten


def _spelled(names: str) -> list[Callable[..., Any] | str]:
    """All that torch calls an operation: functions, methods, methods that write to their tensor."""
    found: list[Callable[..., Any] | str] = []
    for name in names.split():
        spellings = [(torch, name), (torch.special, name), (torch, name + "_")]
        found += [getattr(module, spelling) for module, spelling in spellings if hasattr(module, spelling)]
        found += [method for method in (name, name + "_") if hasattr(torch.Tensor, method)]
    return found


def _operators(name: str) -> list[Callable[..., Any] | str]:
    """Python's operator: the functions of `operator` and the methods of tensors."""
    functions = [getattr(operator, n) for n in (name, name + "_", "i" + name) if hasattr(operator, n)]
    return [*functions, *(m for m in (f"__{name}__", f"__i{name}__") if hasattr(torch.Tensor, m))]


def _unary(names: str, *targets: Callable[..., Any] | str, to: str = "") -> Callable[..., Any]:
    """One row: all spellings of torch's `names`, other `targets`, and the engine's operator where it is one."""
    name = names.split()[0]
    overload = getattr(aten, name).default if to else ()
    return declare(f"{name}(input)", *_spelled(names), *targets, aten=overload, unary=to)


_unary("abs absolute", *_operators("abs"))
_unary("acos arccos", to="acos")
_unary("acosh arccosh", to="acosh")
_unary("asin arcsin", to="asin")
_unary("asinh arcsinh", to="asinh")
_unary("atan arctan", to="atan")
_unary("atanh arctanh", to="atanh")
_unary("bitwise_not", operator.inv, *_operators("invert"))
_unary("ceil")
_unary("cos", to="cos")
_unary("cosh", to="cosh")
_unary("deg2rad")
_unary("digamma", to="digamma")
_unary("erf", to="erf")
_unary("erfc")
_unary("erfinv", to="erfinv")
_unary("exp", to="exp")
_unary("exp2", to="exp2")
_unary("expm1", to="expm1")
_unary("floor")
_unary("frac")
_unary("isfinite")
_unary("isinf")
_unary("isnan")
_unary("lgamma", to="lgamma")
_unary("log", to="log")
_unary("log10", to="log10")
_unary("log1p", to="log1p")
_unary("log2", to="log2")
_unary("logical_not")
_unary("neg negative", *_operators("neg"))
_unary("rad2deg")
_unary("reciprocal", to="recip")
_unary("rsqrt", to="rsqrt")
_unary("sgn")
_unary("sign")
_unary("sin", to="sin")
_unary("sinh", to="sinh")
_unary("sqrt", to="sqrt")
_unary("square")
_unary("tan", to="tan")
_unary("trunc fix")


def _binary(
    name: str, *targets: Callable[..., Any] | str, to: str = "", aten: Any = (), **rename: Any
) -> Callable[..., Any]:
    """One row: the spellings `targets`, the ATen overloads, and the engine's operator where it is one."""
    return declare(f"{name}(input, {rename.get('other', 'other')})", *targets, aten=aten, pointwise=to, **rename)


def _with_scalars(overloads: Any) -> tuple[Callable[..., Any], ...]:
    return overloads.Tensor, overloads.Scalar


_binary("bitwise_and", *_spelled("bitwise_and"), *_operators("and"), "__rand__")
_binary("bitwise_or", *_spelled("bitwise_or"), *_operators("or"), "__ror__")
_binary("bitwise_xor", *_spelled("bitwise_xor"), *_operators("xor"), "__rxor__")
_binary("atan2", *_spelled("atan2 arctan2"))
_binary("fmax", *_spelled("fmax"))
_binary("fmin", *_spelled("fmin"))
_binary("logaddexp", *_spelled("logaddexp"))
_binary("logical_and", *_spelled("logical_and"))
_binary("logical_or", *_spelled("logical_or"))
_binary("logical_xor", *_spelled("logical_xor"))
maximum = _binary("maximum", *_spelled("maximum"), aten=(aten.maximum.default, aten.max.other), to="max")
minimum = _binary("minimum", *_spelled("minimum"), aten=(aten.minimum.default, aten.min.other), to="min")
_binary("xlogy", *_spelled("xlogy"))

# of Python numbers Python's own operators are numbers, torch's functions are not
add = _binary("add", *_operators("add"), "__radd__")
sub = _binary("sub", *_operators("sub"))
mul = _binary(
    *("mul", *_operators("mul"), *_spelled("mul multiply"), "__rmul__"), aten=_with_scalars(aten.mul), to="mul"
)
div = _binary("div", *_operators("truediv"), *_spelled("true_divide"))
floor_div = _binary(
    *("floor_div", *_operators("floordiv"), *_spelled("floor_divide")),
    aten=aten.floor_divide.default,
    to="floor_divide",
)
_binary(
    *("remainder", *_operators("mod"), *_spelled("remainder")),
    aten=(*_with_scalars(aten.remainder), aten.remainder.Scalar_Tensor),
    to="mod",
)
_binary("fmod", *_spelled("fmod"), aten=_with_scalars(aten.fmod), to="fmod")
pow = _binary("pow", *_operators("pow"), *_spelled("pow"), other="exponent")
_binary("eq", *_operators("eq"), *_spelled("eq"), aten=_with_scalars(aten.eq), to="equal")
_binary("ne", *_operators("ne"), *_spelled("ne not_equal"), aten=_with_scalars(aten.ne), to="not_equal")
_binary("lt", *_operators("lt"), *_spelled("lt less"), aten=_with_scalars(aten.lt), to="less")
_binary("le", *_operators("le"), *_spelled("le less_equal"), aten=_with_scalars(aten.le), to="less_or_equal")
_binary("gt", *_operators("gt"), *_spelled("gt greater"), aten=_with_scalars(aten.gt), to="greater")
_binary("ge", *_operators("ge"), *_spelled("ge greater_equal"), aten=_with_scalars(aten.ge), to="greater_or_equal")


@acc_op()
def trunc_div(*, input: Any, other: Any) -> Any:
    """input / other, rounded toward zero."""
    return torch.div(input, other, rounding_mode="trunc")


declare("round(input, decimals=0)", *_spelled("round"))
declare("logit(input, eps=None)", *_spelled("logit"))
declare("nan_to_num(input, nan=None, posinf=None, neginf=None)", *_spelled("nan_to_num"))
clamp = declare("clamp(input, min=None, max=None)", *_spelled("clamp clip"))
declare("lerp(input, end, weight)", *_spelled("lerp"))
declare("addcmul(input, tensor1, tensor2, value=1)", *_spelled("addcmul"))
declare("addcdiv(input, tensor1, tensor2, value=1)", *_spelled("addcdiv"))
where = declare("where(condition, x, y)", torch.where, input="x", self="x", other="y")
declare("masked_fill(input, mask, value)", *_spelled("masked_fill"))


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
