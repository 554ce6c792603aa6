"""Operators that pick and place by index, and those that order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from migraphx.ir.module import Instruction
from migraphx.targets.common.call import Call, Kernel
from migraphx.targets.common.lowering import Lowered, lowers
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.body import pointers


def simple_call(
    head: str, reads: Sequence[View], writes: Sequence[View], numbers: Sequence[int], label: str, origin: str,
    header: str = "indexing.hpp", scratch: str = "",
) -> Call:  # fmt: skip
    """A call of one template on row-major views: `head` is its C++ text."""
    body = "\n    ".join([*pointers((*reads, *writes), len(writes)), head])
    text = (
        f"// {label}\nvoid $name(const Team& t, char* const* p, const int64_t* a, char* scratch) {{\n    {body}\n}}\n"
    )
    if scratch:
        text += f"int64_t ${{name}}_scratch(const int64_t* a) {{ return {scratch}; }}\n"
    kernel = Kernel(text, (header,), scratch=bool(scratch))
    return Call(kernel, tuple(reads), tuple(writes), tuple(map(int, numbers)), label, origin)


def around(lens: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before the axis, along it, and behind it."""
    return math.prod(lens[:axis]), lens[axis], math.prod(lens[axis + 1 :])


def described(ins: Instruction) -> str:
    return ins.name + (f" ({ins.origin})" if ins.origin else "")


@lowers("gather", "gather_elements")
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
        numbers = (outer, length, inner, count, x.check(message))
        head = f"{ins.name}(t, Gather{{a[0], a[1], a[2], a[3], a[4]}}, p0, p1, p2, p3);"
        x.call(simple_call(head, (data, indices), (out, x.status), numbers, ins.name, ins.origin))

    x.row_major(ins, write)


@lowers("argmax", "argmin")
def arg_extreme(x: Lowered, ins: Instruction) -> None:
    view = x.standard(x.view(ins.inputs[0]), ins.origin)
    flags = ["false", "true"]
    largest, last = ins.name == "argmax", ins.op.attributes()["select_last_index"]
    head = f"arg_extreme<{flags[largest]}, {flags[last]}>(t, a[0], a[1], a[2], p0, p1);"
    numbers = around(view.lens, ins.op.attributes()["axis"] % len(view.lens))
    x.row_major(ins, lambda out: x.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@lowers("prefix_scan_sum")
def prefix_sum(x: Lowered, ins: Instruction) -> None:
    view, attributes = x.standard(x.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    head = "prefix_sum(t, Scan{a[0], a[1], a[2], a[3] != 0, a[4] != 0}, p0, p1);"
    numbers = (*around(view.lens, attributes["axis"] % len(view.lens)), attributes["exclusive"], attributes["reverse"])
    x.row_major(ins, lambda out: x.call(simple_call(head, (view,), (out,), numbers, ins.name, ins.origin)))


@lowers("topk")
def topk(x: Lowered, ins: Instruction) -> None:
    """Leaves its two results as the parts of a tuple."""
    view, attributes = x.standard(x.view(ins.inputs[0]), ins.origin), ins.op.attributes()
    values, indices = (x.temporary(s) for s in ins.shape.sub_shapes)
    numbers = (*around(view.lens, attributes["axis"] % len(view.lens)), attributes["k"], attributes["largest"])
    head = "topk(t, TopK{a[0], a[1], a[2], a[3], a[4] != 0}, p0, p1, p2, scratch);"
    x.call(simple_call(head, (view,), (values, indices), numbers, "topk", ins.origin, scratch="(a[3] + 1) * 8"))
    x.tuples[ins] = (values, indices)


@lowers("get_tuple_elem")
def get_tuple_elem(x: Lowered, ins: Instruction) -> None:
    x.views[ins] = x.tuples[ins.inputs[0]][ins.op.attributes()["index"]]
