"""Operators that pick and place by index, and those that order."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.targets.common.lowering import Lowered, described
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.indexing import around, simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import ArgExtreme, Gather, Scan, TopK
from migraphx.targets.cpu.lower.registry import CPU


@CPU.of("gather", "gather_elements")
def gather(x: Lowered, ins: Instruction) -> None:
    data, indices = (x.standard(v, ins.origin) for v in x.reads(ins))
    axis = ins.op.attributes()["axis"] % len(data.lens)
    outer, length, inner = around(data.lens, axis)
    count = indices.elements
    if ins.name == "gather_elements":
        if any(i != n for d, (i, n) in enumerate(zip(indices.lens, data.lens, strict=True)) if d != axis):
            for d, n in enumerate(indices.lens):
                data = data if d == axis else data.sliced(d, 0, n)
            data = x.standard(data, ins.origin)
        outer, count, inner = around(indices.lens, axis)
    message = f"{described(ins)}: an index is out of range for a length of {length}"

    def write(out: View) -> None:
        numbers = Numbers()
        fill = Gather(outer, length, inner, count, x.check(message)).cpp(numbers)
        head, writes = f"{ins.name}(t, {fill}, p0, p1, p2, p3);", (out, x.status)
        x.call(simple_call(head, (data, indices), writes, numbers, ins.name, ins.origin, gathers=True))

    x.row_major(ins, write)


@CPU.of("argmax", "argmin")
def arg_extreme(x: Lowered, ins: Instruction) -> None:
    view = x.standard(x.view(ins.inputs[0]), ins.origin)
    flags = ["false", "true"]
    largest, last = ins.name == "argmax", ins.op.attributes()["select_last_index"]
    numbers = Numbers()
    fill = ArgExtreme(*around(view.lens, ins.op.attributes()["axis"] % len(view.lens))).cpp(numbers)
    head = f"arg_extreme<{flags[largest]}, {flags[last]}>(t, {fill}, p0, p1);"
    x.row_major(ins, lambda out: x.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@CPU.of("prefix_scan_sum")
def prefix_sum(x: Lowered, ins: Instruction) -> None:
    view, attributes = x.standard(x.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    numbers, sizes = Numbers(), around(view.lens, attributes["axis"] % len(view.lens))
    head = f"prefix_sum(t, {Scan(*sizes, attributes['exclusive'], attributes['reverse']).cpp(numbers)}, p0, p1);"
    x.row_major(ins, lambda out: x.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@CPU.of("topk")
def topk(x: Lowered, ins: Instruction) -> None:
    """Leaves its two results as the parts of a tuple."""
    view, attributes = x.standard(x.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    values, indices = (x.temporary(s) for s in ins.shape.sub_shapes)
    numbers, sizes = Numbers(), around(view.lens, attributes["axis"] % len(view.lens))
    fill = TopK(*sizes, attributes["k"], attributes["largest"]).cpp(numbers)
    head, scratch = f"topk(t, {fill}, p0, p1, p2, scratch);", f"({fill['k']} + 1) * 8"
    x.call(simple_call(head, (view,), (values, indices), numbers, "topk", ins.origin, scratch=scratch))
    x.tuples[ins] = (values, indices)
