"""What one run at a time needs: memory, works with their addresses, a graph for each segment of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator, Block, Function, Graph, Work
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.library import LibraryWork
from migraphx.targets.gpu.plan import Buffers, Control, Delegated, Launched, Operand, Plan

NUMBERS = 8  # of the status word, of 8 bytes each


class Program:
    """A plan on a device: its functions, and where its weights lie."""

    def __init__(
        self, device: Accelerator, plan: Plan, weights: Sequence[Block], parameters: Sequence[Shape],
        outputs: Sequence[Shape], codes: Sequence[Binary] = (),
    ) -> None:  # fmt: skip
        self.device, self.plan, self.weights = device, plan, weights
        self.functions: Sequence[Function] = device.load(plan.kernels, codes)
        sizes = [("input", parameters), ("output", outputs)]
        self.sizes: dict[Buffers, int] = {(kind, k): s.bytes for kind, shapes in sizes for k, s in enumerate(shapes)}
        self.segments = {s.start: s for s in plan.segments()}
        self.segment_of = {n: start for start, s in self.segments.items() for n in s}
        self.users, self.fixed, self.moving = plan.users(), plan.fixed(), plan.moving()
        self.appends = {n: t.library.prepare(device) for n, t in enumerate(plan.tasks) if isinstance(t, Delegated)}
        self.scratch: dict[int, int] = {}  # by step: where in the arena its programs have memory of their own
        self.arena_bytes = plan.arena
        for n, task in enumerate(plan.tasks):
            if isinstance(task, Launched) and (each := self.functions[task.kernel].scratch):
                self.scratch[n] = self.arena_bytes
                self.arena_bytes += -(-each * prod(task.grid) // ALIGNMENT) * ALIGNMENT


class State:
    """Works and graphs of one run at a time, in an arena.

    The blocks of the caller's lie where `bases` says; without it, and where libraries touch them, they are the
    state's own.
    """

    def __init__(self, program: Program, arena: Block, bases: Mapping[Buffers, int] | None) -> None:
        self.program, self.device = program, program.device
        self.own: dict[Buffers, Block] = {}
        bases = {**(bases or {}), **{b: self.place(b) for b in (program.sizes if bases is None else program.fixed)}}
        self.arena = arena
        self.status, self._status_owner = self.device.pinned(NUMBERS * 8)
        self.bases: dict[Buffers, int] = {("arena", 0): arena.address, ("status", 0): self.status, **bases}
        self.bases |= {("weight", k): block.address for k, block in enumerate(program.weights)}
        self.trips = [0] * program.plan.slots
        self.whole = True  # no run was left half-way
        self.works: dict[int, Work] = {}
        for n, task in enumerate(program.plan.tasks):
            if isinstance(task, Delegated):
                self.works[n] = LibraryWork(program.appends[n], self.values(task))
            elif isinstance(task, Launched):
                scratch = arena.address + program.scratch[n] if n in program.scratch else 0
                self.works[n] = self.device.work(program.functions[task.kernel], task.grid, self.values(task), scratch)
        self.graphs: dict[int, Graph] = {}

    def values(self, task: Launched | Delegated) -> list[int]:
        numbers = task.numbers if isinstance(task, Launched) else ()
        return [*(p.at(self.bases[p.block], self.trips) for p in task.places), *numbers]

    def address(self, operand: Operand) -> int:
        return operand.place.at(self.bases[operand.place.block], self.trips)

    def rebase(self, bases: Mapping[Buffers, int]) -> None:
        """Let blocks of the caller's lie elsewhere: the works that touch them change, and their nodes."""
        self.whole = False
        changed = [block for block, base in bases.items() if self.bases[block] != base]
        self.bases |= bases
        assert not self.program.fixed.intersection(changed), "a library's node cannot move"
        self._bind({n for block in changed for n in self.program.users.get(block, ())})

    def move(self, segment: range) -> None:
        """Take over the numbers of the loops' trips."""
        if self.program.moving:
            self._bind(n for n in segment if n in self.program.moving)

    def _bind(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            task, start = self.program.plan.tasks[n], self.program.segment_of[n]
            assert not isinstance(task, Control)
            self.works[n].bind(self.values(task))
            if start in self.graphs:
                self.graphs[start].update(n - start)

    def launch(self, start: int, stream: int) -> None:
        """Append the segment that begins with this step to a stream."""
        task = self.program.plan.tasks[start]
        if isinstance(task, Delegated) and task.moving:
            self.works[start].launch(stream)
            return
        if start not in self.graphs:
            self.graphs[start] = self.device.graph([self.works[n] for n in self.program.segments[start]])
        self.graphs[start].launch(stream)

    def found(self) -> Sequence[int]:
        """The status word as runs of this state left it: what failed, and the value found. It is told once."""
        status = Argument(Shape("int64", (NUMBERS,)), self.status).array
        told = status.tolist()
        status[0] = 0
        return told

    def place(self, block: Buffers) -> int:
        """Memory of the state's own for a block of the caller's."""
        if block not in self.own:
            self.own[block] = Block(self.device, self.program.sizes[block])
        return self.own[block].address
