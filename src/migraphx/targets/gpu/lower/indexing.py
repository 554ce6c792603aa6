"""Operators that pick by index, and those that order."""

from __future__ import annotations

import math

from migraphx.ir.module import Instruction
from migraphx.ir.operation import OpenLiteral
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.indexing import (
    embedding_bag_call,
    gather_call,
    gather_elements_call,
    gather_nd_call,
    numbers_call,
    one_hot_call,
)
from migraphx.targets.gpu.emit.order import arg_extreme_call, nonzero_calls, prefix_sum_call, topk_calls
from migraphx.targets.gpu.lower.registry import GPU


def out_of_range(ins: Instruction, lens: tuple[int, ...]) -> str:
    """What is wrong where a check fails."""
    if len(lens) == 1:
        return f"{described(ins)}: an index is out of range for a length of {lens[0]}"
    return f"{described(ins)}: an index is out of range for lens {{{', '.join(map(str, lens))}}}"


@GPU.of("@literal")
def open_literal(ctx: LoweringContext, ins: Instruction) -> None:
    """What is made of sizes is stored by a kernel that is given it."""
    assert isinstance(ins.op, OpenLiteral)
    out = ctx.temporary(ins.shape)
    ctx.call(numbers_call(list(ins.op.sizes.reshape(-1)), out, ins.origin))
    ctx.views[ins] = out


@GPU.of("gather")
def gather(ctx: LoweringContext, ins: Instruction) -> None:
    data, indices = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    axis = ins.op.attributes()["axis"] % len(data.lens)
    check = ctx.check(out_of_range(ins, (data.lens[axis],)))
    ctx.row_major(ins, lambda out: ctx.call(gather_call(data, indices, out, ctx.status, axis, check, ins.origin)))


@GPU.of("gather_elements")
def gather_elements(ctx: LoweringContext, ins: Instruction) -> None:
    """From the part of the data that the indices' other dimensions reach."""
    data, indices = ctx.view(ins.inputs[0]), ctx.standard(ctx.view(ins.inputs[1]), ins.origin)
    axis = ins.op.attributes()["axis"] % len(data.lens)
    for d, n in enumerate(indices.lens):
        data = data if d == axis else data.sliced(d, 0, n)
    source, check = ctx.standard(data, ins.origin), ctx.check(out_of_range(ins, (data.lens[axis],)))
    ctx.row_major(
        ins, lambda out: ctx.call(gather_elements_call(source, indices, out, ctx.status, axis, check, ins.origin))
    )


@GPU.of("embedding_bag")
def embedding_bag(ctx: LoweringContext, ins: Instruction) -> None:
    data, indices, weights = ctx.reads(ins)
    table = ctx.standard(data, ins.origin)
    check = ctx.check(out_of_range(ins, (table.lens[1],)))

    def write(out: View) -> None:
        ctx.call(embedding_bag_call(table, indices, weights, out, ctx.status, check, ins.origin))

    ctx.row_major(ins, write)


@GPU.of("gathernd")
def gather_nd(ctx: LoweringContext, ins: Instruction) -> None:
    data, indices = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    batch, depth = ins.op.attributes()["batch_dims"], indices.lens[-1]
    lens = data.lens[batch : batch + depth]
    message = f"{described(ins)}: an index is out of range for lens {{{', '.join(map(str, lens))}}}"
    check = ctx.check(message)
    ctx.row_major(ins, lambda out: ctx.call(gather_nd_call(data, indices, out, ctx.status, batch, check, ins.origin)))


@GPU.of("argmax", "argmin")
def arg_extreme(ctx: LoweringContext, ins: Instruction) -> None:
    view, attributes = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    axis, largest, last = attributes["axis"] % len(view.lens), ins.name == "argmax", attributes["select_last_index"]
    ctx.row_major(ins, lambda out: ctx.call(arg_extreme_call(view, out, axis, largest, last, ins.name, ins.origin)))


@GPU.of("prefix_scan_sum")
def prefix_sum(ctx: LoweringContext, ins: Instruction) -> None:
    view, attributes = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    axis, how = attributes["axis"] % len(view.lens), (attributes["exclusive"], attributes["reverse"])
    ctx.row_major(ins, lambda out: ctx.call(prefix_sum_call(view, out, axis, *how, ins.origin)))


@GPU.of("topk")
def topk(ctx: LoweringContext, ins: Instruction) -> None:
    """Leaves its two results as the parts of a tuple."""
    view, attributes = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    values, places = (ctx.temporary(s) for s in ins.shape.sub_shapes)
    axis = attributes["axis"] % len(view.lens)
    if values.elements:
        k, largest = attributes["k"], attributes["largest"]
        for call in topk_calls(view, values, places, axis, k, largest, ctx.temporary, ins.origin):
            ctx.call(call)
    ctx.tuples[ins] = (values, places)


@GPU.of("onehot")
def one_hot(ctx: LoweringContext, ins: Instruction) -> None:
    indices, values = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    axis = ins.op.attributes()["axis"] % len(ins.shape.lens)
    ctx.row_major(ins, lambda out: ctx.call(one_hot_call(indices, values, out, axis, ins.origin)))


@GPU.of("nonzero")
def nonzero(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)

    def write(out: View) -> None:
        fill(ctx, out, 0, ins.origin)
        for call in nonzero_calls(view, out, ctx.temporary, ins.origin) if math.prod(out.lens) else ():
            ctx.call(call)

    ctx.row_major(ins, write)
