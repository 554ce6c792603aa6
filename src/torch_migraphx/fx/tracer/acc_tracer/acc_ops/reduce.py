"""Acc operators: reductions, scans, order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..acc_normalizer import NodeBuilder, Unmappable, acc_mapper, acc_op
from .math import maximum, minimum

Dims = Any  # an int, several or None; torch's stubs spell that differently at each function

# `dim` None, or not given, means all axes; then the result is a scalar tensor.


@acc_op(torch.sum, "sum")
def sum(*, input: Any, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """The sum along `dim`; integers sum in int64."""
    return torch.sum(input, dim, keepdim, dtype=dtype)


@acc_op(torch.mean, "mean")
def mean(*, input: Any, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """The mean along `dim`."""
    return torch.mean(input, dim, keepdim, dtype=dtype)


@acc_op(torch.prod, "prod")
def prod(*, input: Any, dim: int | None = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """The product along one axis, or of all elements."""
    if dim is None:
        return torch.prod(input, dtype=dtype)
    return torch.prod(input, dim, keepdim, dtype=dtype)


@acc_op(torch.amax, "amax")
def amax(*, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The maximum along `dim`; () means all axes."""
    return torch.amax(input, dim, keepdim)


@acc_op(torch.amin, "amin")
def amin(*, input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The minimum along `dim`; () means all axes."""
    return torch.amin(input, dim, keepdim)


@acc_op(torch.argmax, "argmax")
def argmax(*, input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of a maximum along `dim`, or into the flattened input; int64."""
    return torch.argmax(input, dim, keepdim)


@acc_op(torch.argmin, "argmin")
def argmin(*, input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of a minimum along `dim`, or into the flattened input; int64."""
    return torch.argmin(input, dim, keepdim)


@acc_op(torch.any, "any")
def any(*, input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether an element is not zero; bool."""
    return torch.any(input) if dim is None else torch.any(input, dim, keepdim)


@acc_op(torch.all, "all")
def all(*, input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether no element is zero; bool."""
    return torch.all(input) if dim is None else torch.all(input, dim, keepdim)


@acc_op(torch.logsumexp, torch.special.logsumexp, "logsumexp")
def logsumexp(*, input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(x))) along `dim`"""
    return torch.logsumexp(input, dim, keepdim)


@acc_op(torch.count_nonzero, "count_nonzero")
def count_nonzero(*, input: Any, dim: Dims = None) -> Any:
    """The number of elements that are not zero; int64."""
    return torch.count_nonzero(input, dim)


@acc_op()
def std(*, input: Any, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """sqrt(sum of squared differences from the mean / (n - correction)) along `dim`"""
    return torch.std(input, dim, correction=correction, keepdim=keepdim)


@acc_op()
def var(*, input: Any, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """The sum of squared differences from the mean / (n - correction) along `dim`"""
    return torch.var(input, dim, correction=correction, keepdim=keepdim)


@acc_op(torch.linalg.vector_norm, x="input", ord="p")
def norm(*, input: Any, p: float = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Any:
    """(sum of |x| ** p) ** (1 / p) along `dim`: the norm of vectors, never of matrices."""
    return torch.linalg.vector_norm(input, p, dim, keepdim, dtype=dtype)  # type: ignore[arg-type]


@acc_mapper(torch.norm, "norm")
def norm_mapper(
    b: NodeBuilder, input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """torch.norm; its Frobenius norm is the 2-norm of all the elements along `dim`."""
    if p == "nuc":
        raise Unmappable("the nuclear norm needs singular values")
    order = 2 if p in ("fro", None) else p
    return b(norm, input=input, p=order, dim=dim, keepdim=keepdim, dtype=dtype)


@acc_op()
def max_full_reduce(*, input: Any) -> Any:
    """The largest element."""
    return torch.max(input)


@acc_op()
def min_full_reduce(*, input: Any) -> Any:
    """The smallest element."""
    return torch.min(input)


@acc_op()
def max_dim_reduce(*, input: Any, dim: int, keepdim: bool = False) -> Any:
    """(values, indices) of the maxima along `dim`."""
    return torch.max(input, dim, keepdim)


@acc_op()
def min_dim_reduce(*, input: Any, dim: int, keepdim: bool = False) -> Any:
    """(values, indices) of the minima along `dim`."""
    return torch.min(input, dim, keepdim)


@acc_op(torch.topk, "topk")
def topk(*, input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the k largest or smallest along `dim`."""
    return torch.topk(input, k, dim, largest, sorted)


@acc_op(torch.sort, "sort")
def sort(*, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """(values, indices) in order along `dim`."""
    return torch.sort(input, dim=dim, descending=descending, stable=stable)


@acc_op(torch.argsort, "argsort")
def argsort(*, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices that sort the input along `dim`."""
    return torch.argsort(input, dim=dim, descending=descending, stable=stable)


@acc_op(torch.cumsum, "cumsum")
def cumsum(*, input: Any, dim: int, dtype: torch.dtype | None = None) -> Any:
    """The running sum along `dim`."""
    return torch.cumsum(input, dim, dtype=dtype)


@acc_op(torch.cumprod, "cumprod")
def cumprod(*, input: Any, dim: int, dtype: torch.dtype | None = None) -> Any:
    """The running product along `dim`."""
    return torch.cumprod(input, dim, dtype=dtype)


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
