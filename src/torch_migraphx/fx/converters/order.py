"""Order: positions in sorted sequences, the k-th smallest, medians, running extremes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from torch_migraphx.fx.builder import Builder, Operand, Value, axis, common_dtype, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.converters.reduction import max_dim_reduce, sort
from torch_migraphx.fx.errors import UnsupportedError

aten = torch.ops.aten


@converter(
    *(aten.searchsorted.Tensor, aten.searchsorted.Scalar),
    named(aten.bucketize.Tensor, boundaries="sorted_sequence"),
    named(aten.bucketize.Scalar, boundaries="sorted_sequence"),
)
def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    input: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """Where each element would be put to keep the order: a binary search, one gather a step, NaN behind all."""
    dtype = common_dtype(sorted_sequence, input)
    sequence, wanted = b.cast(sorted_sequence, dtype), b.tensor(input, dtype)
    length, last = lens(sequence)[-1], rank(sequence) - 1
    if sorter is not None:
        sequence = b.gather_elements(sequence, sorter, axis=last)
    sizes = lens(wanted)
    first = b.full(0, torch.int64, sizes or [1])
    wanted, end = b.view(wanted, sizes or [1]), b.full(length, torch.int64, sizes or [1])
    stays = "greater" if right or side == "right" else "greater_or_equal"
    for _ in range(length.bit_length()):
        middle = b.pointwise("floor_divide", b.add(first, end), 2)
        read = b.pointwise("min", middle, length - 1)
        found = b.gather(sequence, read, axis=0) if last == 0 else b.gather_elements(sequence, read, axis=last)
        left = b.logical_or(b.pointwise(stays, found, wanted), b.pointwise("equal", first, end))
        first, end = b.where(left, first, b.pointwise("add", middle, 1)), b.where(left, b.min(end, middle), end)
    return b.cast(b.view(first, sizes), torch.int32 if out_int32 else torch.int64)


def _at(b: Builder, pair: tuple[Value, Value], dim: int, place: int, keepdim: bool) -> tuple[Value, Value]:
    cuts = [b.cut(x, dim, place, place + 1) for x in pair]
    values, indices = cuts if keepdim else [b.squeeze(x, axes=[dim]) for x in cuts]
    return values, indices


@converter(aten.kthvalue.default)
def kthvalue(b: Builder, input: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """Of equal elements torch may name any; here it is the k-th of a stable sort."""
    pair = sort(b, input, dim)
    return pair if rank(input) == 0 else _at(b, pair, axis(dim, rank(input)), k - 1, keepdim)


@converter(aten.median.dim)
def median_along(b: Builder, input: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The lower of the two middle elements; where there is a NaN, the first."""
    if rank(input) == 0:
        return sort(b, input)
    d = axis(dim, rank(input))
    n = lens(input)[d]
    values, indices = _at(b, sort(b, input, d), d, (n - 1) // 2, keepdim)
    if not dtype_of(input).is_floating_point:
        return values, indices
    largest, first = max_dim_reduce(b, input, d, keepdim)
    broken = b.isnan(largest)
    return b.where(broken, largest, values), b.where(broken, first, indices)


@converter(aten.nanmedian.dim)
def nanmedian_along(b: Builder, input: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The median of what is no NaN; NaN where there is nothing else."""
    if rank(input) == 0 or not dtype_of(input).is_floating_point:
        return median_along(b, input, dim, keepdim)
    d = axis(dim, rank(input))
    numbers = b.reduce_sum(b.cast(b.not_(b.isnan(input)), torch.int64), axes=[d])
    place = b.pointwise("max", b.pointwise("floor_divide", b.pointwise("sub", numbers, 1), 2), 0)
    values, indices = (b.gather_elements(x, place, axis=d) for x in sort(b, input, d))
    return (values, indices) if keepdim else (b.squeeze(values, axes=[d]), b.squeeze(indices, axes=[d]))


def _whole(along: Callable[..., tuple[Value, Value]]) -> Callable[..., Value]:
    def median(b: Builder, input: Value) -> Value:
        count = math.prod(lens(input))
        if not count:
            raise UnsupportedError("the median of nothing")
        return along(b, b.view(input, [count]), 0)[0]

    return median


converter(aten.median.default)(_whole(median_along))
converter(aten.nanmedian.default)(_whole(nanmedian_along))


def _running(word: str) -> Callable[..., tuple[Value, Value]]:
    def running(b: Builder, input: Value, dim: int) -> tuple[Value, Value]:
        """The extreme up to each element, and where it is: the last of equal ones, a NaN before all."""
        if rank(input) == 0:
            return input, b.full(0, torch.int64)
        d = axis(dim, rank(input))
        if dtype_of(input) == torch.bool:
            values = b.cast(getattr(b, word)(b.cast(input, torch.uint8), axis=d), torch.bool)
        else:
            values = getattr(b, word)(input, axis=d)
        new = b.equal(values, input)
        if dtype_of(input).is_floating_point:
            new = b.logical_or(new, b.isnan(input))
        shape = [n if k == d else 1 for k, n in enumerate(lens(input))]
        positions = b.expand(b.view(b.counted(lens(input)[d]), shape), lens(input))
        return values, b.cummax(b.where(new, positions, b.full(0, torch.int64, lens(input))), axis=d)

    return running


converter(aten.cummax.default)(_running("cummax"))
converter(aten.cummin.default)(_running("cummin"))
