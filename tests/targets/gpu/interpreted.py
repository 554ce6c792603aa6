"""A device whose kernels Triton's interpreter runs: target gpu without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from migraphx.targets.gpu.accelerator import Event, Findings, Function, Work
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.kernel import Grid, Kernel
from migraphx.targets.gpu.library import LibraryWork
from tests.targets.gpu.interpreter import Interpreted, load
from tests.targets.gpu.memory import Memory, check_grid

STREAM = 1


class InterpretedWork:
    """A kernel with its values; a launch runs it at once."""

    def __init__(self, memory: Memory, function: Interpreted, grid: Grid, values: Sequence[int]) -> None:
        check_grid(function.kernel.name, grid)
        self.memory, self.function, self.grid = memory, function, grid
        self.bind(values)

    def bind(self, values: Sequence[int]) -> None:
        self.values = list(values)

    def launch(self, stream: int) -> None:
        self.function.run(self.grid, self.values, self.memory)


class InterpretedGraph:
    """Works with the values that they had when the graph was made, or updated, as in a CUDA graph.

    A library's stay where they were.
    """

    def __init__(self, works: Sequence[InterpretedWork | LibraryWork]) -> None:
        self.works = list(works)
        self.values = [list(w.values) for w in works]

    def launch(self, stream: int) -> None:
        for work, values in zip(self.works, self.values, strict=True):
            if isinstance(work, InterpretedWork):
                work.function.run(work.grid, values, work.memory)
            else:
                work.launch(stream)

    def update(self, k: int) -> None:
        self.values[k] = list(self.works[k].values)


class InterpretedEvent:
    """Everything is over when it returns."""

    def record(self, stream: int) -> None: ...

    def wait(self, stream: int) -> None: ...

    def done(self) -> bool:
        return True

    def seconds(self, since: Any) -> float:
        return 0.0


class InterpretedDevice:
    """An Accelerator on main memory. Addresses that were not allocated here are refused: a GPU would fail on them."""

    kind, index, name = 2, 0, "cuda:0"
    chip = "cuda:90"

    def __init__(self) -> None:
        self.memory, self.findings = Memory(), Findings()

    def identity(self) -> str:
        return "Triton's interpreter"

    def peak_flops(self) -> float:
        return 1e9

    def current(self) -> nullcontext[None]:
        return nullcontext()

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        return self.memory.allocate(nbytes)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        return self.memory.allocate(nbytes, 0)

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.memory.check(to, nbytes)
        self.memory.check(source, nbytes)
        ctypes.memmove(to, source, nbytes)

    def read(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.memory.check(source, nbytes)
        ctypes.memmove(to, source, nbytes)

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.memory.check(to, nbytes)
        ctypes.memmove(to, source, nbytes)

    def holds(self, pointer: int) -> bool:
        return not len(self.memory.outside(np.array([pointer], np.uint64), 1))

    def synchronise(self, stream: int | None = None) -> None:
        self.findings.raise_any()

    def stream(self) -> int:
        return STREAM

    def capturing(self, stream: int) -> bool:
        return False

    def event(self, timed: bool = False) -> Event:
        return InterpretedEvent()

    def ahead(self) -> nullcontext[Callable[[Kernel], None]]:
        return nullcontext(lambda kernel: None)

    def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> list[Function]:
        return [load(k) for k in kernels]

    def work(self, function: Function, grid: Grid, values: Sequence[int], scratch: int = 0) -> Work:
        assert isinstance(function, Interpreted)
        return InterpretedWork(self.memory, function, grid, values)

    def graph(self, works: Sequence[Work]) -> InterpretedGraph:
        return InterpretedGraph([w for w in works if isinstance(w, (InterpretedWork, LibraryWork))])
