"""Removes views and copies that change nothing, and moves others away from between operators that can be fused.

What they refuse, and why: a reshape moves through a pointwise operator only with its other inputs (else one
copy is traded for another); reshapes of broadcast values stay copies; a transpose moves down through a
pointwise operator only where all inputs come in the same layout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operators
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ops.movement import Broadcasting, Reshaping, Slice, Span, Transpose
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.constants import broadcast_literal, compact, is_constant, scalar_of, value_of
from migraphx.passes.interface import Refusals
from migraphx.passes.products_of_views import (
    RESHAPES,
    dot_of_merged,
    dot_of_planes,
    dot_of_reshape,
    dot_of_transpose,
    softmax_of_merged,
)
from migraphx.passes.resizes import RESIZES
from migraphx.passes.rewrite import Rule, rewrite, rewrites
from migraphx.passes.shapes import same_memory

Answer = Instruction | Refuse
POINTWISE = operators(lambda op: issubclass(op, Pointwise))
BROADCASTS = operators(lambda op: issubclass(op, Broadcasting))
REDUCTIONS = operators(lambda op: issubclass(op, Reduction))


# ---- what does nothing ----


@rewrites(lambda b, x: b.one_of(("identity", "contiguous"), x))
def no_operation(b: Builder, x: Instruction) -> Answer:
    """identity(x) -> x, contiguous(x) -> x: an operator that needs another layout has a `layout` before it"""
    return x


@rewrites(lambda b, x: b.one_of((*RESHAPES, *BROADCASTS, "slice", "step"), x))
def same_lens(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape, slice, step, broadcast to the lens that x has -> x"""
    same = x.shape.ndim == root.shape.ndim and x.shape.lens == root.shape.lens
    return x if same else Mismatch("other lens")


@rewrites(lambda b, x: b.transpose(x))
def identity_transpose(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """transpose(x) -> x where it moves nothing"""
    return x if root.op.attributes()["permutation"] == tuple(range(x.shape.ndim)) else Mismatch("it moves")


@rewrites(lambda b, x: b.transpose(x))
def transpose_as_reshape(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """transpose(x) -> reshape(x) where only dimensions of length 1 change places"""
    moved = [d for d in root.op.attributes()["permutation"] if x.shape.lens[d] > 1]
    same = moved == sorted(moved) and x.shape.standard and x.shape.elements > 0
    return b.reshape(x, dims=root.shape.lens) if same else Mismatch("it moves elements")


@rewrites(lambda b, x: b.layout(x))
def same_layout(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """layout(x) -> x where x has that layout already; of one channel its readers go by the order that it names"""
    same = same_memory(x.shape, root.shape) and x.shape.permutation == root.shape.permutation
    return x if same else Mismatch("it copies, or names another order")


@rewrites(lambda b, x: b.layout(b.layout(x)))
def layout_of_layout(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """layout(layout(x)) -> layout(x)"""
    return b.layout(x, **root.op.attributes())


@rewrites(lambda b, x: b.pad(x))
def empty_pad(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """pad by nothing -> x"""
    return Mismatch("it pads") if any(root.op.attributes()["pads"]) else x


@rewrites(lambda b, x, w: b.convolution(b.pad(x), w))
def pad_of_convolution(b: Builder, x: Instruction, w: Instruction, root: Instruction) -> Answer:
    """convolution(pad(x), w) -> convolution(x, w) with more padding, where zeros are put round the image"""
    attributes = root.op.attributes()
    attributes["padding"] = _padding(root.inputs[0], root, 0)
    if attributes["padding"] is None:
        return Refuse("it pads otherwise than with zeros round the image")
    return b.convolution(x, w, **attributes)


@rewrites(lambda b, x: b.pooling(b.pad(x)))
def pad_of_maxima(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """pooling[max](pad(x)) -> pooling[max](x) with more padding, where -inf is put round the image"""
    attributes = root.op.attributes()
    if attributes["mode"] != "max" or attributes["ceil_mode"] or attributes["dyn_global"]:
        return Mismatch("what is put round the image counts")
    attributes["padding"] = _padding(root.inputs[0], root, -math.inf)
    if attributes["padding"] is None:
        return Refuse("it pads otherwise than with -inf round the image")
    return b.pooling(x, **attributes)


def _padding(pad: Instruction, window: Instruction, value: float) -> list[int] | None:
    """The padding of a window together with that of its input, which is to be of this value and of spatial axes."""
    of, own, spatial = pad.op.attributes(), window.op.attributes()["padding"], pad.shape.ndim - 2
    before, behind = of["pads"][: spatial + 2], of["pads"][spatial + 2 :]
    if of["mode"] != "constant" or of["value"] != value or any((*before[:2], *behind[:2])):
        return None
    sides = [*zip(own[:spatial], before[2:], strict=True), *zip(own[-spatial:], behind[2:], strict=True)]
    return [p + q for p, q in sides]


@rewrites(lambda b, x: b.one_of(REDUCTIONS, x))
def reduction_of_one(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reduction over dimensions of length 1 -> x"""
    return x if x.shape.lens == root.shape.lens else Mismatch("it reduces")


# ---- chains of views ----


@rewrites(lambda b, x: b.transpose(b.transpose(x)))
def transpose_of_transpose(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """transpose(transpose(x)) -> transpose(x)"""
    inner = root.inputs[0].op.attributes()["permutation"]
    return b.transpose(x, permutation=[inner[d] for d in root.op.attributes()["permutation"]])


@rewrites(lambda b, x: b.one_of(RESHAPES, b.one_of((*RESHAPES, "contiguous"), x)))
def reshape_of_reshape(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape(reshape(x)) -> reshape(x), with squeeze, unsqueeze and flatten as reshapes"""
    if x.shape.ndim == root.shape.ndim and x.shape.lens == root.shape.lens:
        return x
    names = {root.name, root.inputs[0].name}
    if names <= {"squeeze", "unsqueeze"} and not x.shape.standard:
        return Refuse("squeeze and unsqueeze are views of x, a reshape is none")
    return b.reshape(x, dims=root.shape.lens)


@rewrites(lambda b, x: b.flatten(x))
def flatten_as_reshape(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """flatten(x) -> reshape(x)"""
    return b.reshape(x, dims=root.shape.lens)


@rewrites(lambda b, x: b.multibroadcast(b.multibroadcast(x)))
def broadcast_of_broadcast(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """multibroadcast(multibroadcast(x)) -> multibroadcast(x)"""
    return b.multibroadcast(x, out_lens=root.shape.lens)


@rewrites(lambda b, x: b.multibroadcast(b.one_of(("unsqueeze", "reshape"), x)))
def broadcast_of_leading_ones(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """multibroadcast(unsqueeze(x)) -> multibroadcast(x) where the new dimensions are leading ones"""
    lens = root.inputs[0].shape.lens
    added = len(lens) - x.shape.ndim
    leading = added > 0 and lens == (1,) * added + x.shape.lens
    return b.multibroadcast(x, out_lens=root.shape.lens) if leading else Mismatch("not leading ones")


@rewrites(lambda b, x: b.broadcast(x))
def broadcast_as_multibroadcast(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """broadcast(x) -> multibroadcast(unsqueeze(x)): one form for all that follows"""
    axis = root.op.attributes()["axis"] % root.shape.ndim
    behind = root.shape.ndim - axis - x.shape.ndim
    if behind:
        x = b.unsqueeze(x, axes=[*range(x.shape.ndim, x.shape.ndim + behind)])
    return b.broadcast_to(x, root.shape.lens)


# ---- slices and concats ----


@rewrites(lambda b, x: b.slice(b.slice(x)))
def slice_of_slice(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """slice(slice(x)) -> slice(x)"""
    inner, outer = _spans(root.inputs[0]), _spans(root)
    spans = inner | {a: inner.get(a, Span(0, x.shape.lens[a])).cut(*s) for a, s in outer.items()}
    return _slice(b, x, spans)


@rewrites(lambda b: b.slice(b.concat(...)))
def slice_of_concat(b: Builder, root: Instruction) -> Answer:
    """slice(concat(x, y, z)) -> slice of one, or concat of those that it covers exactly"""
    joined = root.inputs[0]
    axis: int = joined.op.attributes()["axis"] % root.shape.ndim
    spans = _spans(root)
    if axis not in spans:
        return Mismatch("along another axis")
    kept, start = spans.pop(axis), 0
    inside: list[tuple[Instruction, int, int]] = []
    for part in joined.inputs:
        end = start + part.shape.lens[axis]
        if start <= kept.start and kept.stop <= end:
            return _slice(b, part, spans | {axis: Span(kept.start - start, kept.stop - start)})
        if start < kept.stop and kept.start < end:
            inside.append((part, start, end))
        start = end
    if not inside or inside[0][1] != kept.start or inside[-1][2] != kept.stop or len(joined.users) > 1:
        return Refuse("it cuts into an input")
    some = b.concat(*(part for part, _, _ in inside), axis=axis)
    return _slice(b, some, spans) if spans else some


@rewrites(lambda b: b.concat(...))
def concat_of_few(b: Builder, root: Instruction) -> Answer:
    """concat(x) -> x; empty inputs go; concat(concat(x, y), z) -> concat(x, y, z)"""
    axis = root.op.attributes()["axis"] % root.shape.ndim
    parts: list[Instruction] = []
    for part in root.inputs:
        nested = part.name == "concat" and len(part.users) == 1
        if nested and part.op.attributes()["axis"] % root.shape.ndim == axis:
            parts += part.inputs
        elif part.shape.lens[axis]:
            parts.append(part)
    if (tuple(parts) == root.inputs and len(parts) > 1) or not parts:
        return Mismatch("nothing to drop")
    return parts[0] if len(parts) == 1 else b.concat(*parts, axis=axis)


@rewrites(lambda b: b.concat(...))
def concat_of_slices(b: Builder, root: Instruction) -> Answer:
    """concat(x[0:4], x[4:9]) -> x[0:9]"""
    axis = root.op.attributes()["axis"] % root.shape.ndim
    if any(i.name != "slice" or i.inputs[0] is not root.inputs[0].inputs[0] for i in root.inputs):
        return Mismatch("not slices of one value")
    cuts = [_spans(i) for i in root.inputs]
    if any(list(c) != [axis] for c in cuts):
        return Refuse("slices along other axes")
    spans = [c[axis] for c in cuts]
    if any(a.stop != c.start for a, c in pairwise(spans)):
        return Refuse("slices that do not follow one another")
    return _slice(b, root.inputs[0].inputs[0], {axis: Span(spans[0].start, spans[-1].stop)})


def _spans(ins: Instruction) -> dict[int, Span]:
    assert isinstance(ins.op, Slice)
    return ins.op.spans(ins.inputs[0].shape.lens)


def _slice(b: Builder, x: Instruction, spans: dict[int, Span]) -> Instruction:
    """`x` cut to spans; nothing is added where they keep everything."""
    cut = {a: s for a, s in sorted(spans.items()) if s.length != x.shape.lens[a]}
    if not cut:
        return x
    starts, ends = [s.start for s in cut.values()], [s.stop for s in cut.values()]
    return b.slice(x, axes=list(cut), starts=starts, ends=ends)


@rewrites(lambda b, x, i: b.gather(x, b.constant("i")))
def gather_of_range(b: Builder, x: Instruction, i: Instruction, root: Instruction) -> Answer:
    """gather(x, 3) -> x[3:4], gather(x, {3, 4, 5}) -> x[3:6]: views"""
    axis: int = root.op.attributes()["axis"] % x.shape.ndim
    length, indices = x.shape.lens[axis], value_of(i).reshape(-1)
    if not indices.size or not -length <= indices[0] < length:
        return Refuse("no index, or one out of range")
    start = int(indices[0]) % length
    if start + indices.size > length or not np.array_equal(indices, indices[0] + np.arange(indices.size)):
        return Refuse("indices that do not follow one another")
    cut = _slice(b, x, {axis: Span(start, start + indices.size)})
    if cut.shape.lens == root.shape.lens:
        return cut
    return b.reshape(cut, dims=root.shape.lens) if i.shape.ndim else b.squeeze(cut, axes=[axis])


@rewrites(lambda b, x, i: b.gather(x, b.multibroadcast(i)))
def gather_of_broadcast(b: Builder, x: Instruction, i: Instruction, root: Instruction) -> Answer:
    """gather(x, broadcast(i)) -> broadcast(gather(x, i)): the embedding of indices that all sequences have in common"""
    axis: int = root.op.attributes()["axis"] % x.shape.ndim
    ahead = root.inputs[1].shape.ndim - i.shape.ndim
    found = b.gather(x, b.unsqueeze(i, axes=list(range(ahead))) if ahead else i, axis=axis)
    return b.multibroadcast(found, out_lens=root.shape.lens)


# ---- reshapes of what is not row-major ----


def groups(lens: Sequence[int], dims: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Dimensions of `lens` and those of `dims` that hold the same elements, as fine as can be; None if empty.

    {2, 12, 5} and {2, 3, 4, 5} give [([0], [0]), ([1], [1, 2]), ([2], [3])].
    """
    if 0 in lens:
        return None
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(lens) or j < len(dims):
        mine: list[int] = []
        theirs: list[int] = []
        m = n = 1
        while not (mine or theirs) or m != n:
            if m <= n and i < len(lens):
                mine, m, i = [*mine, i], m * lens[i], i + 1
            else:
                theirs, n, j = [*theirs, j], n * dims[j], j + 1
            if m == n and not theirs and j < len(dims) and m == 1 and dims[j] == 1:
                theirs, j = [j], j + 1
        found.append((mine, theirs))
    return found


@rewrites(lambda b, x: b.reshape(b.slice(x)))
def reshape_of_slice(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape(slice(x)) -> slice(reshape(x)) where x is row-major: two views instead of a copy"""
    spans = _spans(root.inputs[0])
    if not x.shape.standard or len(spans) != 1 or root.inputs[0].shape.standard:
        return Mismatch("x is not row-major, or the slice is")
    ((axis, kept),) = spans.items()
    parts = groups(root.inputs[0].shape.lens, root.shape.lens)
    assert parts is not None, "what is empty is row-major"
    mine, theirs = next(part for part in parts if axis in part[0])
    first = next((d for d in theirs if root.shape.lens[d] > 1), None)
    if any(root.inputs[0].shape.lens[d] > 1 for d in mine if d != axis) or first is None:
        return Refuse("the sliced dimension is merged with another")
    step = kept.length // root.shape.lens[first]
    if kept.start % step or x.shape.lens[axis] % step:
        return Refuse("the slice cuts into the new dimensions")
    dims = list(root.shape.lens)
    dims[first] = x.shape.lens[axis] // step
    cut = {first: Span(kept.start // step, kept.start // step + root.shape.lens[first])}
    return _slice(b, b.reshape(x, dims=dims), cut)


@rewrites(lambda b, x: b.reshape(x))
def reshape_as_views(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape(x) -> transpose(reshape(transpose(x))) where x is packed and dimensions merge as they lie"""
    if x.shape.standard or not x.shape.packed:
        return Mismatch("x is row-major, or not packed")
    parts = groups(x.shape.lens, root.shape.lens)
    assert parts is not None, "what is empty is row-major"
    strides, lens = x.shape.strides, x.shape.lens
    for mine, _ in parts:
        real = [d for d in mine if lens[d] > 1]
        if any(strides[d] != strides[e] * lens[e] for d, e in pairwise(real)):
            return Refuse("it merges what does not lie together")
    parts.sort(key=lambda p: -max((strides[d] for d in p[0] if lens[d] > 1), default=math.inf))
    order = [d for mine, _ in parts for d in mine]
    new = [d for _, theirs in parts for d in theirs]
    flat = b.reshape(b.transpose(x, permutation=order), dims=[root.shape.lens[d] for d in new])
    return b.transpose(flat, permutation=np.argsort(np.array(new, int)).tolist())


@rewrites(lambda b, x: b.reshape(x))
def reshape_as_split(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape(x) -> unsqueeze(squeeze(x)), views, where x is not row-major and no two dimensions merge"""
    lens, dims = x.shape.lens, root.shape.lens
    parts = groups(lens, dims)
    if x.shape.standard or parts is None:
        return Mismatch("x is row-major, or empty")
    if any(sum(lens[d] > 1 for d in mine) > 1 for mine, _ in parts):
        return Refuse("it merges dimensions")
    ones = [d for d, n in enumerate(lens) if n == 1]
    y = b.squeeze(x, axes=ones) if ones else x
    at = 0
    for mine, theirs in parts:
        for n in [dims[d] for d in theirs if dims[d] > 1][:-1]:
            y = b.unsqueeze(y, axes=[at], steps=[n])
            at += 1
        at += any(lens[d] > 1 for d in mine)
    ones = [d for d, n in enumerate(dims) if n == 1]
    return b.unsqueeze(y, axes=ones) if ones else y


# ---- views moved down through pointwise operators ----


def again(b: Builder, root: Instruction, inputs: Sequence[Instruction]) -> Instruction:
    """`root`'s operation on other inputs."""
    return b.instruction(root.name, inputs, **root.op.attributes())


def takes_epilogue(x: Instruction, levels: int = 8) -> bool:
    """Whether `x` is a dot, a convolution ..., or pointwise operators behind one: what follows might join it."""
    if len(x.users) > 1 or not levels:
        return False
    behind = isinstance(x.op, Pointwise) and any(takes_epilogue(i, levels - 1) for i in x.inputs)
    return x.op.takes_epilogue or behind


@rewrites(lambda b: b.one_of(POINTWISE, ...))
def pointwise_of_views(b: Builder, root: Instruction) -> Answer:
    """f(transpose(x), transpose(y)) -> transpose(f(x, y)), and so for reshapes of equal lens

    A constant takes part where it is one number, or varies along dimensions that the view keeps apart. Another
    input takes part where its inverse view is free and x, not it, can take the operator as an epilogue.
    """
    views = [i for i in root.inputs if isinstance(i.op, (Transpose, Reshaping)) and not is_constant(i)]
    if not views:
        return Mismatch("no input is a view")
    why = Refuse("others use the view too, or it is a reshape of what is not row-major")
    if _widens(root) and not any(takes_epilogue(v.inputs[0]) for v in views):
        return Refuse("what the view moves would be wider")
    for view in views:
        if view.name == "transpose" and len(view.users) > 1:
            continue
        if view.name != "transpose" and not (view.inputs[0].shape.standard and all(_from(u, view) for u in view.users)):
            continue
        inputs = [_before(b, i, view) for i in root.inputs]
        kept = [i for i in inputs if not isinstance(i, Refuse)]
        if len(kept) == len(inputs):
            y = again(b, root, kept)
            moved = view.name == "transpose"
            return b.transpose(y, **view.op.attributes()) if moved else b.reshape(y, dims=root.shape.lens)
        why = next(i for i in inputs if isinstance(i, Refuse))
    return why


def _widens(ins: Instruction) -> bool:
    """Whether it only converts to a type of more bytes."""
    return ins.name == "convert" and ins.shape.numpy_dtype.itemsize > ins.inputs[0].shape.numpy_dtype.itemsize


def _from(x: Instruction, view: Instruction, levels: int = 8) -> bool:
    """Whether `x` is made of the view, constants and pointwise operators alone: all of it can move with the view.

    Where the view has one user, its other inputs may be reshaped likewise.
    """
    if x is view or is_constant(x) or len(view.users) == 1:
        return True
    return levels > 0 and isinstance(x.op, Pointwise) and all(_from(i, view, levels - 1) for i in x.inputs)


def _before(b: Builder, i: Instruction, view: Instruction) -> Answer:
    """The input `i` as it is before `view`."""
    x, order = view.inputs[0], view.op.attributes().get("permutation")
    if order is None:
        if is_constant(i):
            return _constant_before(b, i, x.shape.lens)
        if i.name == "multibroadcast" and (few := _broadcast_before(b, i, x.shape.lens)) is not None:
            return few
        if isinstance(i.op, Reshaping) and i.inputs[0].shape.lens == x.shape.lens and i.inputs[0].shape.standard:
            return i.inputs[0]
        free = i.shape.standard or _but_ones(i.shape.lens) == _but_ones(x.shape.lens)
        free = free and takes_epilogue(x) and not takes_epilogue(i)
        return b.reshape(i, dims=x.shape.lens) if free else Refuse("an input is not reshaped alike")
    back = tuple(int(d) for d in np.argsort(np.array(order, int)))
    if i.name == "transpose" and i.op.attributes()["permutation"] == order:
        return i.inputs[0]
    if is_constant(i):
        return broadcast_literal(b, compact(i).transpose(back), x.shape.lens)
    free = i.shape.broadcasted or same_memory(i.shape, view.shape)
    if free and takes_epilogue(x) and not takes_epilogue(i):
        return b.transpose(i, permutation=back)
    return Refuse("an input lies in another order")


def _but_ones(lens: Sequence[int]) -> list[int]:
    return [n for n in lens if n != 1]


def _constant_before(b: Builder, c: Instruction, lens: Sequence[int]) -> Answer:
    """A constant before a reshape of values of `lens`."""
    small = compact(c)
    dims = _lens_before(small.shape, c.shape.lens, lens)
    if dims is None:
        return Refuse("a constant varies along a part of what is reshaped")
    return broadcast_literal(b, small.reshape(dims), lens) if small.size else Refuse("it is empty")


def _broadcast_before(b: Builder, i: Instruction, lens: Sequence[int]) -> Instruction | None:
    """A broadcast of what is row-major before a reshape of values of `lens`: of a norm's weights, one a channel."""
    (small,) = i.inputs
    dims = _lens_before((1,) * (i.shape.ndim - small.shape.ndim) + small.shape.lens, i.shape.lens, lens)
    if dims is None or not small.shape.standard or not small.shape.elements:
        return None
    return b.multibroadcast(b.reshape(small, dims=dims), out_lens=lens)


def _lens_before(small: Sequence[int], wide: Sequence[int], lens: Sequence[int]) -> list[int] | None:
    """The lens `small` before a reshape of `lens` to `wide`; None where they vary along a part of what is reshaped."""
    dims = [1] * len(lens)
    for mine, theirs in groups(lens, wide) or []:
        varies = [d for d in theirs if small[d] > 1]
        if varies and any(small[d] != wide[d] for d in theirs):
            return None
        for d in mine if varies else []:
            dims[d] = lens[d]
    return dims


@rewrites(lambda b: b.one_of(POINTWISE, ...))
def pointwise_of_broadcasts(b: Builder, root: Instruction) -> Answer:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), for x and y of equal lens, or numbers"""
    varying = [i for i in root.inputs if not is_constant(i)]
    if not varying or any(i.name != "multibroadcast" for i in varying):
        return Mismatch("not all inputs are broadcast")
    lens = varying[0].inputs[0].shape.lens
    if any(i.inputs[0].shape.lens != lens for i in varying):
        return Refuse("inputs of different lens are broadcast")
    if any(scalar_of(i) is None for i in root.inputs if i not in varying):
        return Refuse("a constant varies")
    inputs = [
        b.broadcast_to(b.literal(compact(i).reshape((-1,) if lens else ())), lens) if is_constant(i) else i.inputs[0]
        for i in root.inputs
    ]
    return b.multibroadcast(again(b, root, inputs), out_lens=root.shape.lens)


RULES: list[Rule] = [
    no_operation,
    same_lens,
    identity_transpose,
    same_layout,
    layout_of_layout,
    empty_pad,
    reduction_of_one,
    transpose_as_reshape,
    pad_of_convolution,
    pad_of_maxima,
    transpose_of_transpose,
    flatten_as_reshape,
    reshape_of_reshape,
    broadcast_of_broadcast,
    broadcast_of_leading_ones,
    broadcast_as_multibroadcast,
    slice_of_slice,
    slice_of_concat,
    concat_of_few,
    concat_of_slices,
    gather_of_range,
    gather_of_broadcast,
    reshape_of_slice,
    reshape_as_views,
    reshape_as_split,
    dot_of_reshape,
    dot_of_transpose,
    dot_of_planes,
    dot_of_merged,
    softmax_of_merged,
    pointwise_of_broadcasts,
    pointwise_of_views,
    *RESIZES,
]


def simplify_reshapes(module: Module) -> Refusals:
    """Apply the rules above until none is left.

    The heads of an attention, cut from one product, are views:

    before:
        x = @param:x -> float_type, {1, 3, 12}, {36, 12, 1}
        @1 = slice[axes={2},starts={4},ends={8}](x) -> float_type, {1, 3, 4}, {36, 12, 1}
        @2 = contiguous(@1)
        @3 = reshape[dims={1, 3, 2, -1}](@2)
        @4 = transpose[permutation={0, 2, 1, 3}](@3)
        @5 = transpose[permutation={0, 1, 3, 2}](@4)
        @6 = relu(@5)
        @7 = @return(@6)

    after:
        x = @param:x -> float_type, {1, 3, 12}, {36, 12, 1}
        @1 = reshape[dims={1, 3, 6, 2}](x) -> float_type, {1, 3, 6, 2}, {36, 12, 2, 1}
        @2 = slice[axes={2},starts={2},ends={4}](@1) -> float_type, {1, 3, 2, 2}, {36, 12, 2, 1}
        @3 = relu(@2) -> float_type, {1, 3, 2, 2}, {12, 4, 2, 1}
        @4 = transpose[permutation={0, 2, 3, 1}](@3) -> float_type, {1, 2, 2, 3}, {12, 2, 1, 4}
        @5 = @return(@4)

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {2, 4}, {4, 1}
        @2 = concat[axis=1](x,y)
        @3 = slice[axes={1},starts={3},ends={7}](@2)
        @4 = unsqueeze[axes={0},steps={}](@3)
        @5 = multibroadcast[out_lens={3, 2, 4},out_dyn_dims={}](@4)
        @6 = neg(@5)
        @7 = @return(@6)

    after:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {2, 4}, {4, 1}
        @2 = neg(y)
        @3 = multibroadcast[out_lens={3, 2, 4},out_dyn_dims={}](@2)
        @4 = layout[permutation={0, 1, 2}](@3)
        @5 = @return(@4)
    """
    return rewrite(module, RULES)
