"""A compiled program on a device: its weights, and states that run it, each with an arena and graphs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.executable import Executable, Step
from migraphx.targets.common.call import AGAIN, IF, JUMP, LOOP
from migraphx.targets.gpu.accelerator import Accelerator, Event, Graph, Work
from migraphx.targets.gpu.plan import Buffers, Control, Launched, Operand, Plan

ALIGNMENT = 256  # bytes: vectors of 16, TMA, and what libraries like best
MOST_STATES = 8  # runs at once whose memory is apart; more wait for one another on the device
SPIN_SECONDS, NAP_SECONDS = 2e-3, 5e-5
NUMBERS = 8  # of the status word, of 8 bytes each


class Block:
    """Memory of a device, freed with its last user."""

    def __init__(self, device: Accelerator, nbytes: int) -> None:
        self.nbytes = nbytes
        self.address, self._owner = device.allocate(max(nbytes, 1))


class State:
    """What one run at a time needs: an arena, the status word, the works with their addresses, a graph a segment."""

    def __init__(self, executable: GpuExecutable, bases: dict[Buffers, int]) -> None:
        self.device, self.plan = executable.device, executable.plan
        self.arena = Block(self.device, self.plan.arena + executable.scratch_bytes)
        self.status, self._status_owner = self.device.pinned(NUMBERS * 8)
        self.bases = {("arena", 0): self.arena.address, ("status", 0): self.status, **executable.weight_bases, **bases}
        self.trips = [0] * self.plan.slots
        self.stream: int | None = None
        self.event: Event = self.device.event()
        self.segments = {s.start: s for s in self.plan.segments()}
        self.works: dict[int, Work] = {}
        scratch = self.arena.address + self.plan.arena
        for n, task in enumerate(self.plan.tasks):
            if isinstance(task, Launched):
                function = executable.functions[task.kernel]
                own = scratch + executable.scratch[n] if n in executable.scratch else 0
                self.works[n] = self.device.work(function, task.grid, self.values(task), own)
        self.graphs: dict[int, Graph] = {}

    def values(self, task: Launched) -> list[int]:
        places = [p.at(self.bases[p.block], self.trips) for p in task.places]
        return [*places, *task.numbers]

    def address(self, operand: Operand) -> int:
        return operand.place.at(self.bases[operand.place.block], self.trips)

    def rebase(self, bases: dict[Buffers, int], users: dict[Buffers, list[int]]) -> None:
        """Let blocks of the caller's lie elsewhere: the works that touch them, and their nodes, change."""
        changed = {block for block, base in bases.items() if self.bases[block] != base}
        self.bases |= bases
        self._bind({n for block in changed for n in users.get(block, ())})

    def move(self, segment: range) -> None:
        """Take over the trips' numbers."""
        self._bind(n for n in segment if (t := self.plan.tasks[n]) and isinstance(t, Launched) and t.moving)

    def _bind(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            task = self.plan.tasks[n]
            assert isinstance(task, Launched)
            self.works[n].bind(self.values(task))
            for start, graph in self.graphs.items():
                if n in self.segments[start]:
                    graph.update(n - start)

    def graph(self, start: int) -> Graph:
        if start not in self.graphs:
            self.graphs[start] = self.device.graph([self.works[n] for n in self.segments[start]])
        return self.graphs[start]

    def close(self) -> None:
        for graph in self.graphs.values():
            graph.close()


class GpuExecutable:
    """Runs a plan. Any number of threads may call `run`, on any streams: each run has a state of its own."""

    target = "gpu"
    threads = 1

    def __init__(
        self,
        device: Accelerator,
        plan: Plan,
        parameters: dict[str, Shape],
        outputs: list[Shape],
        weights: Sequence[np.ndarray],
        checks: Sequence[str] = (),
        steps: Sequence[Step] = (),
    ) -> None:
        self.device, self.plan = device, plan
        self.parameters, self.outputs = parameters, outputs
        self.steps, self.checks = list(steps), list(checks)
        self.functions = device.load(plan.kernels)
        self.weights = list(weights)
        self._weights = [_uploaded(device, w) for w in weights]
        self.scratch, self.scratch_bytes = self._scratch()
        self._users = _users(plan)
        self._idle: list[State] = []
        self._captured: list[State] = []  # belong to graphs of the caller's
        self._lock = Lock()
        self._count = 0

    @property
    def weight_bases(self) -> dict[Buffers, int]:
        return {("weight", k): block.address for k, block in enumerate(self._weights)}

    def _scratch(self) -> tuple[dict[int, int], int]:
        """Where in the arena's end each step's programs have memory of their own, and how much that is in all."""
        starts, total = {}, 0
        for n, task in enumerate(self.plan.tasks):
            if isinstance(task, Launched) and (each := self.functions[task.kernel].scratch):
                starts[n] = total
                total += -(-each * int(np.prod(task.grid)) // ALIGNMENT) * ALIGNMENT
        return starts, total

    # ---- running ----

    def run(
        self, inputs: Sequence[Argument], outputs: Sequence[Argument] | None, deadline: Deadline | None = None
    ) -> Sequence[Argument]:
        """Arguments lie in main memory: they are copied in, and the results out."""
        results = outputs if outputs is not None else [Argument.empty(s) for s in self.outputs]
        device, stream = self.device, self.device.stream()
        given = [Block(device, s.bytes) for s in self.parameters.values()]
        made = [Block(device, s.bytes) for s in self.outputs]
        for argument, block in zip(inputs, given, strict=True):
            device.write(block.address, argument.pointer, argument.shape.bytes, stream)
        self.launch([b.address for b in given], [b.address for b in made], stream, deadline)
        self._await(stream, deadline)
        for argument, block in zip(results, made, strict=True):
            device.read(block.address, argument.pointer, argument.shape.bytes, stream)
        return results

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int], deadline: Deadline | None = None) -> None:
        stream = self.device.stream()
        self.launch(inputs, outputs, stream, deadline)
        self._await(stream, deadline)

    def launch(
        self, inputs: Sequence[int], outputs: Sequence[int], stream: int, deadline: Deadline | None = None
    ) -> None:
        """Append a run to a stream; addresses are the device's. Returns before it is over, unless control flow asks
        for values: then the host waits for those."""
        bases = {("input", k): a for k, a in enumerate(inputs)} | {("output", k): a for k, a in enumerate(outputs)}
        if self.device.capturing(stream):
            return self._record(bases, stream)
        with self._state(bases, stream) as state:
            self._follow(state, stream, deadline)

    def _record(self, bases: dict[Buffers, int], stream: int) -> None:
        """Launch the kernels into a graph of the caller's; the state stays that graph's."""
        if any(isinstance(t, Control) for t in self.plan.tasks):
            raise RuntimeError("the program has control flow that the host follows: a CUDA graph cannot record it")
        state = State(self, bases)
        self._captured.append(state)
        for work in state.works.values():
            work.launch(stream)

    @contextmanager
    def _state(self, bases: dict[Buffers, int], stream: int) -> Iterator[State]:
        """A state that nobody else uses, with these blocks of the caller's. One that a run left half-way is dropped."""
        state = self._take(stream)
        if state is None:
            state = State(self, bases)
        else:
            self._raise_found([state])
            state.rebase(bases, self._users)
        try:
            yield state
        except BaseException:
            with self._lock:
                self._count -= 1
            raise
        state.stream = stream
        state.event.record(stream)
        with self._lock:
            self._idle.append(state)

    def _take(self, stream: int) -> State | None:
        """An idle state, best the stream's own; None where there is none and another may be made."""
        with self._lock:
            own = next((s for s in self._idle if s.stream == stream), None)
            state = own or next((s for s in self._idle if s.event.done()), None)
            if state is None and self._idle and self._count >= MOST_STATES:
                state = self._idle[0]
            if state is None:
                self._count += 1
                return None
            self._idle.remove(state)
        if state.stream != stream:
            state.event.wait(stream)
        return state

    def _follow(self, state: State, stream: int, deadline: Deadline | None) -> None:
        at, tasks = 0, self.plan.tasks
        while at < len(tasks):
            task = tasks[at]
            if isinstance(task, Launched):
                segment = state.segments[at]
                state.move(segment)
                state.graph(at).launch(stream)
                at = segment.stop
            else:
                if deadline is not None:
                    deadline.check()
                at = self._next(state, task, at, stream)

    def _next(self, state: State, task: Control, at: int, stream: int) -> int:
        """The number of the step after one of control flow."""
        if task.kind == JUMP:
            return task.target
        if task.kind in (LOOP, AGAIN):
            state.trips[task.slot] = 0 if task.kind == LOOP else state.trips[task.slot] + 1
            trip, (most, counted, tested) = state.trips[task.slot], task.numbers
            goes_on = trip < most
            if goes_on and counted:
                goes_on = trip < int(self._read(state, task.operands[0], stream).reshape(-1)[0])
            if goes_on and tested:
                goes_on = bool(self._read(state, task.operands[-1], stream).all())
            return (at + 1 if goes_on else task.target) if task.kind == LOOP else (task.target if goes_on else at + 1)
        if task.kind == IF:
            return at + 1 if self._read(state, task.operands[0], stream).all() else task.target
        number = np.array(state.trips[task.slot], dtypes.to_numpy(task.operands[0].type))
        place = state.address(task.operands[0])
        self.device.write(place, number.__array_interface__["data"][0], number.nbytes, stream)
        return at + 1

    def _read(self, state: State, operand: Operand, stream: int) -> np.ndarray:
        """Elements that control flow waits for."""
        shape = Shape(operand.type, operand.lens, operand.strides)
        value = Argument.empty(shape)
        self.device.read(state.address(operand), value.pointer, shape.bytes, stream)
        return value.array

    def _await(self, stream: int, deadline: Deadline | None = None) -> None:
        """Wait for a stream so that signals and the deadline are heard; raises what kernels found."""
        event = self.device.event()
        event.record(stream)
        start = time.perf_counter()
        while not event.done():
            if deadline is not None:
                deadline.check()
            if time.perf_counter() - start > SPIN_SECONDS:
                time.sleep(NAP_SECONDS)
        self.raise_found()

    def raise_found(self) -> None:
        """IndexError for what kernels of runs that are over found; each finding is raised once."""
        with self._lock:
            states = [*self._idle, *self._captured]
        self._raise_found(states)

    def _raise_found(self, states: Sequence[State]) -> None:
        for state in states if self.checks else ():
            status = Argument(Shape("int64", (NUMBERS,)), state.status).array
            failed, found = int(status[0]), int(status[1])
            if failed:
                status[0] = 0
                raise IndexError(f"{self.checks[failed - 1]}: found {found}")

    # ---- the rest of an executable ----

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        raise NotImplementedError

    def release(self) -> None:
        with self._lock:
            states, self._idle = self._idle, []
            self._count -= len(states)
        for state in states:
            state.close()

    def share_weights(self, others: Iterable[Executable]) -> None:
        raise NotImplementedError

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        raise NotImplementedError


def _users(plan: Plan) -> dict[Buffers, list[int]]:
    """The steps that touch each block of the caller's."""
    users: dict[Buffers, list[int]] = {}
    for n, task in enumerate(plan.tasks):
        for block in {p.block for p in task.places} if isinstance(task, Launched) else ():
            if block[0] in ("input", "output"):
                users.setdefault(block, []).append(n)
    return users


def _uploaded(device: Accelerator, weight: np.ndarray) -> Block:
    argument = Argument.of(weight)
    block = Block(device, argument.shape.bytes)
    device.write(block.address, argument.pointer, argument.shape.bytes, device.stream())
    return block
