"""A device that computes nothing and records what it is asked: what an executable does with memory and streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from migraphx.targets.gpu.accelerator import Findings, Function
from migraphx.targets.gpu.binaries import Binary
from migraphx.targets.gpu.kernel import Grid, Kernel
from tests.targets.gpu.memory import Memory, check_grid

DEFAULT = 7  # the stream of threads that were given none
Entry = tuple[Any, ...]
"""What was asked, then its arguments as far as tests read them."""


class Recorder:
    """An Accelerator. `log` has every call in order; `pending` are the streams whose events are not over."""

    kind, index, name, chip = 2, 0, "cuda:0", "cuda:90"

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.memory, self.findings = Memory(), Findings()
        self.pending: set[int] = set()
        self.recording: set[int] = set()
        self.most = 1 << 40  # bytes that can be allocated

    def taken(self) -> list[Entry]:
        """What was recorded since the last time."""
        log, self.log = self.log, []
        return log

    def identity(self) -> str:
        return "recorder"

    def peak_flops(self) -> float:
        return 1e9

    def current(self) -> nullcontext[None]:
        return nullcontext()

    def allocate(self, nbytes: int, stream: int | None = None) -> tuple[int, Any]:
        return self._allocated("allocate", nbytes)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        return self._allocated("pinned", nbytes, 0)

    def _allocated(self, what: str, nbytes: int, *byte: int) -> tuple[int, Any]:
        if self.memory.bytes + nbytes > self.most:
            raise MemoryError(f"{nbytes} bytes cannot be had")
        self.log.append((what, nbytes))
        return self.memory.allocate(nbytes, *byte)

    def copy(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.log.append(("copy", to, source, nbytes, stream))

    def read(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.log.append(("read", source, nbytes, stream))

    def write(self, to: int, source: int, nbytes: int, stream: int | None = None) -> None:
        self.log.append(("write", to, nbytes, stream))

    def holds(self, pointer: int) -> bool:
        return True

    def synchronise(self, stream: int | None = None) -> None:
        self.log.append(("synchronise", stream))
        self.pending = set() if stream is None else self.pending - {stream}
        self.findings.raise_any()

    def stream(self) -> int:
        return DEFAULT

    def capturing(self, stream: int) -> bool:
        return stream in self.recording

    def event(self, timed: bool = False) -> RecordedEvent:
        return RecordedEvent(self)

    def ahead(self) -> nullcontext[Callable[[Kernel], None]]:
        return nullcontext(lambda kernel: None)

    def load(self, kernels: Sequence[Kernel], codes: Sequence[Binary] = ()) -> Sequence[Function]:
        self.log.append(("load", len(kernels)))
        return [RecordedFunction(k) for k in kernels]

    def work(self, function: Any, grid: Grid, values: Sequence[int], scratch: int = 0) -> RecordedWork:
        check_grid(function.kernel.name, grid)
        return RecordedWork(self, values)

    def graph(self, works: Sequence[Any]) -> RecordedGraph:
        return RecordedGraph(self, works)


class RecordedFunction:
    code = None

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scratch = kernel.stages if kernel.name == "scratching" else 0


class RecordedEvent:
    def __init__(self, device: Recorder) -> None:
        self.device, self.stream = device, 0

    def record(self, stream: int) -> None:
        self.stream = stream

    def wait(self, stream: int) -> None:
        self.device.log.append(("wait", stream, self.stream))

    def done(self) -> bool:
        return self.stream not in self.device.pending

    def seconds(self, since: Any) -> float:
        return 1e-6


class RecordedWork:
    def __init__(self, device: Recorder, values: Sequence[int]) -> None:
        self.device, self.values = device, tuple(values)

    def bind(self, values: Sequence[int]) -> None:
        self.values = tuple(values)

    def launch(self, stream: int) -> None:
        self.device.log.append(("work", stream, self.values))


class RecordedGraph:
    """As CUDA's: it keeps the values of its nodes until it is told of others."""

    def __init__(self, device: Recorder, works: Sequence[RecordedWork]) -> None:
        self.device, self.works, self.values = device, list(works), [w.values for w in works]
        device.log.append(("graph", len(works)))

    def launch(self, stream: int) -> None:
        self.device.log.append(("launch", stream, tuple(self.values)))

    def update(self, k: int) -> None:
        self.values[k] = self.works[k].values
        self.device.log.append(("update", k, self.values[k]))
