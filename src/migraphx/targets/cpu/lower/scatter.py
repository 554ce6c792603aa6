"""Operators that write at indices, and rare ones that read at them."""

from __future__ import annotations

import math

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
    """Copies the data, then joins the updates."""
    op = ins.op
    assert isinstance(op, (Scatter, ScatterNd))
    data = ctx.view(ins.inputs[0])
    indices, updates = (ctx.standard(ctx.view(i), ins.origin) for i in ins.inputs[1:])
    type = data.type if op.how == "none" else WIDER.get(data.type, data.type)

    def write(out: View) -> None:
        made = out if type == out.type else ctx.temporary(Shape(type, out.lens))
        ctx.convert(data, made, ins.origin)
        numbers = Numbers()
        if isinstance(op, Scatter):
            axis = op.axis % len(data.lens)
            message = f"{described(ins)}: an index is out of range for a length of {data.lens[axis]}"
            lens = (*indices.lens, *made.strides)
            fill = structs.Scatter(len(data.lens), axis, data.lens[axis], ctx.check(message), lens).cpp(numbers)
            head = f"scatter<{HOWS[op.how]}>(t, {fill}, p0, p1, p2, p3);"
        else:
            depth = indices.lens[-1]
            tuples, inner = math.prod(indices.lens[:-1]), math.prod(data.lens[depth:])
            lens = data.lens[:depth]
            fill = structs.ScatterNd(tuples, depth, inner, ctx.check(out_of_range(ins, lens)), lens).cpp(numbers)
            head = f"scatter_nd<{HOWS[op.how]}>(t, {fill}, p0, p1, p2, p3);"
        if updates.elements:
            writes = (made, ctx.status)
            ctx.call(simple_call(head, (indices, updates), writes, numbers, ins.name, ins.origin, "scatter.hpp"))
        if made is not out:
            ctx.convert(made, out, ins.origin)

    ctx.row_major(ins, write)


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
