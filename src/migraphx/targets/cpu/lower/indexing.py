"""Operators that read and write by index, and those that sort."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.ir.operation import OpenLiteral
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.indexing import around, simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import ArgExtreme, EmbeddingBag, Gather, Scan, TopK
from migraphx.targets.cpu.lower.picked import is_picked, stand_in
from migraphx.targets.cpu.lower.registry import CPU


@CPU.of("gather", "gather_elements")
def gather(ctx: LoweringContext, ins: Instruction) -> None:
    if is_picked(ctx, ins):
        ctx.views[ins] = stand_in(ctx, ins)
        return
    data, indices = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    axis = ins.op.attributes()["axis"] % len(data.lens)
    outer, length, inner = around(data.lens, axis)
    count = indices.elements
    if ins.name == "gather_elements":
        if any(i != n for d, (i, n) in enumerate(zip(indices.lens, data.lens, strict=True)) if d != axis):
            for d, n in enumerate(indices.lens):
                data = data if d == axis else data.sliced(d, 0, n)
            data = ctx.standard(data, ins.origin)
        outer, count, inner = around(indices.lens, axis)
    message = f"{described(ins)}: an index is out of range for a length of {length}"

    def write(out: View) -> None:
        numbers = Numbers()
        fill = Gather(outer, length, inner, count, ctx.check(message)).cpp(numbers)
        head, writes = f"{ins.name}(t, {fill}, p0, p1, p2, p3);", (out, ctx.status)
        ctx.call(simple_call(head, (data, indices), writes, numbers, ins.name, ins.origin, gathers=True))

    ctx.row_major(ins, write)


@CPU.of("embedding_bag")
def embedding_bag(ctx: LoweringContext, ins: Instruction) -> None:
    data, indices, weights = ctx.reads(ins)
    data = ctx.standard(data, ins.origin)
    (batches, bags, taps), (_, length, width) = indices.lens, data.lens
    steps = (*indices.strides, *weights.strides)
    check = ctx.check(f"{described(ins)}: an index is out of range for a length of {length}")

    def write(out: View) -> None:
        numbers = Numbers()
        fill = EmbeddingBag(batches, bags, taps, width, length, check, *steps).cpp(numbers)
        head, reads = f"embedding_bag(t, {fill}, p0, p1, p2, p3, p4);", (data, indices, weights)
        ctx.call(simple_call(head, reads, (out, ctx.status), numbers, ins.name, ins.origin))

    ctx.row_major(ins, write)


@CPU.of("@literal")
def open_literal(ctx: LoweringContext, ins: Instruction) -> None:
    """What is made of sizes is stored from the table."""
    assert isinstance(ins.op, OpenLiteral)
    numbers, out = Numbers(), ctx.temporary(ins.shape)
    mine = f"const Range mine = t.share({numbers.one(ins.shape.elements)});"
    start = numbers.all(ins.op.sizes.reshape(-1))
    head = f"{mine}\n    for (int64_t k = mine.begin; k < mine.end; ++k) p0[k] = ({start})[k];"
    ctx.call(simple_call(head, (), (out,), numbers, "sizes", ins.origin))
    ctx.views[ins] = out


@CPU.of("argmax", "argmin")
def arg_extreme(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)
    flags = ["false", "true"]
    largest, last = ins.name == "argmax", ins.op.attributes()["select_last_index"]
    numbers = Numbers()
    fill = ArgExtreme(*around(view.lens, ins.op.attributes()["axis"] % len(view.lens))).cpp(numbers)
    head = f"arg_extreme<{flags[largest]}, {flags[last]}>(t, {fill}, p0, p1);"
    ctx.row_major(ins, lambda out: ctx.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@CPU.of("prefix_scan_sum")
def prefix_sum(ctx: LoweringContext, ins: Instruction) -> None:
    view, attributes = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    numbers, sizes = Numbers(), around(view.lens, attributes["axis"] % len(view.lens))
    head = f"prefix_sum(t, {Scan(*sizes, attributes['exclusive'], attributes['reverse']).cpp(numbers)}, p0, p1);"
    ctx.row_major(ins, lambda out: ctx.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@CPU.of("topk")
def topk(ctx: LoweringContext, ins: Instruction) -> None:
    """Leaves its two results as the parts of a tuple."""
    view, attributes = ctx.standard(ctx.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    values, indices = (ctx.temporary(s) for s in ins.shape.sub_shapes)
    numbers, sizes = Numbers(), around(view.lens, attributes["axis"] % len(view.lens))
    fill = TopK(*sizes, attributes["k"], attributes["largest"]).cpp(numbers)
    head, scratch = f"topk(t, {fill}, p0, p1, p2, scratch);", f"({fill['k']} + 1) * 8"
    ctx.call(simple_call(head, (view,), (values, indices), numbers, "topk", ins.origin, scratch=scratch))
    ctx.tuples[ins] = (values, indices)
