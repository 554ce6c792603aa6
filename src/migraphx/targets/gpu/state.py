"""What one run at a time needs: memory, works with their addresses, a graph for each segment of the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.targets.common.plan_memory import aligned
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator, Block, Function, Graph, Work
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.library import LibraryWork
from migraphx.targets.gpu.plan import Buffers, Control, Delegated, Launched, Operand, Plan
from migraphx.targets.gpu.words import Words

VECTOR = 16  # bytes: the widest access
SEED = 7  # the one that random seeds are counted from; each state begins anywhere


class Program:
    """A plan on a device: its functions, and where its weights lie."""

    def __init__(
        self, device: Accelerator, plan: Plan, weights: Sequence[Block], parameters: Sequence[Shape],
        outputs: Sequence[Shape], codes: Sequence[Binary] = (), words: Words | None = None,
    ) -> None:  # fmt: skip
        """`words`: for what kernels find, shared with other programs."""
        self.device, self.plan, self.weights, self.words = device, plan, weights, words or Words(device)
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
                self.arena_bytes += aligned(each * prod(task.grid), ALIGNMENT)


class State:
    """Works and graphs of one run at a time, in an arena.

    The blocks of the caller's lie where `bases` says.
    """

    def __init__(self, program: Program, arena: Block, bases: Mapping[Buffers, int]) -> None:
        self.program, self.device = program, program.device
        self.weights = list(program.weights)  # they live as long as a graph of the caller's that reads them
        self.own: dict[Buffers, Block] = {}
        self.arena = arena
        self.word = program.words.take()
        self.word.numbers[SEED] = np.random.default_rng().integers(0, 2**62)
        self.bases: dict[Buffers, int] = {("arena", 0): arena.address, ("status", 0): self.word.address, **bases}
        self.bases |= {("weight", k): block.address for k, block in enumerate(self.weights)}
        self.given: tuple[int, ...] = ()  # where the caller's blocks lay in the last run
        self.moved: dict[Buffers, int] = {}  # those of them that a run copies to or from memory of the state's own
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

    def meet(self, blocks: Sequence[Buffers], given: tuple[int, ...]) -> None:
        """The caller's blocks lie at these addresses now; most calls change few of them.

        Kernels read whole vectors wherever the plan allows that, so what lies at odd addresses, such as a slice of a
        tensor, is copied to and from memory of the state's own. So is what a library touches, as soon as it moves.
        """
        if given == self.given:
            return
        self.whole = False
        before = self.given or (None,) * len(given)
        changed = {b: new for b, new, old in zip(blocks, given, before, strict=True) if new != old}
        for block, base in changed.items():
            if base % VECTOR or (self.given and block in self.program.fixed):
                self.moved[block] = base
            else:
                self.moved.pop(block, None)
        self.rebase({b: self.place(b) if b in self.moved else base for b, base in changed.items()})
        self.given = given

    def rebase(self, bases: Mapping[Buffers, int]) -> None:
        """Let blocks of the caller's lie elsewhere: the works that touch them change, and their nodes."""
        self.whole = False
        changed = [block for block, base in bases.items() if self.bases[block] != base]
        self.bases |= bases
        self._bind({n for block in changed for n in self.program.users.get(block, ())})

    def move(self, segment: range) -> None:
        """Take over the numbers of the loops' trips."""
        self._bind([n for n in segment if n in self.program.moving])

    def _bind(self, numbers: Collection[int]) -> None:
        for n in numbers:
            if isinstance(self.program.plan.tasks[n], Delegated):  # its nodes cannot be told: they are captured again
                self.graphs.pop(self.program.segment_of[n], None)
        for n in numbers:
            task, start = self.program.plan.tasks[n], self.program.segment_of[n]
            assert not isinstance(task, Control)
            self.works[n].bind(self.values(task))
            if start in self.graphs:
                self.graphs[start].update(n - start)

    def launch(self, start: int, stream: int) -> None:
        """Append the segment that begins with this step to a stream, with the numbers of the loops' trips."""
        if self.program.moving:
            self.move(self.program.segments[start])
        graph = self.graphs.get(start)
        if graph is not None:
            graph.launch(stream)
            return
        task = self.program.plan.tasks[start]
        if isinstance(task, Delegated) and task.moving:
            self.works[start].launch(stream)
            return
        self.graphs[start] = self.device.graph([self.works[n] for n in self.program.segments[start]])
        self.graphs[start].launch(stream)

    def place(self, block: Buffers) -> int:
        """Memory of the state's own for a block of the caller's."""
        if block not in self.own:
            self.own[block] = Block(self.device, self.program.sizes[block])
        return self.own[block].address
