"""A compiled program on a device. Runs are appended to streams; each has a state of its own."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device
from migraphx.runtime.executable import Executable
from migraphx.targets.common.call import AGAIN, IF, JUMP, LOOP
from migraphx.targets.common.constants import content
from migraphx.targets.common.sections import Outline
from migraphx.targets.gpu import saved
from migraphx.targets.gpu.accelerator import Accelerator, Block, Event, Findings
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.library import Unusable
from migraphx.targets.gpu.plan import Buffers, Control, Operand, Plan
from migraphx.targets.gpu.slots import Slot, Slots
from migraphx.targets.gpu.state import Program, State
from migraphx.targets.gpu.weights import Weight, check_reach, uploaded
from migraphx.targets.gpu.words import Left, Word

SPIN_SECONDS, NAP_SECONDS = 2e-3, 5e-5

log = logging.getLogger(__name__)


class GpuExecutable:
    """Runs a plan. Any number of threads may call `run`, on any streams.

    With `offload_copy` arguments lie in main memory: a run copies them in and the results out, and is over when it
    returns. Else they lie on the device, and a run returns when it has been appended to its stream; only control flow
    that depends on values waits for those.
    """

    target = "gpu"
    threads = 1

    def __init__(
        self,
        accelerator: Accelerator,
        plan: Plan,
        outline: Outline,
        weights: Sequence[np.ndarray],
        offload_copy: bool,
        codes: Sequence[Binary] = (),
        slots: Slots | None = None,
        keep_weights: bool = True,
    ) -> None:
        """`codes`: those of the plan's kernels, where they are known; `slots`: shared with other programs.

        `keep_weights`: their arrays are others' too; else they leave main memory with their last other user.
        """
        self.accelerator, self.plan, self.outline = accelerator, plan, outline
        self.parameters, self.outputs = outline.parameters, outline.outputs
        self.steps, self.checks = outline.steps, outline.checks
        self.offload_copy = offload_copy
        self.device: Device = HOST if offload_copy else accelerator
        self._slots = slots or Slots(accelerator)
        with accelerator.current():
            self._weights = uploaded(accelerator, weights, keep_weights)
            check_reach(plan.kernels, self._weights)
            shapes = list(self.parameters.values()), self.outputs
            self._program = Program(accelerator, plan, self._weights, *shapes, codes, self._slots.words)
        self._blocks = list(self._program.sizes)
        self._slots.join(self)
        self._states: dict[Slot, State] = {}
        self._captured: list[State] = []  # belong to graphs of callers
        self._left = Left(outline.raise_failed)
        if self.checks:
            accelerator.findings.ask(self.raise_found)
            weakref.finalize(self, _tell_later, accelerator.findings, self._left, self._states).atexit = False

    # ---- running ----

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        results = outputs
        if results is None:
            results = self._new_outputs(stream)
        self.run_at([a.pointer for a in inputs], [a.pointer for a in results], stream, deadline)
        return results

    def _new_outputs(self, stream: int | None) -> list[Argument]:
        with self.accelerator.current():
            if not self.offload_copy and self.accelerator.capturing(stream or 0):
                raise RuntimeError("a CUDA graph is being recorded: give memory for the outputs, which the graph keeps")
            return [Argument.empty(s, self.device, stream or 0) for s in self.outputs]

    def in_place(self, inputs: Sequence[Argument]) -> Mapping[int, int]:
        return {}

    run_unless_changed = Executable.run_unless_changed
    run_repeatedly = Executable.run_repeatedly

    def run_at(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        with self.accelerator.current():
            if self.offload_copy:
                self._copy_and_run(inputs, outputs, stream, deadline)
                return
            stream = stream or 0  # the default one, as for those who allocated the memory
            given = (*inputs, *outputs)
            if stream and self.accelerator.capturing(stream):  # the default one cannot be recorded
                self._record(given, stream)
                return
            slot = self._slots.take(stream)
            state = self._states.get(slot) or self._begin(slot, given)
            try:
                if self.checks and state.word.marked:  # by an earlier run: who waits for the device may not ask us
                    self._raise_found([state.word])
                if state.moved or given != state.given:
                    self._bring(state, given, stream)
                self._follow(state, stream, deadline)
                if state.moved:
                    self._hand_over(state, stream)
                slot.left(stream)
                state.whole = True
            finally:
                self._leave(state, slot)

    def _bring(self, state: State, given: tuple[int, ...], stream: int) -> None:
        """Let the state work on the caller's blocks, which lie at the addresses `given`: inputs, then outputs."""
        state.meet(self._blocks, given)
        for block, base in state.moved.items():
            if block[0] == "input":
                self.accelerator.copy(state.place(block), base, self._program.sizes[block], stream)

    def _hand_over(self, state: State, stream: int) -> None:
        """Copy those outputs to the caller that the state has in memory of its own."""
        for block, base in state.moved.items():
            if block[0] == "output":
                self.accelerator.copy(base, state.place(block), self._program.sizes[block], stream)

    def _copy_and_run(
        self, inputs: Sequence[int], outputs: Sequence[int], stream: int | None, deadline: Deadline | None
    ) -> None:
        """Arguments are in main memory; the run is over when this returns."""
        device, stream = self.accelerator, stream or self.accelerator.stream()
        if device.capturing(stream):
            raise RuntimeError(
                "the program was compiled with offload_copy=True: a run waits for its copies, which a CUDA graph "
                "cannot record; compile with offload_copy=False"
            )
        slot = self._slots.take(stream)
        state = self._states.get(slot) or self._begin(slot, None)
        try:
            for block, source in zip(self._blocks, inputs, strict=False):
                device.write(state.bases[block], source, self._program.sizes[block], stream)
            self._follow(state, stream, deadline)
            slot.left(stream)
            state.whole = True
            self._await(slot.event, deadline)
            for block, to in zip(self._blocks[len(inputs) :], outputs, strict=True):
                device.read(to, state.bases[block], self._program.sizes[block], stream)
            self._raise_found([state.word])
        finally:
            self._leave(state, slot)

    def _record(self, given: tuple[int, ...], stream: int) -> None:
        """Launch the kernels into a graph of the caller's, whose own a state becomes."""
        if any(isinstance(t, Control) for t in self.plan.tasks):
            raise RuntimeError("the program has control flow that the host follows: a CUDA graph cannot record it")
        state = State(self._program, Block(self.accelerator, self._program.arena_bytes), self._bases(given))
        self._captured.append(state)
        self._bring(state, given, stream)
        for work in state.works.values():
            work.launch(stream)
        self._hand_over(state, stream)

    def _bases(self, given: tuple[int, ...]) -> dict[Buffers, int]:
        """Where the caller's blocks lie."""
        return dict(zip(self._blocks, given, strict=True))

    def _begin(self, slot: Slot, given: tuple[int, ...] | None) -> State:
        """The first state for a slot that was taken, of these blocks; it goes with the slot's memory, should that grow.

        Nobody else uses it until `_leave`.
        """
        try:
            arena = self._slots.arena(slot, self._program.arena_bytes)
            bases = self._slots.copies(slot, self._program.sizes) if given is None else self._bases(given)
            state = self._states[slot] = State(self._program, arena, bases)
        except BaseException:
            self._slots.drop()
            raise
        return state

    def _leave(self, state: State, slot: Slot) -> None:
        """Whoever comes next may have the state; one left half-way is dropped."""
        if state.whole:
            self._slots.give(slot)
        else:
            self._states.pop(slot, None)
            self._slots.drop()

    def _follow(self, state: State, stream: int, deadline: Deadline | None) -> None:
        """Append the plan to the stream."""
        at, tasks = 0, self.plan.tasks
        state.whole = False
        while at < len(tasks):
            task = tasks[at]
            if not isinstance(task, Control):
                state.launch(at, stream)
                at = self._program.segments[at].stop
            else:
                if deadline is not None:
                    deadline.check()
                at = self._next(state, task, at, stream)

    def _next(self, state: State, task: Control, at: int, stream: int) -> int:
        """The number of the step after one of control flow."""
        if task.kind == JUMP:
            return task.target
        if task.kind == IF:
            return at + 1 if self._read(state, task.operands[0], stream).all() else task.target
        if task.kind not in (LOOP, AGAIN):
            number = np.array(state.trips[task.slot], dtypes.to_numpy(task.operands[0].type))
            source = number.__array_interface__["data"][0]
            self.accelerator.write(state.address(task.operands[0]), source, number.nbytes, stream)
            return at + 1
        state.trips[task.slot] = 0 if task.kind == LOOP else state.trips[task.slot] + 1
        trip, (most, counted, tested) = state.trips[task.slot], task.numbers
        goes_on = trip < most
        if goes_on and counted:
            goes_on = trip < int(self._read(state, task.operands[0], stream).reshape(-1)[0])
        if goes_on and tested:
            goes_on = bool(self._read(state, task.operands[-1], stream).all())
        return (at + 1 if goes_on else task.target) if task.kind == LOOP else (task.target if goes_on else at + 1)

    def _read(self, state: State, operand: Operand, stream: int) -> np.ndarray:
        """Elements that control flow waits for."""
        value = Argument.empty(Shape(operand.type, operand.lens, operand.strides))
        self.accelerator.read(value.pointer, state.address(operand), value.shape.bytes, stream)
        return value.array

    def _await(self, event: Event, deadline: Deadline | None = None) -> None:
        """Wait so that signals and the deadline are heard."""
        start = time.perf_counter()
        while not event.done():
            if deadline is not None:
                deadline.check()
            if time.perf_counter() - start > SPIN_SECONDS:
                time.sleep(NAP_SECONDS)

    def raise_found(self) -> None:
        """IndexError for what kernels found in runs that are over, once for each."""
        self._left.raise_found()
        self._left.drop_told()
        self._raise_found([s.word for s in (*self._states.values(), *self._captured)])

    def _raise_found(self, words: Sequence[Word]) -> None:
        for word in words if self.checks else ():
            self.outline.raise_failed(word.found())

    # ---- the rest of an executable ----

    def profile(self, inputs: Sequence[Argument], runs: int) -> list[float]:
        """Seconds of each step by the device's clock, the mean of `runs` runs after one that is not counted."""
        given = [a.to(self.accelerator) for a in inputs]
        spent = np.zeros(len(self.plan.tasks))
        with self.accelerator.current():
            stream = self.accelerator.stream()
            made = [Argument.empty(s, self.accelerator, stream) for s in self.outputs]
            places = tuple(a.pointer for a in (*given, *made))
            state = State(self._program, Block(self.accelerator, self._program.arena_bytes), self._bases(places))
            self.accelerator.synchronise()
            self._bring(state, places, stream)
            for k in range(runs + 1):
                seconds = self._timed(state, stream)
                spent += seconds if k else 0
        return [float(s) / runs for s in spent]

    def _timed(self, state: State, stream: int) -> np.ndarray:
        """Seconds of each step in one run; of control flow, what the host waited for it."""
        marks: list[tuple[int, Event, Event]] = []
        seconds = np.zeros(len(self.plan.tasks))
        before, at = self.accelerator.event(timed=True), 0
        before.record(stream)
        while at < len(self.plan.tasks):
            task, after = self.plan.tasks[at], self.accelerator.event(timed=True)
            if not isinstance(task, Control):
                state.move(range(at, at + 1))
                state.works[at].launch(stream)
                following = at + 1
            else:
                following = self._next(state, task, at, stream)
            after.record(stream)
            marks.append((at, before, after))
            before, at = after, following
        self._await(before)
        for step, start, end in marks:
            seconds[step] += end.seconds(start)
        return seconds

    @property
    def holds_slots(self) -> bool:
        """Whether there are graphs made for the memory of slots."""
        return bool(self._states)

    def forget(self, slot: Slot) -> None:
        state = self._states.pop(slot, None)
        if state is not None and self.checks:  # what its runs found, or will, is still to be told
            self._left.add(state.word, slot.event)
            self._left.drop_told()

    def release(self) -> None:
        for slot in list(self._states):
            self.forget(slot)
        self._slots.clear()

    def share_weights(self, others: Iterable[Executable]) -> None:
        known: dict[Any, Weight] = {}
        for other in others:
            if isinstance(other, GpuExecutable) and other.accelerator is self.accelerator:
                known |= zip(other._contents, other._weights, strict=True)
        shared = [known.get(c, w) for c, w in zip(self._contents, self._weights, strict=True)]
        check_reach(self.plan.kernels, shared)
        self._weights = self._program.weights = shared
        self.release()

    @cached_property
    def _contents(self) -> list[Any]:
        return [content(w.array) for w in self._weights]

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restored` needs: JSON data and named tensors; `code` is that of the kernels, `plan.code` the plan."""
        codes = [f.code for f in self._program.functions if f.code is not None]
        return saved.write(self.accelerator.chip, self.plan, self.outline, [w.array for w in self._weights], codes)


def _tell_later(findings: Findings, left: Left, states: Mapping[Slot, State]) -> None:
    """What a program's last runs find is told though it is gone."""
    for slot, state in states.items():
        left.add(state.word, slot.event)
    findings.keep(left)


def restored(
    accelerator: Accelerator,
    data: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    trust_code: bool,
    offload_copy: bool,
    slots: Slots | None = None,
) -> GpuExecutable | None:
    """What `sections` described, or None where it must be compiled again.

    Then its code is for another chip, neither kept nor trusted, or calls a library that is not here.
    """
    found = saved.read(data, tensors, trust_code, accelerator)
    if found is None:
        return None
    plan, outline, weights, codes = found
    try:
        return GpuExecutable(accelerator, plan, outline, weights, offload_copy, codes, slots)
    except Unusable as error:
        log.warning("%s; compiling it again", error)
        return None
