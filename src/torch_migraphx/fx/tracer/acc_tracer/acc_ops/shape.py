"""Acc operators: reshaping, reordering, slicing, joining, gathering, element types, constants."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import (
    NodeBuilder,
    Unmappable,
    acc_mapper,
    acc_op,
    declare,
    narrower,
)

aten = torch.ops.aten


def _spread_or_list(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Torch's `*sizes`: one by one, or as one tuple, list or torch.Size."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        return tuple(values[0])
    return values


def _lengths(b: NodeBuilder, x: Any) -> tuple[Any, ...]:
    """The lens of `x`, numbers or, where they differ from run to run, nodes."""
    known = b.shape(x)
    if all(isinstance(n, int) for n in known):
        return known
    every = b(size, input=x)
    return tuple(n if isinstance(n, int) else b(getitem, input=every, idx=d) for d, n in enumerate(known))


# ---- the same elements under another shape


reshape = declare("reshape(input, shape)", torch.reshape)


@acc_mapper("reshape", "view")
def view_mapper(b: NodeBuilder, input: Any, *shape: Any, **named: Any) -> Any:
    """x.view(2, 3), x.view((2, 3)), x.view(shape=...) or x.view(size=...)."""
    sizes = _spread_or_list((*shape, *named.values()))
    if not all(isinstance(s, int) or hasattr(s, "op") for s in sizes):
        raise Unmappable(f"a view as {sizes} reads the bytes as another type")
    return b(reshape, input=input, shape=sizes)


@acc_mapper("view_as", "reshape_as")
def view_as_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """The elements of input under the shape of other."""
    return b(reshape, input=input, shape=_lengths(b, other))


flatten = declare("flatten(input, start_dim=0, end_dim=-1)", torch.flatten, "flatten")


@acc_mapper(torch.ravel, "ravel")
def ravel_mapper(b: NodeBuilder, input: Any) -> Any:
    """All axes as one."""
    return b(flatten, input=input)


declare("unflatten(input, dim, sizes)", torch.unflatten, "unflatten")


@acc_op(torch.squeeze, "squeeze")
def squeeze(*, input: Any, dim: Any = None) -> Any:
    """Axes of length 1 removed: those of `dim`, or all."""
    return torch.squeeze(input) if dim is None else torch.squeeze(input, dim)


declare("unsqueeze(input, dim)", torch.unsqueeze, "unsqueeze")


@acc_op("contiguous")
def contiguous(*, input: Any, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    """The same values in row-major (or the named) order in memory."""
    return input.contiguous(memory_format=memory_format)


clone = declare("clone(input)", torch.clone, mapped=False)
narrower(clone, "clone(input, memory_format=None)", torch.clone, "clone")  # that is no part of the values


get_data = torch._C._autograd._get_data_attr  # pyright: ignore[reportAttributeAccessIssue]  # as Dynamo writes x.data


@acc_mapper(torch.detach, get_data, "detach", "detach_", "requires_grad_")
def identity_mapper(b: NodeBuilder, input: Any, *args: Any, **kwargs: Any) -> Any:
    """What matters to gradients only is the identity."""
    return input


# ---- the same elements in another order


permute = declare("permute(input, permutation)", torch.permute, dims="permutation")


@acc_mapper("permute")
def permute_mapper(b: NodeBuilder, input: Any, *dims: Any, **named: Any) -> Any:
    """x.permute(1, 0), x.permute((1, 0)) or x.permute(dims=(1, 0))."""
    return b(permute, input=input, permutation=_spread_or_list((*dims, *named.values())))


@acc_mapper(
    *(torch.transpose, torch.swapaxes, torch.swapdims, "transpose", "swapaxes", "swapdims"),
    axis0="dim0",
    axis1="dim1",
)
def transpose_mapper(b: NodeBuilder, input: Any, dim0: int, dim1: int) -> Any:
    """A transposition of two axes is a permutation."""
    order = list(range(b.rank(input)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return b(permute, input=input, permutation=tuple(order))


@acc_mapper(torch.t, "t", aten.numpy_T)
def t_mapper(b: NodeBuilder, input: Any) -> Any:
    """The transpose of a matrix, all axes reversed; vectors and scalars stay."""
    return b(permute, input=input, permutation=tuple(reversed(range(b.rank(input)))))


@acc_mapper(torch.movedim, torch.moveaxis, "movedim", "moveaxis")
def movedim_mapper(b: NodeBuilder, input: Any, source: Any, destination: Any) -> Any:
    """The source axes at their destinations, the others in order."""
    rank = b.rank(input)
    if rank == 0:
        return b(permute, input=input, permutation=())
    sources = [s % rank for s in ([source] if isinstance(source, int) else source)]
    targets = [d % rank for d in ([destination] if isinstance(destination, int) else destination)]
    order = [axis for axis in range(rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return b(permute, input=input, permutation=tuple(order))


@acc_mapper(aten.mT)
def matrix_transpose_mapper(b: NodeBuilder, input: Any) -> Any:
    """The last two axes transposed. Dynamo writes x.mT so from torch 2.15 on, and x.T, x.H and x.mH alike."""
    return transpose_mapper(b, input, -2, -1)


@acc_mapper(torch.adjoint, "adjoint", aten.mH, aten.matrix_H)
def adjoint_mapper(b: NodeBuilder, input: Any) -> Any:
    """The last two axes transposed; for real numbers only."""
    if b.dtype(input).is_complex:
        raise Unmappable("complex numbers are conjugated")
    return transpose_mapper(b, input, -2, -1)


@acc_mapper(getattr)
def attribute_mapper(b: NodeBuilder, input: Any, name: str) -> Any:
    """x.T, x.mT, x.H, x.mH, x.data, x.real."""
    if name == "data":
        return input
    if b.dtype(input).is_complex:
        raise Unmappable(f".{name} of complex numbers")
    if name in ("T", "H"):
        return t_mapper(b, input)
    if name in ("mT", "mH"):
        return transpose_mapper(b, input, -2, -1)
    if name == "real":
        return input
    raise Unmappable(f"the attribute {name}")


declare("roll(input, shifts, dims=None)", torch.roll, "roll")
flip = declare("flip(input, dims)", torch.flip)


@acc_mapper("flip")
def flip_mapper(b: NodeBuilder, input: Any, *dims: Any, **named: Any) -> Any:
    """x.flip(0, 1) or x.flip((0, 1))."""
    return b(flip, input=input, dims=_spread_or_list((*dims, *named.values())))


@acc_op(torch.as_strided, "as_strided")
def as_strided(*, input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Elements by their places in the row-major order of `input`."""
    return input.contiguous().as_strided(size, stride, storage_offset or 0)


# ---- repeated elements


expand = declare("expand(input, sizes)", torch.broadcast_to, "broadcast_to", size="sizes", shape="sizes")


@acc_mapper("expand")
def expand_mapper(b: NodeBuilder, input: Any, *sizes: Any, **named: Any) -> Any:
    """x.expand(2, 3) or x.expand((2, 3))."""
    return b(expand, input=input, sizes=_spread_or_list((*sizes, *named.values())))


@acc_mapper("expand_as")
def expand_as_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """The input broadcast to the shape of other."""
    return b(expand, input=input, sizes=_lengths(b, other))


tile = declare("tile(input, dims)", torch.tile)


@acc_mapper("tile", "repeat")
def repeat_mapper(b: NodeBuilder, input: Any, *dims: Any, **named: Any) -> Any:
    """x.repeat(2, 3) or x.tile((2, 3))."""
    return b(tile, input=input, dims=_spread_or_list((*dims, *named.values())))


repeat_interleave = declare("repeat_interleave(input, repeats, dim=None)", torch.repeat_interleave, mapped=False)


@acc_mapper(torch.repeat_interleave, "repeat_interleave")
def repeat_interleave_mapper(
    b: NodeBuilder, input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """torch.repeat_interleave by one number."""
    if not isinstance(repeats, int):
        raise Unmappable("the repeats are data, so the shape of the result is not known")
    return b(repeat_interleave, input=input, repeats=repeats, dim=dim)


# ---- joining and parting


cat = declare("cat(tensors, dim=0)", torch.cat, torch.concat, torch.concatenate)
declare("stack(tensors, dim=0)", torch.stack)


@acc_mapper(torch.hstack, torch.column_stack)
def hstack_mapper(b: NodeBuilder, tensors: Sequence[Any]) -> Any:
    """Joined along axis 1."""
    if min(b.rank(t) for t in tensors) < 2:
        raise Unmappable("tensors of rank below 2")
    return b(cat, tensors=tensors, dim=1)


@acc_mapper(torch.vstack, torch.row_stack)
def vstack_mapper(b: NodeBuilder, tensors: Sequence[Any]) -> Any:
    """Joined along axis 0."""
    if min(b.rank(t) for t in tensors) < 2:
        raise Unmappable("tensors of rank below 2")
    return b(cat, tensors=tensors, dim=0)


declare("chunk(input, chunks, dim=0)", torch.chunk, "chunk")
declare(
    *("split(input, split_size, dim=0)", torch.split, torch.split_with_sizes, "split", "split_with_sizes"),
    tensor="input",
    split_size_or_sections="split_size",
    split_sizes="split_size",
)


declare(
    *("tensor_split(input, indices_or_sections, dim=0)", torch.tensor_split, "tensor_split"),
    sections="indices_or_sections",
    indices="indices_or_sections",
)


declare("unbind(input, dim=0)", torch.unbind, "unbind")
getitem = declare("getitem(input, idx)", operator.getitem, "__getitem__")


@acc_op()
def tuple_construct(*, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Several values as one."""
    return tuple(tensors)


@acc_op()
def slice_tensor(*, input: Any, dim: int, start: int, stop: int, step: int) -> Any:
    """Elements start, start + step, ... before stop, along `dim`."""
    index = [slice(None)] * input.dim()
    index[dim] = slice(start, stop, step)
    return input[tuple(index)]


@acc_op()
def size(*, input: Any) -> torch.Size:
    """The lens of `input`; a trace has them as numbers, so only graphs that others made ask."""
    return input.size()


@acc_op()
def numel(*, input: Any) -> int:
    """The number of elements of `input`; as `size`."""
    return input.numel()


@acc_op()
def dtype(*, input: Any) -> torch.dtype:
    """The element type of `input`; as `size`."""
    return input.dtype


@acc_mapper(torch.narrow, "narrow")
def narrow_mapper(b: NodeBuilder, input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements from `start` along `dim`."""
    if not isinstance(start, int):
        raise Unmappable("the start is data")
    first = start % b.shape(input)[dim] if start < 0 else start
    return b(slice_tensor, input=input, dim=dim, start=first, stop=first + length, step=1)


declare("select(input, dim, index)", torch.select, "select")
declare("diagonal(input, offset=0, dim1=0, dim2=1)", torch.diagonal, "diagonal")
declare("tril(input, diagonal=0)", torch.tril, "tril", "tril_")
declare("triu(input, diagonal=0)", torch.triu, "triu", "triu_")


# ---- gathering and scattering


declare("index_select(input, dim, index)", torch.index_select, "index_select")
declare("gather(input, dim, index)", torch.gather, "gather")
declare("scatter(input, dim, index, src)", torch.scatter, "scatter", "scatter_", value="src")
declare("scatter_add(input, dim, index, src)", torch.scatter_add, "scatter_add", "scatter_add_")


# ---- element types and constants


@acc_op()
def to_dtype(*, input: Any, dtype: torch.dtype | None = None, acc_out_ty: Any = None, device: Any = None) -> Any:
    """The values in another element type: `dtype`, or that of `acc_out_ty`, which is torch.fx's TensorMetadata."""
    return input.to(dtype=acc_out_ty.dtype if dtype is None else dtype, device=device)


_CASTS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16,
    "long": torch.int64, "int": torch.int32, "short": torch.int16, "char": torch.int8, "byte": torch.uint8,
    "bool": torch.bool,
}  # fmt: skip


def _cast(b: NodeBuilder, input: Any, dtype: torch.dtype) -> Any:
    return input if b.dtype(input) == dtype else b(to_dtype, input=input, dtype=dtype)


def _register_cast(method: str, dtype: torch.dtype) -> None:
    @acc_mapper(method)
    def cast_mapper(b: NodeBuilder, input: Any, memory_format: Any = None) -> Any:
        return _cast(b, input, dtype)


for _method, _dtype in _CASTS.items():
    _register_cast(_method, _dtype)


@acc_mapper("type_as")
def type_as_mapper(b: NodeBuilder, input: Any, other: Any) -> Any:
    """The values in the element type of other."""
    return _cast(b, input, b.dtype(other))


@acc_mapper("to", "type")
def to_mapper(b: NodeBuilder, input: Any, *args: Any, **kwargs: Any) -> Any:
    """x.to(dtype), x.to(device), x.to(device, dtype), x.to(other); a change of device has no acc form."""
    before = b.value(input)
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    for arg in (*args, kwargs.get("other")):
        if isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, torch.device | str):
            device = arg
        elif hasattr(arg, "op"):
            dtype, device = b.dtype(arg), b.value(arg).device
    if device is not None and torch.device(device).type != before.device.type:
        raise Unmappable(f"a copy from {before.device} to {device}")
    changed = input if dtype is None else _cast(b, input, dtype)
    return b(clone, input=input) if changed is input and kwargs.get("copy") else changed


full = declare("full(size, fill_value, dtype=None, device=None)", torch.full)


@acc_op()
def arange(*, start: Any = 0, end: Any, step: Any = 1, dtype: Any = None, device: Any = None) -> Any:
    """start, start + step, ... before end."""
    return torch.arange(start, end, step, dtype=dtype, device=device)


def _full(b: NodeBuilder, like: Any, size: Any, value: Any, dtype: Any, device: Any) -> Any:
    model = b.value(like)
    if not isinstance(value, int | float | bool):
        raise Unmappable("the value is data")
    if device is not None and torch.device(device) != model.device:
        raise Unmappable(f"a constant on {device} beside a tensor on {model.device}")
    return b(full, size=tuple(size), fill_value=value, dtype=dtype or model.dtype, device=model.device)


def _register_fill(like: Any, new: str, value: Any) -> None:
    @acc_mapper(like)
    def like_mapper(
        b: NodeBuilder,
        input: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        layout: Any = None,
        memory_format: Any = None,
    ) -> Any:
        return _full(b, input, _lengths(b, input), value, dtype, device)

    @acc_mapper(new)
    def new_mapper(b: NodeBuilder, input: Any, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        return _full(b, input, _spread_or_list(size), value, dtype, device)


_register_fill(torch.zeros_like, "new_zeros", 0)
_register_fill(torch.ones_like, "new_ones", 1)


def _register_made(function: Any, value: int) -> None:
    @acc_mapper(function)
    def made_mapper(
        b: NodeBuilder,
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Any:
        """Of lengths that are not known: a tensor made of numbers alone is a constant before."""
        known = dtype or torch.get_default_dtype()
        return b(full, size=tuple(_spread_or_list(size)), fill_value=value, dtype=known, device=device)


_register_made(torch.zeros, 0)
_register_made(torch.ones, 1)
_register_made(torch.empty, 0)


@acc_mapper(torch.full_like)
def full_like_mapper(b: NodeBuilder, input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of one value under the shape of input."""
    return _full(b, input, _lengths(b, input), fill_value, dtype, device)


@acc_mapper("new_full")
def new_full_mapper(
    b: NodeBuilder, input: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Any:
    """A tensor of one value in the element type of input."""
    return _full(b, input, size, fill_value, dtype, device)


@acc_mapper(torch.fill_, "fill_")
def fill_mapper(b: NodeBuilder, input: Any, value: Any) -> Any:
    """The shape and type of input, one value."""
    return _full(b, input, _lengths(b, input), value, None, None)


@acc_mapper(torch.zero_, "zero_")
def zero_mapper(b: NodeBuilder, input: Any) -> Any:
    """The shape and type of input, all 0."""
    return _full(b, input, _lengths(b, input), 0, None, None)


@acc_mapper("copy_")
def copy_mapper(b: NodeBuilder, input: Any, src: Any, non_blocking: bool = False) -> Any:
    """The values of src under the shape and in the type of input."""
    if isinstance(src, int | float):
        return _full(b, input, _lengths(b, input), src, None, None)
    same = b.shape(src) == b.shape(input)
    copied = b(clone, input=src) if same else b(expand, input=src, sizes=_lengths(b, input))  # never src itself
    return _cast(b, copied, b.dtype(input))
