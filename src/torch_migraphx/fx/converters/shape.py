"""The same elements under another shape or order; joining and parting; repeating."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, axes, axis, common_dtype, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten

# ---- views ----


def inferred(sizes: Sequence[int], elements: int) -> list[int]:
    """`sizes` with its -1 replaced."""
    if -1 not in sizes:
        return list(sizes)
    known = math.prod(n for n in sizes if n != -1)
    return [elements // known if n == -1 and known else max(n, 0) for n in sizes]


@converter(
    *(acc_ops.reshape, named(aten.view.default, size="shape"), aten.reshape.default),
    named(aten._unsafe_view.default, size="shape"),
)
def reshape(b: Builder, input: Value, shape: Sequence[int]) -> Value:
    return b.view(input, inferred(shape, math.prod(lens(input))))


@converter(named(aten._reshape_copy.default, size="shape"), named(aten.view_copy.default, size="shape"))
def reshape_copy(b: Builder, input: Value, shape: Sequence[int]) -> Value:
    return reshape(b, input, shape)


@converter(acc_ops.flatten, aten.flatten.using_ints)
def flatten(b: Builder, input: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    n, sizes = rank(input), lens(input)
    if n == 0:
        return b.view(input, [1])
    first, last = axis(start_dim, n), axis(end_dim, n)
    return b.view(input, [*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]])


@converter(acc_ops.unflatten, aten.unflatten.int)
def unflatten(b: Builder, input: Value, dim: int, sizes: Sequence[int]) -> Value:
    d, own = axis(dim, rank(input)), lens(input)
    return b.view(input, [*own[:d], *inferred(sizes, own[d]), *own[d + 1 :]])


@converter(acc_ops.squeeze, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def squeeze(b: Builder, input: Value, dim: int | Sequence[int] | None = None) -> Value:
    wanted = range(rank(input)) if dim is None else [dim] if isinstance(dim, int) else dim
    if rank(input) == 0:
        return input
    gone = sorted({d for d in (axis(w, rank(input)) for w in wanted) if lens(input)[d] == 1})
    return b.squeeze(input, axes=gone) if gone else input


@converter(acc_ops.unsqueeze, aten.unsqueeze.default)
def unsqueeze(b: Builder, input: Value, dim: int) -> Value:
    return b.unsqueeze(input, axes=[axis(dim, rank(input) + 1)])


@converter(acc_ops.permute, named(aten.permute.default, dims="permutation"))
def permute(b: Builder, input: Value, permutation: Sequence[int]) -> Value:
    return b.permute(input, [axis(d, rank(input)) for d in permutation])


@converter(aten.transpose.int)
def transpose(b: Builder, input: Value, dim0: int, dim1: int) -> Value:
    if rank(input) == 0:
        return input
    order = list(range(rank(input)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.permute(input, order)


@converter(aten.t.default)
def t(b: Builder, input: Value) -> Value:
    return b.permute(input, list(reversed(range(rank(input)))))


@converter(
    *(acc_ops.clone, aten.clone.default, acc_ops.contiguous, aten.contiguous.default),
    *(aten.lift.default, aten.lift_fresh.default, aten.lift_fresh_copy.default),
    *(aten.detach.default, aten.alias.default, aten.resolve_neg.default, aten.resolve_conj.default),
)
def same(b: Builder, input: Value) -> Value:
    """The values themselves: where they lie in memory is the engine's own affair."""
    return input


@converter(acc_ops.expand, named(aten.expand.default, size="sizes"))
def expand(b: Builder, input: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    added = len(sizes) - rank(input)
    own = (1,) * added + lens(input)
    return b.expand(input, [own[d] if n == -1 else n for d, n in enumerate(sizes)])


@converter(acc_ops.diagonal, aten.diagonal.default)
def diagonal(b: Builder, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Element i of the diagonal is at i * (columns + 1) of the flattened square, cut to the diagonal's length."""
    n = rank(input)
    first, second = axis(dim1, n), axis(dim2, n)
    rest = [d for d in range(n) if d not in (first, second)]
    x = b.permute(input, [*rest, first, second])
    *outer, rows, columns = lens(x)
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    start = offset if offset >= 0 else -offset * columns
    indices = b.pointwise("add", b.pointwise("mul", b.counted(length), columns + 1), start)
    return b.gather(b.view(x, [*outer, rows * columns]), indices, axis=len(outer))


@converter(aten.unfold.default, aten.unfold_copy.default)
def unfold(b: Builder, input: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of `size` elements along a dimension, each `step` behind the last; their elements come last."""
    if rank(input) == 0:
        return b.view(input, [1]) if size else b.full(0, dtype_of(input), [0])
    d = axis(dimension, rank(input))
    starts = b.pointwise("mul", b.counted((lens(input)[d] - size) // step + 1), step)
    indices = b.pointwise("add", b.unsqueeze(starts, axes=[1]), b.counted(size))
    windows = b.gather(input, indices, axis=d)
    return b.permute(windows, [*(k for k in range(rank(input) + 1) if k != d + 1), d + 1])


def dense_order(sizes: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """The dimensions in the order in which they fill memory without gaps; None where they do not."""
    order = sorted(range(len(sizes)), key=lambda d: (sizes[d] > 1, -strides[d]))
    step = 1
    for d in reversed([d for d in order if sizes[d] > 1]):
        if strides[d] != step:
            return None
        step *= sizes[d]
    return order


@converter(aten.as_strided.default)
def as_strided(
    b: Builder, input: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Elements by their place in memory, where torch has them: the traced value says it."""
    flat, _, begin = _memory(b, input)
    return _by_places(b, flat, size, stride, 0 if storage_offset is None else storage_offset - begin)


@converter(aten.as_strided_scatter.default)
def as_strided_scatter(
    b: Builder, input: Value, src: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """`input` with `src` at those places in memory."""
    flat, order, begin = _memory(b, input)
    if 0 in size:
        return input
    places = _places(size, stride, 0 if storage_offset is None else storage_offset - begin, lens(flat)[0])
    if places.unique().numel() < places.numel():
        raise UnsupportedError("as_strided_scatter writes an element more than once")
    source = b.view(b.cast(src, dtype_of(input)), [places.numel()])
    written = b.scatter_none(flat, b.literal(places.flatten()), source, axis=0)
    return b.permute(b.view(written, [lens(input)[d] for d in order]), [order.index(d) for d in range(rank(input))])


def _memory(b: Builder, input: Value) -> tuple[Value, list[int], int]:
    """The elements as torch has them in memory, the order of the dimensions there, and where the first one lies."""
    traced = _in_memory(b)
    known = all(isinstance(n, int) for n in (*traced.shape, *traced.stride(), traced.storage_offset()))
    order = dense_order(traced.shape, traced.stride()) if known else None
    if order is None:
        raise UnsupportedError("the memory of a tensor that has gaps, or whose strides are not known")
    return b.view(b.permute(input, order), [math.prod(lens(input))]), order, int(traced.storage_offset())


@converter(acc_ops.as_strided)
def row_major_strided(
    b: Builder, input: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    return _by_places(b, b.view(input, [math.prod(lens(input))]), size, stride, storage_offset or 0)


def _by_places(b: Builder, flat: Value, size: Sequence[int], stride: Sequence[int], first: int) -> Value:
    """Element (i, j, ...) is that at place first + i * stride[0] + j * stride[1] + ..."""
    (total,) = lens(flat)
    if 0 in size:
        return b.full(0, dtype_of(flat), size)
    wanted = dense_order(size, stride)
    if wanted is not None and first == 0 and math.prod(size) == total:
        back = sorted(range(len(size)), key=wanted.__getitem__)
        return b.permute(b.view(flat, [size[d] for d in wanted]), back)
    return b.gather(flat, b.literal(_places(size, stride, first, total)), axis=0)


def _places(size: Sequence[int], stride: Sequence[int], first: int, total: int) -> torch.Tensor:
    """Where each element lies. UnsupportedError where that is outside of `total` elements."""
    places = torch.full([int(n) for n in size], int(first))
    for d, (n, step) in enumerate(zip(places.shape, stride, strict=True)):
        places += (torch.arange(n) * int(step)).reshape(n, *(1,) * (len(size) - 1 - d))
    if places.min() < 0 or places.max() >= total:
        raise UnsupportedError("as_strided reaches memory outside its input")
    return places


# ---- sizes, as numbers ----


@converter(acc_ops.size)
def size(b: Builder, input: Value) -> tuple[int, ...]:
    return lens(input)


@converter(acc_ops.dtype)
def dtype(b: Builder, input: Value) -> torch.dtype:
    return dtype_of(input)


@converter(aten.sym_size.int)
def sym_size(b: Builder, input: Value, dim: int) -> int:
    return lens(input)[axis(dim, rank(input))]


@converter(acc_ops.numel, aten.sym_numel.default)
def sym_numel(b: Builder, input: Value) -> int:
    return math.prod(lens(input))


def _in_memory(b: Builder) -> torch.Tensor:
    """The traced value of what the node reads: the engine's own values lie elsewhere."""
    read = b.node.all_input_nodes[0].meta.get("val") if b.node is not None else None
    if not isinstance(read, torch.Tensor):
        raise UnsupportedError("where its input lies in memory is not known")
    return read


@converter(aten.sym_stride.int)
def sym_stride(b: Builder, input: Value, dim: int) -> int:
    return int(_in_memory(b).stride(dim))


@converter(aten.sym_storage_offset.default)
def sym_storage_offset(b: Builder, input: Value) -> int:
    return int(_in_memory(b).storage_offset())


@converter(aten.sym_is_contiguous.default)
def sym_is_contiguous(b: Builder, input: Value, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    return _in_memory(b).is_contiguous(memory_format=memory_format)


# ---- another order ----


@converter(acc_ops.flip, aten.flip.default)
def flip(b: Builder, input: Value, dims: Sequence[int]) -> Value:
    along = axes(dims, rank(input)) if dims else []
    return b.reverse(input, axes=along) if along else input


@converter(acc_ops.roll, aten.roll.default)
def roll(b: Builder, input: Value, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Value:
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    if dims is None or dims == [] or dims == ():
        flat = b.view(input, [math.prod(lens(input))])
        return b.view(_roll(b, flat, steps[0], 0), lens(input))
    for step, dim in zip(steps, [dims] if isinstance(dims, int) else dims, strict=True):
        input = _roll(b, input, step, axis(dim, rank(input)))
    return input


def _roll(b: Builder, x: Value, shift: int, dim: int) -> Value:
    n = lens(x)[dim]
    kept = n - shift % n if n else 0
    if kept == n:
        return x
    return b.concat(b.cut(x, dim, kept, n), b.cut(x, dim, 0, kept), axis=dim)


def _triangle(b: Builder, x: Value, keep: torch.Tensor) -> Value:
    mask = b.expand(b.literal(keep), lens(x))
    return b.where(mask, x, b.full(0, dtype_of(x), lens(x)))


@converter(acc_ops.tril, aten.tril.default)
def tril(b: Builder, input: Value, diagonal: int = 0) -> Value:
    return _triangle(b, input, torch.ones(lens(input)[-2:], dtype=torch.bool).tril(diagonal))


@converter(acc_ops.triu, aten.triu.default)
def triu(b: Builder, input: Value, diagonal: int = 0) -> Value:
    return _triangle(b, input, torch.ones(lens(input)[-2:], dtype=torch.bool).triu(diagonal))


# ---- repeating ----


@converter(acc_ops.tile, named(aten.repeat.default, repeats="dims"), aten.tile.default)
def tile(b: Builder, input: Value, dims: Sequence[int]) -> Value:
    if 0 in dims:
        return b.full(0, dtype_of(input), torch.empty(lens(input), device="meta").tile(dims).shape)
    return b.tile(input, repeats=list(dims)) if any(n != 1 for n in dims) or len(dims) > rank(input) else input


@converter(acc_ops.repeat_interleave, aten.repeat_interleave.self_int)
def repeat_interleave(
    b: Builder, input: Value, repeats: int, dim: int | None = None, output_size: int | None = None
) -> Value:
    if dim is None:
        input, dim = b.view(input, [math.prod(lens(input))]), 0
    return b.repeat_interleave(input, repeats=repeats, axis=axis(dim, rank(input)))


# ---- joining and parting ----


@converter(acc_ops.cat, aten.cat.default)
def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    dtype = common_dtype(*tensors)
    parts = [b.cast(x, dtype) for x in tensors if lens(x) != (0,)]  # torch drops empty vectors, whatever the rank
    parts = parts or [b.cast(tensors[0], dtype)]
    return parts[0] if len(parts) == 1 else b.concat(*parts, axis=axis(dim, rank(parts[0])))


@converter(acc_ops.stack, aten.stack.default)
def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    d = axis(dim, rank(tensors[0]) + 1)
    return cat(b, [b.unsqueeze(x, axes=[d]) for x in tensors], d)


def parts(b: Builder, x: Value, dim: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Consecutive pieces of the given lengths along `dim`."""
    d, pieces, start = axis(dim, rank(x)), [], 0
    for size in sizes:
        pieces.append(b.cut(x, d, start, start + size))
        start += size
    if start > lens(x)[d]:
        raise UnsupportedError(f"pieces of {list(sizes)} do not fit a length of {lens(x)[d]}")
    return tuple(pieces)


def _equal_parts(total: int, size: int) -> list[int]:
    if size <= 0:
        return [0]
    before = max(int(-(-total // size)), 1) - 1
    return [size] * before + [total - before * size]


@converter(
    *(acc_ops.split, aten.split.Tensor, named(aten.split_with_sizes.default, split_sizes="split_size")),
    named(aten.split.sizes, split_size="split_size"),
)
def split(b: Builder, input: Value, split_size: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    total = lens(input)[axis(dim, rank(input))]
    sizes = split_size if isinstance(split_size, Sequence) else _equal_parts(total, split_size)
    return parts(b, input, dim, sizes)


@converter(acc_ops.chunk, aten.chunk.default)
def chunk(b: Builder, input: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    total = lens(input)[axis(dim, rank(input))]
    if total == 0:
        return tuple(parts(b, input, dim, [0] * chunks))
    return parts(b, input, dim, _equal_parts(total, -(-total // chunks)))


@converter(acc_ops.tensor_split)
def tensor_split(b: Builder, input: Value, indices_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    total = lens(input)[axis(dim, rank(input))]
    if isinstance(indices_or_sections, int):
        least, more = divmod(total, indices_or_sections)
        return parts(b, input, dim, [least + (k < more) for k in range(indices_or_sections)])
    if not all(isinstance(k, int) for k in indices_or_sections):
        raise UnsupportedError("the places to cut at are data")
    ends = [range(total)[slice(None, k)].stop for k in indices_or_sections] + [total]
    cuts = zip([0, *ends[:-1]], ends, strict=True)
    d = axis(dim, rank(input))
    return tuple(b.cut(input, d, start, max(start, end)) for start, end in cuts)


@converter(acc_ops.tuple_construct)
def tuple_construct(b: Builder, tensors: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(tensors)


@converter(acc_ops.unbind, aten.unbind.int)
def unbind(b: Builder, input: Value, dim: int = 0) -> tuple[Value, ...]:
    d = axis(dim, rank(input))
    return tuple(b.squeeze(b.cut(input, d, k, k + 1), axes=[d]) for k in range(lens(input)[d]))


# ---- channels and pixels ----


@converter(acc_ops.pixel_shuffle, aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, input: Value, upscale_factor: int) -> Value:
    r, (*outer, c, h, w) = upscale_factor, lens(input)
    n = len(outer)
    x = b.view(input, [*outer, c // (r * r), r, r, h, w])
    x = b.permute(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return b.view(x, [*outer, c // (r * r), h * r, w * r])


@converter(acc_ops.pixel_unshuffle, aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, input: Value, downscale_factor: int) -> Value:
    r, (*outer, c, h, w) = downscale_factor, lens(input)
    n = len(outer)
    x = b.view(input, [*outer, c, h // r, r, w // r, r])
    x = b.permute(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return b.view(x, [*outer, c * r * r, h // r, w // r])


@converter(acc_ops.channel_shuffle, aten.channel_shuffle.default)
def channel_shuffle(b: Builder, input: Value, groups: int) -> Value:
    n, c, *spatial = lens(input)
    x = b.view(input, [n, groups, c // groups, *spatial])
    return b.view(b.permute(x, [0, 2, 1, *range(3, 3 + len(spatial))]), lens(input))
