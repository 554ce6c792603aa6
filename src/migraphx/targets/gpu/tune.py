"""Candidates timed on the device: each runs in a graph, on random numbers, in memory that takes turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from statistics import median

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.targets.common.cache import digest, lookup, obtain
from migraphx.targets.common.views import Buffer
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator, Block, Work
from migraphx.targets.gpu.binaries import CompilerError, triton_version
from migraphx.targets.gpu.choices import LIBRARIES, Build, Config, Problem
from migraphx.targets.gpu.emit.tiles import span
from migraphx.targets.gpu.kernel import GpuCall, Kernel, Launch
from migraphx.targets.gpu.libraries.find import versions
from migraphx.targets.gpu.library import LibraryCall, LibraryWork

COLD = 384 << 20  # bytes that launches go through in turn: more than the caches hold
LAUNCHES = 24  # in a graph
ROUNDS = 5
FORMAT, SUFFIX = "winner 5", ".winner"  # of the cache's entries
MARGIN = 1.03  # by which a library wins: it is loaded before the first run, and launches do not overlap with its own
PATTERN = 1 << 20  # random elements, repeated through the memory

AnyCall = GpuCall | LibraryCall


class _Pool:
    """Memory full of random numbers of one type, given out in turn."""

    def __init__(self, device: Accelerator, nbytes: int, type: str, stream: int) -> None:
        dtype = dtypes.to_numpy(type)
        self.block, self.at = Block(device, nbytes), 0
        pattern = np.random.default_rng(0).standard_normal(PATTERN).astype(np.float32)
        data = (pattern * (1 if type in dtypes.FLOATS else 20)).astype(dtype).view(np.uint8)
        done = min(data.nbytes, nbytes)
        device.write(self.block.address, data.ctypes.data, done, stream)
        while done < nbytes:  # by doubling
            size = min(done, nbytes - done)
            device.copy(self.block.address + done, self.block.address, size, stream)
            done += size
        device.synchronise(stream)

    def take(self, nbytes: int) -> int:
        """The address of so many bytes, those that were given out longest ago."""
        if self.at + nbytes > self.block.nbytes:
            self.at = 0
        self.at += _whole(nbytes)
        return self.block.address + self.at - _whole(nbytes)


def _whole(nbytes: int) -> int:
    """Bytes that a piece of a pool takes."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


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
    _wanted: dict[Kernel, None] = field(default_factory=dict)
    _pools: dict[str, _Pool] = field(default_factory=dict)

    def winner(self, problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
        """The fastest candidate, timed where the cache does not know it for this device."""

        def make(path: Path) -> None:
            best = self.measure(problem, candidates, build)
            others = sorted((t for t in self.timings[problem.key] if t.microseconds), key=lambda t: t.microseconds or 0)
            times = [[t.microseconds, t.config.as_dict()] for t in others]
            path.write_text(json.dumps({"problem": problem.key, "config": best.as_dict(), "times": times}))

        return Config(**json.loads(obtain(self._key(problem), SUFFIX, make).read_text())["config"])

    def recall(self, problem: Problem) -> Config | None:
        """What `winner` found once, in this process or another."""
        path = lookup(self._key(problem), SUFFIX)
        return Config(**json.loads(path.read_text())["config"]) if path else None

    def want(self, problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
        """The best guess; `winner` will be asked, and `compile` before it."""
        if self.recall(problem) is None:
            for config in candidates[: self.most]:
                self._wanted |= dict.fromkeys(kernels_of(build(config)))
        return candidates[0]

    def compile(self) -> None:
        """The kernels of all candidates that are wanted, side by side; what does not compile is told by `winner`."""
        with suppress(CompilerError):
            self.device.load(list(self._wanted))
        self._wanted.clear()

    def _key(self, problem: Problem) -> str:
        """What the winner depends on: the device, its driver, what compiles, and how libraries rank their ways."""
        made_by = json.dumps({"triton": triton_version(), **versions()})
        return digest(FORMAT, self.device.identity(), made_by, problem.key)

    def measure(self, problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
        """The fastest candidate; a library's where it is the fastest by a margin."""
        tried = list(candidates[: self.most])
        with self.device.current():
            found = self._timed(tried, [list(build(c)) for c in tried])
        self.timings[problem.key] = found
        margins = [MARGIN if c.kernel in LIBRARIES else 1.0 for c in tried]
        right = [(t.microseconds * margins[n], n) for n, t in enumerate(found) if t.microseconds is not None]
        if not right:
            raise CompilerError(f"no candidate runs for {problem.key}: {found[0].error}")
        return tried[min(right)[1]]

    def _timed(self, configs: Sequence[Config], programs: Sequence[Sequence[AnyCall]]) -> list[Timing]:
        """The driver's error where a candidate lost the context, in which nothing runs any more."""
        errors = self._compile(programs)
        found = []
        for config, calls, error in zip(configs, programs, errors, strict=True):
            try:
                found.append(Timing(config, None, error) if error else Timing(config, self.time(calls)))
            except (RuntimeError, OSError, MemoryError) as failure:
                self.device.synchronise(self.device.stream())
                found.append(Timing(config, None, str(failure)))
        return found

    def _compile(self, programs: Sequence[Sequence[AnyCall]]) -> list[str]:
        """Compile all of them side by side; what went wrong with each."""
        try:
            self.device.load([k for calls in programs for k in kernels_of(calls)])
            return [""] * len(programs)
        except CompilerError:
            return [self._problem(calls) for calls in programs]

    def _problem(self, calls: Sequence[AnyCall]) -> str:
        try:
            self.device.load(kernels_of(calls))
            return ""
        except CompilerError as error:
            return str(error)

    def time(self, calls: Sequence[AnyCall]) -> float:
        """Microseconds of the calls, one after the other."""
        stream, device = self.device.stream(), self.device
        prepared = [c.kernel.prepare(device) if c.kernel and not isinstance(c.kernel, Launch) else None for c in calls]
        functions = iter(device.load(kernels_of(calls)))
        loaded = [next(functions) if isinstance(c.kernel, Launch) else None for c in calls]
        scratches = [
            f.scratch * prod(c.kernel.grid) if f is not None and isinstance(c.kernel, Launch) else 0
            for c, f in zip(calls, loaded, strict=True)
        ]
        sizes = self._sizes(calls)
        self._reserve([*sizes.values(), *(("written", each) for each in scratches)], stream)
        works: list[Work] = []
        for _ in range(LAUNCHES):
            places = {b: self._pools[name].take(n) for b, (name, n) in sizes.items()}
            for call, function, append, each in zip(calls, loaded, prepared, scratches, strict=True):
                pointers = [places[v.buffer] + v.byte_offset for v in call.views]
                if function is not None and isinstance(call.kernel, Launch):
                    scratch = self._pools["written"].take(each) if each else 0
                    works.append(device.work(function, call.kernel.grid, [*pointers, *call.numbers], scratch))
                elif append is not None:
                    works.append(LibraryWork(append, pointers))
        for work in works[: len(calls)]:  # libraries load code when they first run, which no capture may see
            work.launch(stream)
        device.synchronise(stream)
        graph = device.graph(works)
        graph.launch(stream)
        events = [(device.event(timed=True), device.event(timed=True)) for _ in range(ROUNDS)]
        for begin, end in events:
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
        device.synchronise(stream)
        return median(end.seconds(begin) for begin, end in events) * 1e6 / LAUNCHES

    def _sizes(self, calls: Sequence[AnyCall]) -> dict[Buffer, tuple[str, int]]:
        """The pool of each buffer, and the bytes it takes of it; those that are written have one of their own."""
        sizes: dict[Buffer, int] = {}
        for view in (v for call in calls for v in call.views):
            last = (view.offset + span(view) + 1) * view.itemsize
            sizes[view.buffer] = max(sizes.get(view.buffer, 0), last)
        written = {v.buffer for call in calls for v in call.writes}
        types = {v.buffer: v.type for call in calls for v in call.views}
        return {b: ("written" if b in written else types[b], n) for b, n in sizes.items()}

    def _reserve(self, wanted: Sequence[tuple[str, int]], stream: int) -> None:
        """Pools that hold all pieces of a launch at once.

        Before the first piece is given out: a pool that is made larger later would free the memory of its pieces. From
        their beginning, so that no two pieces of a launch overlap: such as a result and memory of the kernel's own.
        """
        least: dict[str, int] = {}
        for name, nbytes in wanted:
            least[name] = least.get(name, 0) + _whole(nbytes)
        for name, nbytes in least.items():
            if name not in self._pools or self._pools[name].block.nbytes < nbytes:
                type = "half" if name == "written" else name
                self._pools[name] = _Pool(self.device, max(nbytes, COLD), type, stream)
            self._pools[name].at = 0


def kernels_of(calls: Sequence[AnyCall]) -> list[Kernel]:
    return [c.kernel.kernel for c in calls if isinstance(c.kernel, Launch)]
