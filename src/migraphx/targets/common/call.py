"""What a lowered program is made of: kernels, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from migraphx.ops.cost import PICKS
from migraphx.targets.common.views import View

IF, JUMP, LOOP, AGAIN, NUMBER = range(5)  # kinds of control flow, as in program.hpp


@dataclass(frozen=True)
class Instances:
    """Instances of a header's function templates, by their declarations: one object, which all programs share."""

    header: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """The C++ of one kernel, `$name` standing for its name; equal texts are one kernel.

    Defines `void $name(const Team& t, char* const* p, const int64_t* a, char* scratch)`, where p points to the
    first element of every view and a holds the call's numbers; and, where `scratch` is set,
    `int64_t ${name}_scratch(const int64_t* a)`: bytes per thread.
    """

    text: str
    headers: tuple[str, ...] = ()
    scratch: bool = False
    instances: Instances | None = None


@dataclass(frozen=True)
class Call:
    """One kernel run on views: `reads` and `writes` in the order of p.

    Without a kernel, a step of control flow: its numbers begin with its kind, the loop's slot, and the step it goes to.
    """

    kernel: Kernel | None
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    numbers: tuple[int, ...] = ()
    label: str = ""
    origin: str = ""

    @property
    def views(self) -> tuple[View, ...]:
        return (*self.reads, *self.writes)

    @property
    def flow(self) -> int | None:
        """The kind of control flow; None for a kernel."""
        return self.numbers[0] if self.kernel is None else None

    @property
    def target(self) -> int:
        """The step that control flow goes to."""
        return self.numbers[2]

    @property
    def bytes(self) -> int:
        """What the call reads and writes: every operand once, a broadcast one as far as it reaches."""
        seen = {(v.buffer, v.offset, v.lens, v.strides): v for v in self.views if v.buffer.kind != "status"}
        sizes = [_reach(v) for v in seen.values()]
        if self.label in PICKS:
            sizes[0] = min(sizes[0], _reach(self.writes[0]))
        return sum(sizes)


def _reach(view: View) -> int:
    return view.itemsize * prod(n for n, s in zip(view.lens, view.strides, strict=True) if s)


def function(name_lines: Sequence[str]) -> str:
    """A kernel's definition round its statements."""
    body = "\n    ".join(line for text in name_lines for line in text.split("\n"))
    return f"void $name(const Team& t, char* const* p, const int64_t* a, char* scratch) {{\n    {body}\n}}\n"
