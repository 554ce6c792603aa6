"""Operators that write at indices, and rare ones that read at them."""

from __future__ import annotations

import math
from dataclasses import replace

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ops.indexing import Scatter, ScatterNd
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit import structs
from migraphx.targets.cpu.emit.indexing import around, simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.lower.registry import CPU

HOWS = {"none": "JoinReplace", "add": "JoinAdd", "mul": "JoinMul", "min": "JoinMin", "max": "JoinMax"}
WIDER = {"half": "float", "bf16": "float"}  # what updates are summed in, to be rounded once


def out_of_range(ins: Instruction, lens: tuple[int, ...]) -> str:
    return f"{described(ins)}: an index is out of range for lens {{{', '.join(map(str, lens))}}}"


@CPU.of(*(f"scatter_{how}" for how in HOWS), *(f"scatternd_{how}" for how in HOWS))
def scatter(ctx: LoweringContext, ins: Instruction) -> None:
    """Copies the data, save where the caller has it updated in place, then joins the updates."""
    op = ins.op
    assert isinstance(op, (Scatter, ScatterNd))
    data = ctx.view(ins.inputs[0])
    type = data.type if op.how == "none" else WIDER.get(data.type, data.type)
    updates = ctx.standard(ctx.view(ins.inputs[2]), ins.origin)

    def write(out: View) -> None:
        made = out if type == out.type else ctx.temporary(Shape(type, out.lens))
        if made is out and ctx.updates(ins, out):
            _copy_elsewhere(ctx, data, out, ins.origin)
        else:
            ctx.convert(data, made, ins.origin)
        if updates.elements:
            _join(ctx, ins, updates, made)
        if made is not out:
            ctx.convert(made, out, ins.origin)

    ctx.row_major(ins, write)


def _copy_elsewhere(ctx: LoweringContext, data: View, out: View, origin: str) -> None:
    numbers = Numbers()
    head = f"copy_elsewhere(t, {numbers.one(data.elements)}, p0, p1);"
    ctx.call(simple_call(head, (data,), (out,), numbers, "copy elsewhere", origin, "scatter.hpp"))


def _join(ctx: LoweringContext, ins: Instruction, updates: View, made: View) -> None:
    """The call that joins `updates` to `made`, row-major, at the indices of a scatter."""
    op, indices, numbers = ins.op, ctx.view(ins.inputs[1]), Numbers()
    if isinstance(op, Scatter):
        axis = op.axis % len(made.lens)
        check = ctx.check(f"{described(ins)}: an index is out of range for a length of {made.lens[axis]}")
        rows = _row_numbers(indices, axis, made)
        if rows is not None:
            indices = ctx.standard(rows, ins.origin)
            outer, length, inner = around(made.lens, axis)
            sets, count = rows.lens
            fill = structs.ScatterRows(outer, length, inner, count, outer // sets, check).cpp(numbers)
            name = "scatter_rows"
        else:
            indices = ctx.standard(indices, ins.origin)
            lens = (*indices.lens, *made.strides)
            fill, name = structs.Scatter(len(made.lens), axis, made.lens[axis], check, lens).cpp(numbers), "scatter"
    else:
        indices = ctx.standard(indices, ins.origin)
        depth = indices.lens[-1]
        tuples, inner, lens = math.prod(indices.lens[:-1]), math.prod(made.lens[depth:]), made.lens[:depth]
        check = ctx.check(out_of_range(ins, lens))
        fill, name = structs.ScatterNd(tuples, depth, inner, check, lens).cpp(numbers), "scatter_nd"
    head = f"{name}<{HOWS[op.how]}>(t, {fill}, p0, p1, p2, p3);"  # type: ignore[union-attr]
    writes = (made, ctx.status)
    ctx.call(simple_call(head, (indices, updates), writes, numbers, ins.name, ins.origin, "scatter.hpp"))


def _row_numbers(indices: View, axis: int, made: View) -> View | None:
    """Indices {sets, rows} of whole rows along the axis: alike in all dimensions but it and perhaps the first.

    None where they are not.
    """
    others = [d for d in range(len(made.lens)) if d != axis]
    first = 0 if axis > 0 and indices.strides[0] else None
    alike = all(indices.strides[d] == 0 or indices.lens[d] == 1 for d in others if d != first)
    if not alike or not indices.elements or any(indices.lens[d] != made.lens[d] for d in others):
        return None
    sets, step = (1, 0) if first is None else (indices.lens[0], indices.strides[0])
    return replace(indices, lens=(sets, indices.lens[axis]), strides=(step, indices.strides[axis]))


@CPU.of("gathernd")
def gathernd(ctx: LoweringContext, ins: Instruction) -> None:
    data, indices = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    batch, depth = ins.op.attributes()["batch_dims"], indices.lens[-1]
    lens = data.lens[batch : batch + depth]
    batches, tuples = math.prod(indices.lens[:batch]), math.prod(indices.lens[batch:-1])
    numbers, inner, check = Numbers(), math.prod(data.lens[batch + depth :]), ctx.check(out_of_range(ins, lens))
    head = f"gather_nd(t, {structs.GatherNd(batches, tuples, depth, inner, check, lens).cpp(numbers)}, p0, p1, p2, p3);"
    ctx.row_major(
        ins,
        lambda out: ctx.call(
            simple_call(head, (data, indices), (out, ctx.status), numbers, ins.name, ins.origin, gathers=True)
        ),
    )


@CPU.of("onehot")
def onehot(ctx: LoweringContext, ins: Instruction) -> None:
    indices, values = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    numbers, sizes = Numbers(), around(ins.shape.lens, ins.op.attributes()["axis"] % len(ins.shape.lens))
    head = f"one_hot(t, {structs.OneHot(*sizes).cpp(numbers)}, p0, p1, p2);"
    ctx.row_major(
        ins, lambda out: ctx.call(simple_call(head, (indices, values), (out,), numbers, ins.name, ins.origin))
    )


@CPU.of("nonzero")
def nonzero(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)
    numbers = Numbers()
    head = f"non_zero(t, {structs.NonZero(len(view.lens), view.lens).cpp(numbers)}, p0, p1);"
    ctx.row_major(ins, lambda out: ctx.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))
