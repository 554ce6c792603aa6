"""Lowering of views, which are other strides on the same memory, and of copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refuse
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.size import most_of
from migraphx.ops.movement import Slice, Step
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import NEUTRAL
from migraphx.targets.common.views import View


@NEUTRAL.of("transpose")
def transpose(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.views[ins] = ctx.view(ins.inputs[0]).transposed(ins.op.attributes()["permutation"])


@NEUTRAL.of("multibroadcast", "broadcast", "scalar")
def broadcast(ctx: LoweringContext, ins: Instruction) -> None:
    view, lens = ctx.view(ins.inputs[0]), ins.shape.lens
    if ins.name == "broadcast":  # the input's dimensions start at `axis`
        axis = ins.op.attributes()["axis"]
        tail = len(lens) - axis - len(view.lens)
        view = replace(view, lens=view.lens + (1,) * tail, strides=view.strides + (0,) * tail)
    ctx.views[ins] = view.expanded(lens)


@NEUTRAL.of("squeeze", "unsqueeze", "reshape", "flatten", "reshape_lazy")
def reshape(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.view(ins.inputs[0])
    same = view.reshaped(ins.shape.lens)
    if same is None:
        place = ctx.output_views.get(ins)
        made = ctx.temporary(Shape(view.type, view.lens)) if place is None else place.row_major(view.lens)
        ctx.copy(view, made, ins.origin)
        same = made.row_major(ins.shape.lens)
    ctx.views[ins] = same


@NEUTRAL.of("as_shape", "load")
def other_shape(ctx: LoweringContext, ins: Instruction) -> None:
    """The input's memory, seen as another shape."""
    view, want = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.shape
    start = view.offset * view.itemsize + ins.op.attributes().get("offset", 0)
    size = want.numpy_dtype.itemsize
    ctx.views[ins] = replace(view, type=want.type, lens=want.lens, strides=want.strides, offset=start // size)


@NEUTRAL.of("identity")
def identity(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.views[ins] = ctx.view(ins.inputs[0])


@NEUTRAL.of("slice")
def slice_(ctx: LoweringContext, ins: Instruction) -> None:
    assert isinstance(ins.op, Slice)
    view = ctx.view(ins.inputs[0])
    for axis, span in ins.op.spans(view.lens).items():
        view = view.sliced(axis, *span)
    ctx.views[ins] = view


@NEUTRAL.of("step")
def step(ctx: LoweringContext, ins: Instruction) -> None:
    assert isinstance(ins.op, Step)
    view = ctx.view(ins.inputs[0])
    for axis, size in zip(ins.op.axes, ins.op.steps, strict=True):
        view = view.sliced(axis, 0, view.lens[axis], size)
    ctx.views[ins] = view


@NEUTRAL.of("reverse")
def reverse(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.view(ins.inputs[0])
    for axis in ins.op.attributes()["axes"]:
        view = view.reversed(axis)
    ctx.copy(view, ctx.result(ins), ins.origin)


@NEUTRAL.of("contiguous", "layout")
def contiguous(ctx: LoweringContext, ins: Instruction) -> None:
    """A copy, unless the value lies in the wanted order already."""
    view, want = ctx.view(ins.inputs[0]), ins.shape
    lies = all(n <= 1 or s == w for n, s, w in zip(want.lens, view.strides, want.strides, strict=True))
    if lies and ins not in ctx.output_views:
        ctx.views[ins] = view
    else:
        ctx.copy(view, ctx.result(ins), ins.origin)


@NEUTRAL.of("bit_cast")
def bit_cast(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.views[ins] = replace(ctx.view(ins.inputs[0]), type=ins.shape.type)


@NEUTRAL.of("get_tuple_elem")
def get_tuple_elem(ctx: LoweringContext, ins: Instruction) -> None:
    ctx.views[ins] = ctx.tuples[ins.inputs[0]][ins.op.attributes()["index"]]


@NEUTRAL.of("concat")
def concat(ctx: LoweringContext, ins: Instruction) -> None:
    """Nothing where every input was computed inside the result, or lies beside the others; else copies."""
    axis: int = ins.op.attributes()["axis"]
    parts = [ctx.view(i) for i in ins.inputs]
    joined = None if ins in ctx.views or ins in ctx.output_views else _side_by_side(parts, axis)
    if joined is not None:
        ctx.views[ins] = joined
        return
    whole, start = ctx.result(ins), 0
    for i, part in zip(ins.inputs, parts, strict=True):
        place = whole.sliced(axis, start, start + part.lens[axis])
        if ctx.concat_slots.get(i, (None,))[0] is not ins:
            ctx.refuse(i, "concat in place", Refuse("it lies elsewhere already, or in another order, and is copied"))
            ctx.copy(part, place, ins.origin)
        start += part.lens[axis]


def _side_by_side(parts: list[View], axis: int) -> View | None:
    """The parts as one view, where they follow each other in one buffer."""
    first, at = parts[0], parts[0].offset
    for p in parts:
        same = (p.buffer, p.strides, p.moves, p.offset) == (first.buffer, first.strides, first.moves, at)
        if not same or p.buffer.kind != "arena":
            return None
        at += p.lens[axis] * p.strides[axis]
    lens = list(first.lens)
    lens[axis] = sum(p.lens[axis] for p in parts)
    return replace(first, lens=tuple(lens))


@NEUTRAL.of("pad")
def pad(ctx: LoweringContext, ins: Instruction) -> None:
    """Fill, then copy the input into the middle; reflect and edge copy slabs, dimension by dimension."""
    attributes = ins.op.attributes()
    pads, rank = attributes["pads"], len(ins.shape.lens)
    view, whole = ctx.view(ins.inputs[0]), ctx.result(ins)
    middle = whole
    for d in range(rank):
        before, after = pads[d], pads[rank + d]
        view = view.sliced(d, max(0, -before), view.lens[d] - max(0, -after))
        middle = middle.sliced(d, max(0, before), middle.lens[d] - max(0, after))
    if attributes["mode"] == "constant":
        fill(ctx, whole, attributes["value"], ins.origin)
        ctx.copy(view, middle, ins.origin)
        return
    ctx.copy(view, middle, ins.origin)
    grown = middle
    for d in range(rank):
        before, after = max(0, pads[d]), max(0, pads[rank + d])
        grown = _grow(ctx, grown, d, before, after, attributes["mode"] == "reflect", ins.origin)


def _grow(ctx: LoweringContext, inner: View, d: int, before: int, after: int, reflect: bool, origin: str) -> View:
    """Fill `before` and `after` rows round the inner view along d from the rows inside; returns the larger view."""
    n, step = inner.lens[d], inner.strides[d]
    lens = tuple(n + before + after if k == d else m for k, m in enumerate(inner.lens))
    grown = replace(inner, lens=lens, offset=inner.offset - before * step)

    def edge(at: int, count: int) -> View:
        row = inner.sliced(d, at, at + 1)
        return row.expanded([count if k == d else m for k, m in enumerate(row.lens)])

    first = inner.sliced(d, 1, before + 1).reversed(d) if reflect else edge(0, before)
    last = inner.sliced(d, n - 1 - after, n - 1).reversed(d) if reflect else edge(n - 1, after)
    for rows, at in ((first, 0), (last, before + n)):
        if rows.lens[d]:
            ctx.copy(rows, grown.sliced(d, at, at + rows.lens[d]), origin)
    return grown


def fill(ctx: LoweringContext, write: View, value: float, origin: str = "") -> None:
    """Every element of `write` becomes `value`."""
    body = Module("fill")
    literal = body.add_literal(np.array([value]).astype(Shape(write.type).numpy_dtype))
    body.add_return([literal])
    ctx.call(ctx.emit.pointwise(body, [], write, origin))


def channels_last(ctx: LoweringContext, view: View, origin: str) -> View:
    """`view` {N, C, spatial...} where pixels follow each other and channels are innermost; else such a copy."""
    _, c, *spatial = view.lens
    pixel = view.strides[-1] if spatial[-1] > 1 else most_of(c, 1)
    steps: list[int] = []
    step = pixel
    for size in reversed(spatial):
        steps.append(step)
        step *= size
    want = (step, 1, *reversed(steps))
    if all(m <= 1 or s == w for m, s, w in zip(view.lens, view.strides, want, strict=True)) and pixel >= c:
        return replace(view, strides=want)
    copy = image(ctx, view.type, view.lens)
    ctx.copy(view, copy, origin)
    return copy


def image(ctx: LoweringContext, type: str, lens: Sequence[int]) -> View:
    """New memory {N, C, spatial...} whose channels are innermost."""
    return ctx.temporary(permuted(type, lens, (0, *range(2, len(lens)), 1)))
