"""Programs that are compiled once for many lengths: the numbers of their plan are computed for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.ir.size import OPEN, Size, Sizes
from migraphx.targets.common.call import Flow
from migraphx.targets.common.form_table import FormTable
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.steps import lifetimes
from migraphx.targets.common.views import Buffer, Move, View
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.kernel import GpuCall, Grid, Kernel, Launch
from migraphx.targets.gpu.library import Library, LibraryCall, Unusable, at
from migraphx.targets.gpu.plan import Control, Delegated, Launched, Operand, Place, Plan, Task
from migraphx.targets.gpu.slots import Slots

AnyCall = GpuCall | LibraryCall


def has_sizes(kernel: Kernel) -> bool:
    """Whether its text or its constants are made of sizes: then it is for the same ones only."""
    return OPEN in kernel.source or any(isinstance(v, Size) for _, v in kernel.constants)


class OpenPlan:
    """The plan of a program whose numbers are made of sizes: `entries`, which its tasks are made of again."""

    def __init__(self, calls: Sequence[AnyCall], slots: int, sizes: Sizes) -> None:
        self.kernels: dict[Kernel, int] = {}
        self.slots, self.entries = slots, list[int]()
        self.placed: list[tuple[int, Buffer]] = []
        self._calls = list(calls)
        plain: dict[str, str] = {}
        for call in calls:
            if isinstance(call.kernel, Launch):
                text = call.kernel.kernel.source
                if text not in plain:
                    plain[text] = sizes.pinned(text)
        self._numbers = [self._number(call, plain) for call in calls]
        for call in calls:
            self._add(call)

    def _number(self, call: AnyCall, plain: dict[str, str]) -> int:
        """That of its kernel, which is for the same lengths only where its text or its constants are made of these."""
        if not isinstance(call.kernel, Launch):
            return -1
        kernel = call.kernel.kernel
        constants = tuple((n, int(v) if isinstance(v, Size) else v) for n, v in kernel.constants)
        kernel = replace(kernel, source=plain[kernel.source], constants=constants)
        return self.kernels.setdefault(kernel, len(self.kernels))

    def _add(self, call: AnyCall) -> None:
        """The numbers of a call, in the order in which `_task` reads them."""
        add = self.entries.append
        if isinstance(call.kernel, Launch):
            self.entries += [*call.kernel.grid, *call.numbers]
        elif call.kernel is None:
            self.entries += call.numbers
        else:
            at(call.kernel, lambda n: (add(n), n)[1])
        for view in call.views:
            if view.buffer.kind == "arena":
                self.placed.append((len(self.entries), view.buffer))
            self.entries.append(view.byte_offset)
            for move in view.moves:
                self.entries += [move.step, move.phase]
            if call.kernel is None:
                self.entries += [*view.lens, *view.strides]

    def plan(self, entries: Sequence[int], arena: int) -> Plan:
        read = iter(entries).__next__
        tasks: list[Task] = []
        for call, number in zip(self._calls, self._numbers, strict=True):
            tasks.append(_task(call, number, read))
        return Plan(tuple(self.kernels), tuple(tasks), arena, self.slots)


def _task(call: AnyCall, number: int, read: Any) -> Task:
    if isinstance(call.kernel, Launch):
        grid: Grid = (read(), read(), read())
        numbers = tuple(read() for _ in call.numbers)
        return Launched(number, grid, tuple(_place(v, read) for v in call.views), numbers)
    if call.kernel is not None:
        library: Library = at(call.kernel, lambda _: read())
        return Delegated(library, tuple(_place(v, read) for v in call.views))
    kind, slot, target, *rest = (read() for _ in call.numbers)
    operands = tuple(
        Operand(_place(v, read), v.type, tuple(read() for _ in v.lens), tuple(read() for _ in v.strides))
        for v in call.views
    )
    return Control(Flow(kind), slot, target, tuple(rest), operands)


def _place(view: View, read: Any) -> Place:
    kind, index = view.buffer.kind, view.buffer.index
    offset = read()
    moves = tuple(Move(m.slot, read(), read(), m.mask) for m in view.moves)
    return Place(kind, 0 if kind in ("arena", "status") else index, offset, moves)


class GpuForm:
    """A compiled program for all lengths that its plan is for; its kernels are loaded, and one memory serves all."""

    def __init__(
        self, device: Accelerator, sizes: Sizes, calls: Sequence[AnyCall], slots: int, outline: Outline,
        weights: Sequence[np.ndarray], offload_copy: bool, memory: Slots,
    ) -> None:  # fmt: skip
        """`slots`: of loops; `memory`: where its runs work, as those of other programs do."""
        self._device, self._weights, self._offload_copy, self._memory = device, weights, offload_copy, memory
        self.plan = OpenPlan(calls, slots, sizes)
        with device.current():
            device.load(list(self.plan.kernels))
        self.table = FormTable(sizes, self.plan.entries, self.plan.placed, outline, lifetimes(calls), ALIGNMENT)
        self._made: WeakSet[GpuExecutable] = WeakSet()

    def executable(self, lengths: Sequence[int], wishes: bool = True) -> GpuExecutable | None:
        """The program for these lengths of its symbols; None where a guard does not hold, or a wish, if those count."""
        found = self.table.at(lengths, wishes)
        if found is None:
            return None
        entries, outline = found
        plan = self.plan.plan(entries.tolist(), outline.arena_bytes)
        try:
            made = GpuExecutable(
                self._device, plan, outline, self._weights, self._offload_copy, (), self._memory, keep_weights=True
            )
        except Unusable:  # a library has nothing for these
            return None
        self._made.add(made)
        return made

    @property
    def memory(self) -> GpuForm:
        return self

    @property
    def parameters(self) -> Mapping[str, Shape]:
        return self.table.outline.parameters

    def sections(self) -> None:
        """A file holds the plan for each of its lengths."""

    def release(self) -> None:
        """Give back the memory that waits for runs."""
        for made in list(self._made):
            made.release()
