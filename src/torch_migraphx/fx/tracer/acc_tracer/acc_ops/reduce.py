"""Acc operators: reductions, scans, order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import NodeBuilder, Unmappable, acc_mapper, acc_op, declare

from .math import maximum, minimum

Dims = Any  # an int, several or None; torch's stubs spell that differently at each function

# `dim` None, or not given, means all axes; then the result is a scalar tensor.

declare("sum(input, dim=None, keepdim=False, dtype=None)", torch.sum, "sum")
declare("mean(input, dim=None, keepdim=False, dtype=None)", torch.mean, "mean")
declare("amax(input, dim=(), keepdim=False)", torch.amax, "amax")
declare("amin(input, dim=(), keepdim=False)", torch.amin, "amin")
declare("argmax(input, dim=None, keepdim=False)", torch.argmax, "argmax")
declare("argmin(input, dim=None, keepdim=False)", torch.argmin, "argmin")
declare("logsumexp(input, dim, keepdim=False)", torch.logsumexp, torch.special.logsumexp, "logsumexp")
declare("count_nonzero(input, dim=None)", torch.count_nonzero, "count_nonzero")
std = declare("std(input, dim=None, correction=1, keepdim=False)", torch.std, mapped=False)
var = declare("var(input, dim=None, correction=1, keepdim=False)", torch.var, mapped=False)
max_full_reduce = declare("max_full_reduce(input)", torch.max, mapped=False)
min_full_reduce = declare("min_full_reduce(input)", torch.min, mapped=False)
max_dim_reduce = declare("max_dim_reduce(input, dim, keepdim=False)", torch.max, mapped=False)
min_dim_reduce = declare("min_dim_reduce(input, dim, keepdim=False)", torch.min, mapped=False)
declare("topk(input, k, dim=-1, largest=True, sorted=True)", torch.topk, "topk")
declare("sort(input, dim=-1, descending=False, stable=False)", torch.sort, "sort")
declare("argsort(input, dim=-1, descending=False, stable=False)", torch.argsort, "argsort")
declare("cumsum(input, dim, dtype=None)", torch.cumsum, "cumsum")
declare("cumprod(input, dim, dtype=None)", torch.cumprod, "cumprod")


@acc_op(torch.prod, "prod")
def prod(*, input: Any, dim: int | None = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """The product along one axis, or of all elements."""
    if dim is None:
        return torch.prod(input, dtype=dtype)
    return torch.prod(input, dim, keepdim, dtype=dtype)


@acc_op(torch.any, "any")
def any(*, input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether an element is not zero; bool."""
    return torch.any(input) if dim is None else torch.any(input, dim, keepdim)


@acc_op(torch.all, "all")
def all(*, input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether no element is zero; bool."""
    return torch.all(input) if dim is None else torch.all(input, dim, keepdim)


@acc_op(torch.linalg.vector_norm, x="input", ord="p")
def norm(*, input: Any, p: float = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """(sum of |x| ** p) ** (1 / p) along `dim`: the norm of vectors, never of matrices."""
    return torch.linalg.vector_norm(input, p, dim, keepdim, dtype=dtype)


@acc_mapper(torch.norm, "norm")
def norm_mapper(
    b: NodeBuilder, input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """torch.norm; its Frobenius norm is the 2-norm of all the elements along `dim`."""
    if p == "nuc":
        raise Unmappable("the nuclear norm needs singular values")
    order = 2 if p in ("fro", None) else p
    return b(norm, input=input, p=order, dim=dim, keepdim=keepdim, dtype=dtype)


def _extremum(full: Callable[..., Any], along: Callable[..., Any], pair: Callable[..., Any]) -> Any:
    """The mapper of torch.max or torch.min, which has three forms."""

    def mapper(b: NodeBuilder, input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if other is None and dim is not None and not isinstance(dim, int):
            other, dim = dim, None  # the second form: max(input, other)
        if other is not None:
            return b(pair, input=input, other=other)
        if dim is None:
            return b(full, input=input)
        return b(along, input=input, dim=dim, keepdim=keepdim)

    return mapper


acc_mapper(torch.max, "max")(_extremum(max_full_reduce, max_dim_reduce, maximum))
acc_mapper(torch.min, "min")(_extremum(min_full_reduce, min_dim_reduce, minimum))


def _spread(op: Callable[..., Any]) -> Any:
    """The mapper of torch.std or torch.var: (input, unbiased) or (input, dim, unbiased or correction)."""

    def mapper(
        b: NodeBuilder,
        input: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        return b(op, input=input, dim=dim, correction=correction, keepdim=keepdim)

    return mapper


acc_mapper(torch.std, "std")(_spread(std))
acc_mapper(torch.var, "var")(_spread(var))
