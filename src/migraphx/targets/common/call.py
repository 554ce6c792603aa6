"""What a lowered program is made of: calls of kernels on views."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from math import prod
from typing import Generic, TypeVar

from migraphx.ir.size import least_of
from migraphx.targets.common.views import View


class Flow(IntEnum):
    """Kinds of control flow; targets have numbers of their own for them."""

    IF = auto()
    JUMP = auto()
    LOOP = auto()
    AGAIN = auto()
    NUMBER = auto()


IF, JUMP, LOOP, AGAIN, NUMBER = Flow


K = TypeVar("K")
"""What a target's kernels are."""


@dataclass(frozen=True)
class Call(Generic[K]):
    """One kernel run on views: `reads` and `writes` in the order of p.

    Without a kernel, a step of control flow: its numbers begin with its kind, the loop's slot, and the step it goes to.
    """

    kernel: K | None
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    numbers: tuple[int, ...] = ()
    label: str = ""
    origin: str = ""
    gathers: bool = False  # reads no more of its first operand than it writes
    also: int = 0  # operations of an instruction before, which the call computes too

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
        """The bytes that the call reads and writes: each operand once, a broadcast one as it is in memory."""
        seen = {(v.buffer, v.offset, v.lens, v.strides): v for v in self.views if v.buffer.kind != "status"}
        sizes = [_reach(v) for v in seen.values()]
        if self.gathers:
            sizes[0] = least_of(sizes[0], _reach(self.writes[0]))
        return sum(sizes)


def _reach(view: View) -> int:
    return view.itemsize * prod(n for n, s in zip(view.lens, view.strides, strict=True) if s)
