"""Slices, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Operand, Value, axis, broadcast_sizes, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten
MASKS = (torch.bool, torch.uint8)
"""Types of indices that say which elements, not where they are."""


def cut(b: Builder, x: Value, dim: int, start: int | None, stop: int | None, step: int | None) -> Value:
    """x[..., start:stop:step, ...] by Python's rules, with a positive step."""
    d, step = axis(dim, rank(x)), 1 if step is None else step
    if step < 1:
        raise UnsupportedError("a slice with a negative step is an error in torch")
    x = b.cut(x, d, *_ends(lens(x)[d], start, stop))
    return x if step == 1 else b.step(x, axes=[d], steps=[step])


def _ends(length: int, start: int | None, stop: int | None) -> tuple[int, int]:
    """Where a slice begins and ends, not before it begins."""
    ends = (0 if start is None else start, length if stop is None else stop)
    first, last = (min(max(n + length if n < 0 else n, 0), length) for n in ends)
    return first, max(last, first)


@converter(acc_ops.slice_tensor, named(aten.slice.Tensor, end="stop"))
def slice_tensor(
    b: Builder, input: Value, dim: int = 0, start: int | None = None, stop: int | None = None, step: int = 1
) -> Value:
    return cut(b, input, dim, start, stop, step)


@converter(acc_ops.select, aten.select.int)
def select(b: Builder, input: Value, dim: int, index: int) -> Value:
    d = axis(dim, rank(input))
    if isinstance(index, Value):
        raise UnsupportedError("the index is data")
    k = _from_begin(index, lens(input)[d])
    return b.squeeze(b.cut(input, d, k, k + 1), axes=[d])


def _from_begin(index: int, length: int) -> int:
    """Which element an index is of, that may count from the end: by a comparison, which holds for many lengths."""
    return index + length if index < 0 else index


@converter(acc_ops.getitem)
def getitem(b: Builder, input: Any, idx: Any) -> Any:
    """input[idx] of a tensor, or of a tuple."""
    if not isinstance(input, Value):
        return input[idx]
    items = list(idx) if isinstance(idx, tuple) else [idx]
    x, dim, picks = input, 0, {}  # picks: dimension of x -> index tensor
    taken = sum(_consumes(i) for i in items)
    if Ellipsis not in [i for i in items if isinstance(i, EllipsisType)]:
        items.append(Ellipsis)
    for item in items:
        if isinstance(item, EllipsisType):
            dim += rank(input) - taken
        elif item is None:
            x, dim = b.unsqueeze(x, axes=[dim]), dim + 1
        elif isinstance(item, slice):
            x, dim = cut(b, x, dim, item.start, item.stop, item.step), dim + 1
        elif isinstance(item, bool):
            raise UnsupportedError("an index that is a bool")
        elif isinstance(item, int):
            x = select(b, x, dim, item)
        else:
            found = _indices(b, item)
            picks |= dict(enumerate(found, dim))
            dim += len(found)
    return pick(b, x, picks) if picks else x


def _consumes(item: Any) -> int:
    if item is None or isinstance(item, EllipsisType):
        return 0
    return rank(item) if isinstance(item, Value) and dtype_of(item) in MASKS else 1


def _indices(b: Builder, item: Any) -> list[Value]:
    """The indices that an index is: one tensor, or of a mask one for each of its dimensions."""
    index = item if isinstance(item, Value) else b.literal(torch.tensor(item))
    if dtype_of(index) not in MASKS:
        return [index]
    if not rank(index):
        raise UnsupportedError("a mask without dimensions as index")
    (found,) = b.by_data("nonzero_exact", index)
    return [b.squeeze(b.cut(found, 0, k, k + 1), axes=[0]) for k in range(rank(index))]


def pick(b: Builder, x: Value, picks: dict[int, Value]) -> Value:
    """x indexed by tensors, broadcast together."""
    dims = sorted(picks)
    if len(dims) == 1:
        return b.gather(x, picks[dims[0]], axis=dims[0])
    sizes = broadcast_sizes(*(lens(i) for i in picks.values()))
    n, own = rank(x), lens(x)
    rest = [d for d in range(n) if d not in picks]
    flat, step = None, 1
    for d in reversed(dims):  # one index into the picked dimensions, flattened
        index = b.expand(b.cast(picks[d], torch.int64), sizes)
        index = b.where(b.pointwise("less", index, 0), b.pointwise("add", index, own[d]), index)
        index = index if step == 1 else b.pointwise("mul", index, step)
        flat, step = index if flat is None else b.add(flat, index), step * own[d]
    at = _place(dims)
    order = [*rest[:at], *dims, *rest[at:]]
    packed = b.view(b.permute(x, order), [*(own[d] for d in rest[:at]), step, *(own[d] for d in rest[at:])])
    return b.gather(packed, flat, axis=at)


def _place(dims: list[int]) -> int:
    """Where the dimensions of indices for `dims` (in order) go: where they are, or to the front if apart."""
    return dims[0] if dims[-1] - dims[0] < len(dims) else 0


@converter(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(b: Builder, input: Value, indices: Sequence[Value | None]) -> Value:
    return pick(b, input, _picks(b, indices))


def _picks(b: Builder, indices: Sequence[Value | None]) -> dict[int, Value]:
    """By dimension, the indices into it."""
    picks: dict[int, Value] = {}
    dim = 0
    for i in indices:
        found = [None] if i is None else _indices(b, i)
        picks |= {d: v for d, v in enumerate(found, dim) if v is not None}
        dim += len(found)
    return picks


@converter(acc_ops.index_select, aten.index_select.default)
def index_select(b: Builder, input: Value, dim: int, index: Value) -> Value:
    index = b.view(index, [1]) if rank(index) == 0 else index
    if rank(input) == 0:
        return b.view(b.gather(b.view(input, [1]), index, axis=0), [])
    return b.gather(input, index, axis=axis(dim, rank(input)))


@converter(aten.take.default)
def take(b: Builder, input: Value, index: Value) -> Value:
    """Elements of the flattened input."""
    return b.gather(b.view(input, [math.prod(lens(input))]), index, axis=0)


@converter(acc_ops.embedding)
def embedding(b: Builder, input: Value, weight: Value, padding_idx: int | None = None) -> Value:
    return b.gather(weight, input, axis=0)


@converter(named(aten.embedding.default, indices="input"))
def aten_embedding(
    b: Builder,
    input: Value,
    weight: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    return b.gather(weight, input, axis=0)


@converter(acc_ops.gather, aten.gather.default)
def gather(b: Builder, input: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if 0 in lens(index):
        return b.full(0, dtype_of(input), lens(index))
    if rank(input) == 0 or rank(index) == 0:  # torch takes 0-d tensors for vectors of one
        whole, flat = (b.view(x, lens(x) or [1]) for x in (input, index))
        return b.view(b.gather(whole, flat, axis=0), lens(index))
    d = axis(dim, rank(input))
    return b.gather_elements(_inside(b, input, index, d), index, axis=d)


def _inside(b: Builder, x: Value, index: Value, dim: int) -> Value:
    """x cut to the index's lens outside `dim`, as torch reads it."""
    for d, n in enumerate(lens(index)):
        if d != dim:
            x = b.cut(x, d, 0, n)
    return x


@converter(acc_ops.scatter, aten.scatter.src, named(aten.scatter.value, value="src"))
def scatter(b: Builder, input: Value, dim: int, index: Value, src: Operand) -> Value:
    return _scatter(b, "scatter_none", input, dim, index, src)


@converter(acc_ops.scatter_add, aten.scatter_add.default)
def scatter_add(b: Builder, input: Value, dim: int, index: Value, src: Value) -> Value:
    return _scatter(b, "scatter_add", input, dim, index, src)


@converter(aten.scatter.reduce, named(aten.scatter.value_reduce, value="src"))
def scatter_with(b: Builder, input: Value, dim: int, index: Value, src: Operand, reduce: str) -> Value:
    operators = {"add": "scatter_add", "multiply": "scatter_mul"}
    return _scatter(b, operators[reduce], input, dim, index, src)


@converter(aten.scatter_reduce.two)
def scatter_reduce(
    b: Builder, input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    dtype, x = dtype_of(input), input
    if dtype == torch.bool:
        raise UnsupportedError("scatter_reduce of bool")
    whole = None if dtype.is_floating_point else torch.iinfo(dtype)
    low, high = (whole.min, whole.max) if whole else (-math.inf, math.inf)
    joins = {"sum": ("add", 0), "mean": ("add", 0), "prod": ("mul", 1), "amax": ("max", low), "amin": ("min", high)}
    join, neutral = joins[reduce]
    if not include_self:
        x = _scatter(b, "scatter_none", x, dim, index, neutral)
    x = _scatter(b, f"scatter_{join}", x, dim, index, src)
    if reduce != "mean":
        return x
    counts = _scatter(b, "scatter_add", b.full(int(include_self), torch.int64, lens(x)), dim, index, 1)
    counts = b.pointwise("max", counts, 1)
    return b.pointwise("floor_divide" if whole else "div", x, counts, dtype=dtype)


def _scatter(b: Builder, operator: str, x: Value, dim: int, index: Value, src: Operand) -> Value:
    if 0 in lens(index):
        return x
    if 0 in (rank(x), rank(index)):  # torch takes 0-d tensors for vectors of one
        values = b.view(src, lens(src) or [1]) if isinstance(src, Value) else src
        x1, index1 = b.view(x, lens(x) or [1]), b.view(index, lens(index) or [1])
        return b.view(_scatter(b, operator, x1, 0, index1, values), lens(x))
    d = axis(dim, rank(x))
    if isinstance(src, Value) and rank(src) == rank(x):
        for k, n in enumerate(lens(index)):
            src = b.cut(src, k, 0, n)
        updates = src
    else:
        updates = b.expand(b.tensor(src, dtype_of(x)), lens(index))
    return getattr(b, operator)(x, index, updates, axis=d)


@converter(aten.index_copy.default)
def index_copy(b: Builder, input: Value, dim: int, index: Value, source: Value) -> Value:
    if rank(input) == 0:
        return b.cast(b.view(source, []), dtype_of(input))
    d = axis(dim, rank(input))
    rows = b.view(index, [-1 if k == d else 1 for k in range(rank(input))])
    return _scatter(b, "scatter_none", input, d, b.expand(rows, lens(source)), source)


@converter(acc_ops.one_hot)
def one_hot(b: Builder, input: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise UnsupportedError("the number of classes depends on the data")
    values = b.literal(torch.tensor([0, 1]))
    return b.onehot(input, values, axis=-1, depth=num_classes)


@converter(aten.select_scatter.default)
def select_scatter(b: Builder, input: Value, src: Value, dim: int, index: int) -> Value:
    d = axis(dim, rank(input))
    k = _from_begin(index, lens(input)[d])
    return _replaced(b, input, b.unsqueeze(src, axes=[d]), d, k, k + 1)


@converter(aten.slice_scatter.default)
def slice_scatter(
    b: Builder,
    input: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    d = axis(dim, rank(input))
    first, last = _ends(lens(input)[d], start, end)
    if first == last:
        return input
    if step == 1:
        return _replaced(b, input, src, d, first, last)
    steps = b.pointwise("sub", b.counted(lens(input)[d]), first)
    source = b.pointwise("floor_divide", steps, step)
    hit = b.pointwise("equal", b.pointwise("mul", source, step), steps)
    inside = b.logical_and(b.not_(b.pointwise("less", steps, 0)), b.pointwise("less", steps, last - first))
    written = b.view(b.logical_and(hit, inside), [n if k == d else 1 for k, n in enumerate(lens(input))])
    source = b.pointwise("min", b.pointwise("max", source, 0), lens(src)[d] - 1)
    picked = b.gather(b.cast(src, dtype_of(input)), source, axis=d)
    return b.where(b.expand(written, lens(input)), b.expand(picked, lens(input)), input)


@converter(aten.diagonal_scatter.default)
def diagonal_scatter(b: Builder, input: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    first, second = axis(dim1, rank(input)), axis(dim2, rank(input))
    own = lens(input)
    if not lens(src)[-1]:
        return input
    rows, columns = b.unsqueeze(b.counted(own[first]), axes=[1]), b.counted(own[second])
    written = b.pointwise("equal", b.pointwise("sub", columns, rows), offset)
    source = b.pointwise("min", b.pointwise("min", rows, columns), lens(src)[-1] - 1)
    picked = b.gather(b.cast(src, dtype_of(input)), source, axis=rank(src) - 1)  # {..., rows, columns}
    rest = [d for d in range(rank(input)) if d not in (first, second)]
    order = [*rest, first, second]
    picked = b.permute(picked, [order.index(d) for d in range(rank(input))])
    shape = [own[d] if d in (first, second) else 1 for d in range(rank(input))]
    mask = b.view(written if first < second else b.permute(written, [1, 0]), shape)
    return b.where(b.expand(mask, own), picked, input)


@converter(aten.put.default)
def put(b: Builder, input: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """`source` at the positions `index` of the flattened input; of equal positions torch may take any."""
    count, updates = math.prod(lens(input)), math.prod(lens(index))
    if not updates:
        return input
    flat, at, values = b.view(input, [count]), b.view(index, [updates]), b.view(source, [updates])
    return b.view((b.scatter_add if accumulate else b.scatter_none)(flat, at, values, axis=0), lens(input))


@converter(aten.masked_scatter.default)
def masked_scatter(b: Builder, input: Value, mask: Value, source: Value) -> Value:
    """The elements of `source` in order, where the mask says so."""
    sizes = broadcast_sizes(lens(input), lens(mask))
    count = math.prod(sizes)
    if not count or not math.prod(lens(source)):
        return b.expand(input, sizes)
    flat = b.view(b.expand(mask, sizes), [count])
    which = b.pointwise("sub", b.prefix_scan_sum(b.cast(flat, torch.int64), axis=0), 1)
    values = b.view(source, [math.prod(lens(source))])
    # What is not masked takes the first element, which nobody reads; the gather refuses a source that is too short.
    taken = b.gather(values, b.where(flat, which, b.full(0, torch.int64, [count])), axis=0)
    return b.where(b.expand(mask, sizes), b.view(taken, sizes), b.expand(input, sizes))


def _replaced(b: Builder, x: Value, middle: Value, dim: int, start: int, end: int) -> Value:
    """x with the elements start to end along `dim` replaced."""
    middle = b.expand(b.cast(middle, dtype_of(x)), [end - start if d == dim else n for d, n in enumerate(lens(x))])
    n = lens(x)[dim]
    pieces = [b.cut(x, dim, 0, start), middle, b.cut(x, dim, end, n)]
    kept = [p for p in pieces if lens(p)[dim]]
    return kept[0] if len(kept) == 1 else b.concat(*kept, axis=dim)


@converter(aten.index_put.default)
def index_put(
    b: Builder, input: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """The values are broadcast to the shape of input[indices]."""
    tensors = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(tensors) == 1 and dtype_of(tensors[0][1]) in MASKS:
        d, mask = tensors[0]
        return _put_where(b, input, d, b.cast(mask, torch.bool), values, accumulate)
    picks = _picks(b, indices)
    dims, given = list(picks), list(picks.values())
    own, rest = lens(input), [d for d in range(rank(input)) if d not in dims]
    sizes = broadcast_sizes(*(lens(i) for i in given))
    columns = [b.unsqueeze(b.expand(b.cast(i, torch.int64), sizes), axes=[len(sizes)]) for i in given]
    tuples = columns[0] if len(columns) == 1 else b.concat(*columns, axis=len(sizes))
    at, n = _place(dims), len(sizes)
    wide = [*(own[d] for d in rest[:at]), *sizes, *(own[d] for d in rest[at:])]
    updates = b.expand(b.cast(values, dtype_of(input)), wide)
    updates = b.permute(updates, [*range(at, at + n), *range(at), *range(at + n, len(wide))])
    order = [*dims, *rest]
    result = getattr(b, "scatternd_add" if accumulate else "scatternd_none")(b.permute(input, order), tuples, updates)
    return b.permute(result, [order.index(d) for d in range(rank(input))])


def _put_where(b: Builder, x: Value, d: int, mask: Value, values: Value, accumulate: bool) -> Value:
    """x[:, .., mask] = values with the mask's dimensions from `d` on: one for all, or one for each True in order.

    Fewer values than the mask has True are an IndexError of the run.
    """
    own, behind = lens(x), d + rank(mask)
    inner = rank(x) - behind
    count = lens(values)[-inner - 1] if rank(values) > inner else 1
    if not count or not math.prod(own):
        return x
    wide = b.expand(b.cast(values, dtype_of(x)), [*own[:d], count, *own[behind:]])
    rows = b.permute(wide, [d, *range(d), *range(d + 1, rank(wide))])
    places = math.prod(lens(mask))
    flat = b.view(mask, [places])
    if count > 1:  # what is not masked takes the first value, which nobody reads
        which = b.pointwise("sub", b.prefix_scan_sum(b.cast(flat, torch.int64), axis=0), 1)
        rows = b.gather(rows, b.where(flat, which, b.full(0, torch.int64, [places])), axis=0)
    order = [*range(d, behind), *range(d), *range(behind, rank(x))]
    old = b.permute(x, order)
    new = b.expand(b.view(rows, [*(lens(mask) if count > 1 else [1] * rank(mask)), *lens(rows)[1:]]), lens(old))
    chosen = b.expand(b.view(mask, [*lens(mask), *[1] * (rank(x) - rank(mask))]), lens(old))
    put = b.where(chosen, b.pointwise("add", old, new) if accumulate else new, old)
    return b.permute(put, [order.index(k) for k in range(rank(x))])


@converter(acc_ops.unfold)
def unfold(
    b: Builder,
    input: Value,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Value:
    return im2col(b, input, _two(kernel_size), _two(dilation), _two(padding), _two(stride))


def _two(value: int | Sequence[int]) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * 2 if len(values) == 1 else values


@converter(aten.im2col.default)
def im2col(
    b: Builder,
    input: Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """Every pixel of every window by one gather from the padded, flattened image."""
    if rank(input) == 3:
        return b.squeeze(im2col(b, b.unsqueeze(input, axes=[0]), kernel_size, dilation, padding, stride), axes=[0])
    x = b.pad(input, pads=[0, 0, *padding, 0, 0, *padding]) if any(padding) else input
    n, c, h, w = lens(x)
    counts = [
        (size - d * (k - 1) - 1) // s + 1 for size, k, d, s in zip((h, w), kernel_size, dilation, stride, strict=True)
    ]
    rows, columns = (
        b.pointwise("add", b.literal(torch.arange(k)[:, None] * d), b.pointwise("mul", b.counted(m), s))
        for k, d, m, s in zip(kernel_size, dilation, counts, stride, strict=True)
    )
    rows = b.unsqueeze(b.pointwise("mul", rows, w), axes=[1, 3])
    positions = b.pointwise("add", rows, b.unsqueeze(columns, axes=[0, 2]))  # {kh, kw, out h, out w}
    flat = b.view(x, [n, c, h * w])
    picked = b.gather(flat, b.view(positions, [math.prod(kernel_size), math.prod(counts)]), axis=2)
    return b.view(picked, [n, c * math.prod(kernel_size), math.prod(counts)])
