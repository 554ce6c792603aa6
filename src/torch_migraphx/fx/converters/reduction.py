"""Reductions, arg-reductions, scans, order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, axes, axis, dtype_of, float_dtype, lens, rank
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten

Dims = int | Sequence[int] | None


def reduced(b: Builder, operator: str, x: Value, dim: Dims, keepdim: bool) -> Value:
    """One of the engine's reductions along `dim` (all axes where None), whose axes go unless `keepdim`."""
    along = axes(dim, rank(x))
    if rank(x) == 0:
        return x
    y = getattr(b, operator)(x, axes=along)
    return y if keepdim else b.squeeze(y, axes=along)


def _sum_dtype(x: Value, dtype: torch.dtype | None) -> torch.dtype:
    own = dtype_of(x)
    return dtype or (own if own.is_floating_point else torch.int64)


@converter(acc_ops.sum, aten.sum.default, aten.sum.dim_IntList)
def sum(b: Builder, input: Value, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    return reduced(b, "reduce_sum", b.cast(input, _sum_dtype(input, dtype)), dim, keepdim)


@converter(acc_ops.mean, aten.mean.default, aten.mean.dim)
def mean(b: Builder, input: Value, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    return reduced(b, "reduce_mean", b.cast(input, dtype or dtype_of(input)), dim, keepdim)


@converter(acc_ops.prod, aten.prod.default, aten.prod.dim_int)
def prod(b: Builder, input: Value, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    return reduced(b, "reduce_prod", b.cast(input, _sum_dtype(input, dtype)), dim, keepdim)


@converter(acc_ops.amax, aten.amax.default)
def amax(b: Builder, input: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return reduced(b, "reduce_max", input, dim, keepdim)


@converter(acc_ops.amin, aten.amin.default)
def amin(b: Builder, input: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return reduced(b, "reduce_min", input, dim, keepdim)


@converter(acc_ops.max_full_reduce, aten.max.default)
def max_full_reduce(b: Builder, input: Value) -> Value:
    return reduced(b, "reduce_max", input, None, False)


@converter(acc_ops.min_full_reduce, aten.min.default)
def min_full_reduce(b: Builder, input: Value) -> Value:
    return reduced(b, "reduce_min", input, None, False)


def _extreme(b: Builder, word: str, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    values = reduced(b, f"reduce_{word}", x, dim, keepdim)
    return values, _arg(b, f"arg{word}", x, dim, keepdim)


@converter(acc_ops.max_dim_reduce, aten.max.dim)
def max_dim_reduce(b: Builder, input: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _extreme(b, "max", input, dim, keepdim)


@converter(acc_ops.min_dim_reduce, aten.min.dim)
def min_dim_reduce(b: Builder, input: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _extreme(b, "min", input, dim, keepdim)


def _arg(b: Builder, operator: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    if rank(x) == 0:
        return b.full(0, torch.int64)
    if dim is None:
        y = getattr(b, operator)(b.view(x, [math.prod(lens(x))]), axis=0)
        return b.view(y, [1] * rank(x) if keepdim else [])
    d = axis(dim, rank(x))
    y = getattr(b, operator)(x, axis=d)
    return y if keepdim else b.squeeze(y, axes=[d])


@converter(acc_ops.argmax, aten.argmax.default)
def argmax(b: Builder, input: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _arg(b, "argmax", input, dim, keepdim)


@converter(acc_ops.argmin, aten.argmin.default)
def argmin(b: Builder, input: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _arg(b, "argmin", input, dim, keepdim)


@converter(acc_ops.any, aten.any.default, aten.any.dim, aten.any.dims)
def any(b: Builder, input: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    y = reduced(b, "reduce_any", b.cast(input, torch.bool), dim, keepdim)
    return b.cast(y, torch.uint8) if dtype_of(input) == torch.uint8 else y


@converter(acc_ops.all, aten.all.default, aten.all.dim, aten.all.dims)
def all(b: Builder, input: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    y = reduced(b, "reduce_all", b.cast(input, torch.bool), dim, keepdim)
    return b.cast(y, torch.uint8) if dtype_of(input) == torch.uint8 else y


@converter(acc_ops.logsumexp, aten.logsumexp.default)
def logsumexp(b: Builder, input: Value, dim: Dims, keepdim: bool = False) -> Value:
    x = b.cast(input, float_dtype(input))
    return x if rank(x) == 0 else b.logsumexp(x, axes=axes(dim, rank(x)), keepdims=keepdim)


@converter(acc_ops.count_nonzero, aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(b: Builder, input: Value, dim: Dims = None) -> Value:
    return sum(b, b.cast(input, torch.bool), dim)


def variance(b: Builder, x: Value, dim: Dims, correction: float | None, keepdim: bool) -> Value:
    if rank(x) == 0:
        return b.view(variance(b, b.view(x, [1]), 0, correction, False), [])
    free = 1 if correction is None else correction
    return b.var(x, axes=axes(dim, rank(x)), correction=free, keepdims=keepdim)


@converter(acc_ops.var, aten.var.correction)
def var(b: Builder, input: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False) -> Value:
    return variance(b, input, dim, correction, keepdim)


@converter(acc_ops.std, aten.std.correction)
def std(b: Builder, input: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False) -> Value:
    return b.sqrt(var(b, input, dim, correction, keepdim))


@converter(aten.var_mean.correction)
def var_mean(
    b: Builder, input: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return variance(b, input, dim, correction, keepdim), mean(b, input, dim, keepdim)


def _norm(b: Builder, x: Value, p: float, dim: Dims, keepdim: bool) -> Value:
    if rank(x) == 0:
        return b.view(_norm(b, b.view(x, [1]), p, 0, False), [])
    return b.norm(x, p=p, axes=axes(dim, rank(x)), keepdims=keepdim)


@converter(acc_ops.norm)
def norm(
    b: Builder,
    input: Value,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Value:
    if p == "nuc":
        raise UnsupportedError("the nuclear norm")
    order = 2.0 if p in ("fro", None) else float(p)
    return _norm(b, b.cast(input, dtype or dtype_of(input)), order, dim, keepdim)


@converter(aten.linalg_vector_norm.default)
def vector_norm(
    b: Builder,
    input: Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Value:
    return _norm(b, b.cast(input, dtype or dtype_of(input)), float(ord), dim, keepdim)


@converter(aten._cdist_forward.default)
def cdist(b: Builder, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    """Norms of all differences: never by a matrix product, which loses digits where points are near."""
    first, second = b.unsqueeze(x1, axes=[rank(x1) - 1]), b.unsqueeze(x2, axes=[rank(x2) - 2])
    return _norm(b, b.pointwise("sub", first, second), p, -1, False)


@converter(aten._pdist_forward.default)
def pdist(b: Builder, input: Value, p: float = 2) -> Value:
    """Norms of the differences of all pairs of rows, in order."""
    count = lens(input)[0]
    first, second = (b.gather(input, b.literal(k), axis=0) for k in torch.triu_indices(count, count, 1))
    return _norm(b, b.sub(first, second), p, -1, False)


# ---- scans and order ----


@converter(acc_ops.cumsum, aten.cumsum.default)
def cumsum(b: Builder, input: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    x = b.cast(input, _sum_dtype(input, dtype))
    return x if rank(x) == 0 else b.prefix_scan_sum(x, axis=axis(dim, rank(x)))


@converter(acc_ops.cumprod, aten.cumprod.default)
def cumprod(b: Builder, input: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    x = b.cast(input, _sum_dtype(input, dtype))
    return x if rank(x) == 0 else b.cumprod(x, axis=axis(dim, rank(x)))


def _tuple(b: Builder, pair: Value) -> tuple[Value, Value]:
    return b.get_tuple_elem(pair, index=0), b.get_tuple_elem(pair, index=1)


@converter(acc_ops.topk, aten.topk.default)
def topk(
    b: Builder, input: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """In order even where `sorted` is False, which allows any order."""
    if rank(input) == 0:
        pair = topk(b, b.view(input, [1]), k, 0, largest)
        return (b.view(pair[0], []), b.view(pair[1], [])) if k else pair
    return _tuple(b, b.topk(input, k=k, axis=axis(dim, rank(input)), largest=largest))


@converter(acc_ops.sort, aten.sort.default, aten.sort.stable)
def sort(
    b: Builder, input: Value, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> tuple[Value, Value]:
    """The engine's order is always stable."""
    if rank(input) == 0:
        return input, b.full(0, torch.int64)
    d = axis(dim, rank(input))
    return _tuple(b, b.topk(input, k=lens(input)[d], axis=d, largest=descending))


@converter(acc_ops.argsort, aten.argsort.default, aten.argsort.stable)
def argsort(b: Builder, input: Value, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Value:
    return sort(b, input, dim, descending)[1]
