"""What is as long as the data makes it: places of what is not 0, elements that a mask names, each value once."""

from __future__ import annotations

import math

import torch

from torch_migraphx.fx.builder import Builder, Value, axis, broadcast_sizes, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.converters.indexing import pick
from torch_migraphx.fx.converters.order import searchsorted
from torch_migraphx.fx.errors import LengthsByData, UnsupportedError

aten = torch.ops.aten


@converter(aten.nonzero.default, aten.argwhere.default)
def nonzero(b: Builder, input: Value) -> Value:
    """The places {count, dims}, row by row."""
    return b.permute(b.by_data("nonzero_exact", input)[0], [1, 0])


@converter(aten.nonzero_numpy.default, named(aten.where.default, condition="input"))
def nonzero_numpy(b: Builder, input: Value) -> list[Value]:
    """The places in each dimension; of a number, in a vector of one."""
    return _columns(b, input if rank(input) else b.view(input, [1]))


def _columns(b: Builder, input: Value) -> list[Value]:
    (found,) = b.by_data("nonzero_exact", input)
    return [b.squeeze(b.cut(found, 0, k, k + 1), axes=[0]) for k in range(rank(input))]


@converter(aten.masked_select.default)
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    sizes = broadcast_sizes(lens(input), lens(mask))
    chosen = _columns(b, b.expand(mask, sizes) if sizes else b.view(mask, [1]))
    return pick(b, b.expand(input, sizes) if sizes else b.view(input, [1]), dict(enumerate(chosen)))


def _flat(b: Builder, x: Value) -> Value:
    return b.view(x, [math.prod(lens(x))])


@converter(aten._unique2.default)
def unique(
    b: Builder, input: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """(Each value once, which one each element is, how often each is there): in order, as torch gives them anyhow."""
    values, _, inverse, counts = b.by_data("unique", _flat(b, input), count=4)
    nothing = b.full(0, torch.int64, [0])
    return values, b.view(inverse, lens(input)) if return_inverse else nothing, counts if return_counts else nothing


@converter(aten.unique_dim.default)
def unique_dim(
    b: Builder,
    input: Value,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Value, Value, Value]:
    """The same of slices, which are ordered by their elements."""
    values, _, inverse, counts = b.by_data("unique", input, count=4, axis=[axis(dim, rank(input))])
    return values, inverse, counts


@converter(aten.unique_consecutive.default)
def unique_consecutive(
    b: Builder, input: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, Value, Value]:
    """(The first of each run of equal values, which run each element is of, how long each is)."""
    x = _flat(b, input) if dim is None else input
    d = 0 if dim is None else axis(dim, rank(input))
    count = lens(x)[d]
    if not math.prod(lens(x)):
        raise UnsupportedError("runs of equal values among none")
    order = [d, *(k for k in range(rank(x)) if k != d)]
    rows = b.view(b.permute(x, order), [count, math.prod(lens(x)) // count])
    differ = b.not_(b.equal(b.cut(rows, 0, 1, count), b.cut(rows, 0, 0, count - 1)))
    differ = b.reduce_max(b.cast(differ, torch.int64), axes=[1])  # {count - 1, 1}
    starts = b.concat(b.full(1, torch.int64, [1]), _flat(b, differ), axis=0)
    (places,) = _columns(b, starts)
    values = b.gather(x, places, axis=d)
    which = b.pointwise("sub", b.prefix_scan_sum(starts, axis=0), 1)
    ends = b.concat(b.cut(places, 0, 1, lens(places)[0]), b.full(count, torch.int64, [1]), axis=0)
    nothing = b.full(0, torch.int64, [0])
    inverse = b.view(which, lens(input) if dim is None else [count])
    return (
        values,
        inverse if return_inverse or dim is not None else nothing,
        (b.sub(ends, places) if return_counts or dim is not None else nothing),
    )


def _numbers(b: Builder, count: Value) -> Value:
    """0, 1, ... `count`, which is an int64 of one element, left out."""
    first, step = b.full(0, torch.int64, [1]), b.full(1, torch.int64, [1])
    return b.by_data("dynamic_range", first, b.view(count, [1]), step)[0]


@converter(aten.repeat_interleave.Tensor)
def repeat_interleave(b: Builder, repeats: Value, output_size: int | None = None) -> Value:
    """The place of each number in `repeats`, as often as that says."""
    ends = b.prefix_scan_sum(b.cast(repeats, torch.int64), axis=0)
    count = lens(repeats)[0]
    if not count:
        return b.full(0, dtype_of(repeats), [0])
    numbers = _numbers(b, b.cut(ends, 0, count - 1, count)) if output_size is None else b.counted(output_size)
    return b.cast(searchsorted(b, ends, numbers, right=True), dtype_of(repeats))


@converter(aten.bincount.default)
def bincount(b: Builder, input: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """How often, or with which weight in all, each number from 0 to the largest occurs."""
    dtype = torch.int64 if weights is None else torch.float32 if dtype_of(weights) == torch.float32 else torch.float64
    if not lens(input)[0]:
        return b.full(0, torch.int64, [minlength])
    x = b.cast(input, torch.int64)
    most = b.pointwise("max", b.pointwise("add", b.reduce_max(x, axes=[0]), 1), minlength)
    numbers = _numbers(b, most)
    added = b.full(1, dtype, lens(x)) if weights is None else b.cast(weights, dtype)
    return b.scatter_add(b.full(0, dtype, lens(numbers)), x, added, axis=0)


@converter(aten._local_scalar_dense.default, aten.item.default)
def item(b: Builder, input: Value) -> Value | int:
    """The one element as a number: a whole one may be a length; others are operands as tensors are."""
    if not b.waits:
        raise LengthsByData
    x = b.view(input, [1])
    if dtype_of(x).is_floating_point or dtype_of(x) == torch.bool:
        return b.view(x, [])
    x = b.cast(x, torch.int64)
    (above,), (below,) = b.by_data("as_length", x), b.by_data("as_length", b.neg(x))
    return lens(above)[0] - lens(below)[0]


@converter(aten._assert_scalar.default)
def assert_scalar(b: Builder, input: object, assert_msg: str) -> None:
    """RuntimeError where something that is known with the lengths does not hold."""
    if isinstance(input, Value):
        raise UnsupportedError("asserts what depends on data")
    if not input:
        raise RuntimeError(assert_msg)
