"""What a run does, step by step: kernels on places in memory, and control flow, which the host follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migraphx.targets.common.call import Flow
from migraphx.targets.common.views import Move, View
from migraphx.targets.gpu.kernel import GpuCall, Grid, Kernel, Launch
from migraphx.targets.gpu.library import Library, LibraryCall

CALLERS = ("input", "output")
Buffers = tuple[str, int]
"""A block of memory: who provides it, and its number among those of its kind (views.py: Buffer)."""


@dataclass(frozen=True)
class Place:
    """Bytes from `offset` on in a block; inside a loop they may move with its trips."""

    kind: str
    index: int
    offset: int
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(cls, view: View) -> Place:
        kind, index, offset = view.buffer.kind, view.buffer.index, view.byte_offset
        if kind in ("arena", "status"):  # one block each
            index, offset = 0, offset + view.buffer.position
        return cls(kind, index, offset, view.moves)

    @property
    def block(self) -> Buffers:
        return self.kind, self.index

    def at(self, base: int, trips: Sequence[int]) -> int:
        """The address, where the block starts at `base`."""
        return base + self.offset + sum(((trips[m.slot] + m.phase) & m.mask) * m.step for m in self.moves)


@dataclass(frozen=True)
class Operand:
    """Elements that control flow reads or writes."""

    place: Place
    type: str
    lens: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Launched:
    """A kernel by its number, on these addresses, with these numbers."""

    kernel: int
    grid: Grid
    places: tuple[Place, ...]
    numbers: tuple[int, ...]

    @property
    def moving(self) -> bool:
        return any(p.moves for p in self.places)


@dataclass(frozen=True)
class Control:
    """A step of control flow: `numbers` follow the loop's slot and the step that it goes to (call.py)."""

    kind: Flow
    slot: int
    target: int
    numbers: tuple[int, ...]
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Delegated:
    """A library's work on these addresses."""

    library: Library
    places: tuple[Place, ...]

    @property
    def moving(self) -> bool:
        return any(p.moves for p in self.places)


Work = Launched | Delegated
Task = Work | Control


@dataclass(frozen=True)
class Plan:
    """All that a run does; `slots` is how many loops it has, `arena` the bytes of its temporaries."""

    kernels: tuple[Kernel, ...]
    tasks: tuple[Task, ...]
    arena: int
    slots: int

    @classmethod
    def of(cls, calls: Sequence[GpuCall | LibraryCall], arena: int, slots: int) -> Plan:
        """Equal kernels become one. Memory must have been planned."""
        numbers: dict[Kernel, int] = {}
        tasks: list[Task] = []
        for call in calls:
            places = tuple(map(Place.of, call.views))
            if isinstance(call.kernel, Launch):
                number = numbers.setdefault(call.kernel.kernel, len(numbers))
                tasks.append(Launched(number, call.kernel.grid, places, call.numbers))
            elif call.kernel is not None:
                tasks.append(Delegated(call.kernel, places))
            else:
                kind, slot, target, *rest = call.numbers
                operands = tuple(Operand(p, v.type, v.lens, v.strides) for p, v in zip(places, call.views, strict=True))
                tasks.append(Control(Flow(kind), slot, target, tuple(rest), operands))
        return cls(tuple(numbers), tuple(tasks), arena, slots)

    def segments(self) -> list[range]:
        """The longest runs of kernels between control flow and the steps that it goes to.

        A library's work that moves with a loop is alone: no graph can be told where it goes.
        """
        ends = {len(self.tasks)}
        for n, task in enumerate(self.tasks):
            if isinstance(task, Control):
                ends |= {n, n + 1, *({task.target} if task.target >= 0 else ())}
            elif isinstance(task, Delegated) and task.moving:
                ends |= {n, n + 1}
        found, start = [], 0
        for end in sorted(ends):
            if start < end and not isinstance(self.tasks[start], Control):
                found.append(range(start, end))
            start = end
        return found

    def users(self) -> dict[Buffers, list[int]]:
        """The steps that touch each block of the caller's."""
        found: dict[Buffers, list[int]] = {}
        for n, task in enumerate(self.tasks):
            for block in dict.fromkeys(p.block for p in task.places) if not isinstance(task, Control) else ():
                if block[0] in CALLERS:
                    found.setdefault(block, []).append(n)
        return found

    def moving(self) -> set[int]:
        """The steps whose addresses change with the trips of a loop."""
        return {n for n, task in enumerate(self.tasks) if not isinstance(task, Control) and task.moving}

    def fixed(self) -> set[Buffers]:
        """The caller's blocks that libraries touch."""
        delegated = (t for t in self.tasks if isinstance(t, Delegated))
        return {p.block for t in delegated for p in t.places if p.kind in CALLERS}
