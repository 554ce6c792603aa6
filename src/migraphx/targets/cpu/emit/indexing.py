"""Calls of templates on row-major views."""

from __future__ import annotations

import math
from collections.abc import Sequence

from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.body import pointers
from migraphx.targets.cpu.emit.kernel import CppCall, Instances, Kernel
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import Gather


def simple_call(
    head: str, reads: Sequence[View], writes: Sequence[View], numbers: Numbers, label: str, origin: str,
    header: str = "indexing.hpp", scratch: str = "", gathers: bool = False, instances: tuple[Instances, ...] = (),
) -> CppCall:  # fmt: skip
    """A call of one template on row-major views: `head` is its C++ text; the last two as in Call and in Kernel."""
    body = "\n    ".join([*pointers((*reads, *writes), len(writes)), head])
    text = (
        f"// {label}\nvoid $name(const Team& t, char* const* p, const int64_t* a, char* scratch) {{\n    {body}\n}}\n"
    )
    if scratch:
        text += f"int64_t ${{name}}_scratch(const int64_t* a) {{ return {scratch}; }}\n"
    kernel = Kernel(text, (header,), scratch=bool(scratch), instances=instances)
    return CppCall(kernel, tuple(reads), tuple(writes), numbers.values, label, origin, gathers)


def around(lens: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before the axis, along it, and behind it."""
    return math.prod(lens[:axis]), lens[axis], math.prod(lens[axis + 1 :])


def gather_call(data: View, index: View, write: View, status: View, axis: int, check: int, origin: str = "") -> CppCall:
    """One row of row-major data along an axis."""
    outer, length, inner = around(data.lens, axis)
    numbers = Numbers()
    head = f"gather(t, {Gather(outer, length, inner, 1, check).cpp(numbers)}, p0, p1, p2, p3);"
    return simple_call(head, (data, index), (write, status), numbers, "gather", origin, gathers=True)
