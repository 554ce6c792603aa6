"""Candidates timed on the device: each runs in a graph, on random numbers, in buffers that take turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu.accelerator import Accelerator, Block
from migraphx.targets.gpu.binaries import CompilerError
from migraphx.targets.gpu.choices import Build, Config, Problem
from migraphx.targets.gpu.emit.tiles import span
from migraphx.targets.gpu.kernel import GpuCall

COLD = 192 << 20  # bytes that a round of launches goes through: more than the caches hold
MOST_SETS = 24
LAUNCHES = 24  # in a graph, at least
ROUNDS = 5
PATTERN = 1 << 20  # random elements, repeated through larger buffers


@dataclass(frozen=True)
class Timing:
    """Microseconds of a candidate; None where it cannot be compiled or launched, and why."""

    config: Config
    microseconds: float | None
    error: str = ""


@dataclass
class Tuner:
    """Times candidates on a device; `timings` has what was found, by problem. `most`: candidates of a problem."""

    device: Accelerator
    most: int = 24
    timings: dict[str, list[Timing]] = field(default_factory=dict)

    def measure(self, problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
        """The fastest candidate."""
        tried = list(candidates[: self.most])
        with self.device.current():
            found = self._timed(tried, [list(build(c)) for c in tried])
        self.timings[problem.key] = found
        right = [(t.microseconds, n) for n, t in enumerate(found) if t.microseconds is not None]
        if not right:
            raise CompilerError(f"no candidate runs for {problem.key}: {found[0].error}")
        return tried[min(right)[1]]

    def _timed(self, configs: Sequence[Config], programs: Sequence[Sequence[GpuCall]]) -> list[Timing]:
        errors = self._compile(programs)
        found = []
        for config, calls, error in zip(configs, programs, errors, strict=True):
            try:
                found.append(Timing(config, None, error) if error else Timing(config, self.time(calls)))
            except (RuntimeError, OSError, MemoryError) as failure:
                found.append(Timing(config, None, str(failure)))
        return found

    def _compile(self, programs: Sequence[Sequence[GpuCall]]) -> list[str]:
        """Compile all of them side by side; what went wrong with each."""
        try:
            self.device.load([c.kernel.kernel for calls in programs for c in calls if c.kernel])
            return [""] * len(programs)
        except CompilerError:
            return [self._problem(calls) for calls in programs]

    def _problem(self, calls: Sequence[GpuCall]) -> str:
        try:
            self.device.load([c.kernel.kernel for c in calls if c.kernel])
            return ""
        except CompilerError as error:
            return str(error)

    def time(self, calls: Sequence[GpuCall]) -> float:
        """Microseconds of the calls, one after the other."""
        buffers: dict[Buffer, tuple[int, str]] = {}
        for view in (v for call in calls for v in call.views):
            last = (view.offset + span(view) + 1) * view.itemsize
            buffers[view.buffer] = max(buffers.get(view.buffer, (0, view.type)), (last, view.type))
        size = sum(n for n, _ in buffers.values())
        sets = max(1, min(MOST_SETS, -(-COLD // max(size, 1))))
        stream, device = self.device.stream(), self.device
        memory = [{b: self._filled(n, type, stream) for b, (n, type) in buffers.items()} for _ in range(sets)]
        functions = device.load([c.kernel.kernel for c in calls if c.kernel])
        works = [
            device.work(function, call.kernel.grid, [*(_address(v, places) for v in call.views), *call.numbers])
            for places in memory * -(-LAUNCHES // sets)
            for function, call in zip(functions, calls, strict=True)
            if call.kernel
        ]
        graph = device.graph(works)
        graph.launch(stream)
        events = [(device.event(timed=True), device.event(timed=True)) for _ in range(ROUNDS)]
        for begin, end in events:
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
        device.synchronise(stream)
        seconds = median(end.seconds(begin) for begin, end in events)
        return seconds * 1e6 * len(calls) / len(works)

    def _filled(self, nbytes: int, type: str, stream: int) -> Block:
        """Memory with random numbers round 0 of this type."""
        block = Block(self.device, nbytes)
        dtype = dtypes.to_numpy(type)
        pattern = np.random.default_rng(0).standard_normal(PATTERN).astype(np.float32)
        data = (pattern * (1 if type in dtypes.FLOATS else 20)).astype(dtype).view(np.uint8)
        for start in range(0, nbytes, data.nbytes):
            self.device.write(block.address + start, data.ctypes.data, min(data.nbytes, nbytes - start), stream)
        self.device.synchronise(stream)
        return block


def _address(view: View, places: dict[Buffer, Block]) -> int:
    return places[view.buffer].address + view.byte_offset
