"""Reductions, softmax and its kin, choosing along an axis, prefix sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in
from migraphx.onnx.registry import converter, register

Value = Instruction
Axes = tuple[int, ...]


def l1(b: OnnxBuilder, x: Value, axes: Axes) -> Value:
    return b.reduce_sum(b.abs(x), axes=axes)


def sum_square(b: OnnxBuilder, x: Value, axes: Axes) -> Value:
    return b.reduce_sum(b.mul(x, x), axes=axes)


def l2(b: OnnxBuilder, x: Value, axes: Axes) -> Value:
    if x.shape.type in dtypes.FLOATS:
        return b.norm(x, p=2.0, axes=axes, keepdims=True)
    return b.cast(b.sqrt(b.cast(sum_square(b, x, axes), "double")), x.shape.type)


def log_sum(b: OnnxBuilder, x: Value, axes: Axes) -> Value:
    total = b.reduce_sum(x, axes=axes)
    wide = total if x.shape.type in dtypes.FLOATS else b.cast(total, "double")
    return b.cast(b.log(wide), x.shape.type)


def log_sum_exp(b: OnnxBuilder, x: Value, axes: Axes) -> Value:
    wide = x if x.shape.type in dtypes.FLOATS else b.cast(x, "double")
    return b.cast(b.logsumexp(wide, axes=axes, keepdims=True), x.shape.type)


def primitive(name: str) -> Callable[..., Value]:
    return lambda b, x, axes: getattr(b, name)(x, axes=axes)


REDUCTIONS: dict[str, tuple[Callable[..., Value], float]] = {
    "ReduceL1": (l1, 0),
    "ReduceL2": (l2, 0),
    "ReduceLogSum": (log_sum, -math.inf),
    "ReduceLogSumExp": (log_sum_exp, -math.inf),
    "ReduceMax": (primitive("reduce_max"), -math.inf),
    "ReduceMean": (primitive("reduce_mean"), math.nan),
    "ReduceMin": (primitive("reduce_min"), math.inf),
    "ReduceProd": (primitive("reduce_prod"), 1),
    "ReduceSum": (primitive("reduce_sum"), 0),
    "ReduceSumSquare": (sum_square, 0),
}
"""ONNX operator -> how, and the value of no elements."""


def reduction(reduce: Callable[..., Value], of_nothing: float) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, x: Value, axes: Any = None, *, keepdims: int, noop_with_empty_axes: int = 0) -> Value:
        wanted = b.ints(axes, "axes") or ()
        if not wanted and noop_with_empty_axes:  # what is done beside the sum is done
            last = (x.shape.ndim,)
            return b.squeeze(reduce(b, b.unsqueeze(x, axes=last), last), axes=last)
        dims = tuple(sorted({axis_in(a, x.shape.ndim) for a in wanted})) or tuple(range(x.shape.ndim))
        if any(x.shape.lens[a] == 0 for a in dims):
            lens = [1 if d in dims else n for d, n in enumerate(x.shape.lens)]
            y = b.literal(np.full(lens, limited(of_nothing, x.shape.numpy_dtype)).astype(x.shape.numpy_dtype))
        elif not x.shape.ndim:
            y = b.reshape(reduce(b, b.reshape(x, dims=(1,)), (0,)), dims=())
        else:
            y = reduce(b, x, dims)
        return y if keepdims or not dims else b.squeeze(y, axes=dims)

    return convert


def limited(value: float, dtype: np.dtype) -> float:
    """An infinity as the extreme of an integer type."""
    if dtype.kind == "b":
        return value > 0
    if dtype.kind not in "iu" or not math.isinf(value):
        return value
    return np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min


for op, row in REDUCTIONS.items():
    register(op, reduction(*row))


# ---- softmax ----


def along(b: OnnxBuilder, x: Value, axis: int, function: Callable[[Value, int], Value]) -> Value:
    """`function` along `axis`; before opset 13, along all dimensions from `axis` on together."""
    axis = axis_in(axis, x.shape.ndim) if x.shape.ndim else 0
    if b.version >= 13 or axis == x.shape.ndim - 1:
        return function(x, axis)
    return b.reshape(function(b.flatten(x, axis=axis), 1), dims=x.shape.lens)


@converter("Softmax")
def softmax(b: OnnxBuilder, x: Value, *, axis: int) -> Value:
    return along(b, x, axis, lambda v, a: b.softmax(v, axis=a))


@converter("LogSoftmax")
def log_softmax(b: OnnxBuilder, x: Value, *, axis: int) -> Value:
    return along(b, x, axis, lambda v, a: b.logsoftmax(v, axis=a))


@converter("Hardmax")
def hardmax(b: OnnxBuilder, x: Value, *, axis: int) -> Value:
    def one_hot(v: Value, a: int) -> Value:
        if v.shape.lens[a] == 0:
            return v
        best = b.squeeze(b.argmax(v, axis=a), axes=(a,))
        values = b.literal(np.array([0, 1], v.shape.numpy_dtype))
        return b.onehot(best, values, axis=a, depth=v.shape.lens[a])

    return along(b, x, axis, one_hot)


# ---- along one axis ----


def arg_extreme(name: str) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, x: Value, *, axis: int, keepdims: int, select_last_index: int = 0) -> Value:
        axis = axis_in(axis, x.shape.ndim)
        y = getattr(b, name)(x, axis=axis, select_last_index=bool(select_last_index))
        return y if keepdims else b.squeeze(y, axes=(axis,))

    return convert


register("ArgMax", arg_extreme("argmax"))
register("ArgMin", arg_extreme("argmin"))


@converter("TopK")
def topk(
    b: OnnxBuilder,
    x: Value,
    count: Value | None = None,
    *,
    k: int | None = None,
    axis: int,
    largest: int = 1,
    sorted: int = 1,
) -> tuple[Value, ...]:
    """Sorted, whether asked for or not. `k` is an attribute before opset 10."""
    if count is not None and count.shape.ndim != 1:
        b.deviates(f"its k must have one dimension, has lens {count.shape.lens}")
    number = b.number(count if k is None else k, "k")
    return tuple(b.outputs(b.topk(x, k=number, axis=axis_in(axis, x.shape.ndim), largest=bool(largest)), 2))


@converter("CumSum")
def cumsum(b: OnnxBuilder, x: Value, axis: Value, *, exclusive: int, reverse: int) -> Value:
    place = axis_in(b.number(axis, "axis"), x.shape.ndim)
    return b.prefix_scan_sum(x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


@converter("CumProd")
def cumprod(b: OnnxBuilder, x: Value, axis: Value, *, exclusive: int, reverse: int) -> Value:
    place = axis_in(b.number(axis, "axis"), x.shape.ndim)
    y = b.reverse(x, axes=(place,)) if reverse else x
    if exclusive:
        ones = b.slice(b.full(1, x), axes=(place,), starts=(0,), ends=(1,))
        y = b.concat(ones, b.slice(y, axes=(place,), starts=(0,), ends=(-1,)), axis=place)
    y = b.cumprod(y, axis=place)
    return b.reverse(y, axes=(place,)) if reverse else y
