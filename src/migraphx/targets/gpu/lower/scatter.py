"""Operators that write at indices."""

from __future__ import annotations

import math

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ops.indexing import Scatter, ScatterNd
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.order import Sorter
from migraphx.targets.gpu.emit.scatter import element_targets, joining_calls, nd_targets, replacing_calls
from migraphx.targets.gpu.lower.registry import GPU

HOWS = ("none", "add", "mul", "min", "max")


@GPU.of(*(f"{kind}_{how}" for kind in ("scatter", "scatternd") for how in HOWS))
def scatter(ctx: LoweringContext, ins: Instruction) -> None:
    """Copies the data, then joins the updates: narrow floats in float, to be rounded once."""
    op = ins.op
    assert isinstance(op, (Scatter, ScatterNd))
    data = ctx.view(ins.inputs[0])
    narrow = op.how != "none" and data.type in dtypes.NARROW_FLOATS
    type = "float" if narrow else data.type

    def write(out: View) -> None:
        made = ctx.temporary(Shape(type, out.lens)) if narrow else out
        ctx.convert(data, made, ins.origin)
        _join(ctx, ins, op, made)
        if made is not out:
            ctx.convert(made, out, ins.origin)

    ctx.row_major(ins, write)


def _join(ctx: LoweringContext, ins: Instruction, op: Scatter | ScatterNd, out: View) -> None:
    indices, updates = (ctx.standard(ctx.view(i), ins.origin) for i in ins.inputs[1:])
    if not (updates.elements and out.elements):
        return
    if isinstance(op, Scatter):
        axis, tuples, inner = op.axis % len(out.lens), indices.elements, 1
        check = ctx.check(f"{described(ins)}: an index is out of range for a length of {out.lens[axis]}")
    else:
        axis, depth = 0, indices.lens[-1]
        tuples, inner, lens = math.prod(indices.lens[:-1]), math.prod(out.lens[depth:]), out.lens[:depth]
        check = ctx.check(f"{described(ins)}: an index is out of range for lens {{{', '.join(map(str, lens))}}}")
    sorter = Sorter(1, tuples, "int64", ctx.temporary, ins.origin)
    targets, places = sorter.keys, (sorter.keys, sorter.indices, ctx.status)
    if isinstance(op, Scatter):
        ctx.call(element_targets(indices, out.lens, axis, *places, check, ins.origin))
    else:
        ctx.call(nd_targets(indices, out.lens[: indices.lens[-1]], *places, check, ins.origin))
    if op.how == "none":
        winners, calls = replacing_calls(targets, updates, out, tuples, inner, ctx.temporary, ins.name, ins.origin)
        if winners is not None:
            fill(ctx, winners, -1, ins.origin)
    else:
        calls = joining_calls(sorter, updates, out, tuples, inner, op.how, ins.name, ins.origin)
    for call in calls:
        ctx.call(call)
