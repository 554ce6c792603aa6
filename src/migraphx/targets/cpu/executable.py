"""A compiled program: the shared object, its table of steps, its weights, and one native call a run."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument, address
from migraphx.runtime.cores import available
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.device import HOST, Device
from migraphx.runtime.executable import Executable
from migraphx.runtime.memory_image import MemoryImage
from migraphx.runtime.options import NATIVE, CompileOptions
from migraphx.runtime.repeat import Repeat
from migraphx.targets.common import sections
from migraphx.targets.common.cache import digest, lookup, obtain
from migraphx.targets.common.constants import content
from migraphx.targets.common.sections import Outline
from migraphx.targets.cpu.crew import Crew, threads_worth
from migraphx.targets.cpu.isa import made_for
from migraphx.targets.cpu.stop import Stop
from migraphx.targets.cpu.table import ABI, Layout, sizes_in, steps_in
from migraphx.targets.cpu.threads import call_with_pool, pool_is_lost, runtime

ALIGNMENT = 64


class _OpenMP(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("parallel", "thread_num", "num_threads")]


class _Repeat(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("more", "state")),
        *((n, ctypes.c_int64) for n in ("most", "runs", "again")),
    ]


class _Object:
    """A compiled object that was loaded: what it exports. It stays mapped until the process ends."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        pointer = ctypes.c_void_p
        self.scratch, self.run = self._library.mgx_scratch, self._library.mgx_run
        self.scratch.restype, self.scratch.argtypes = ctypes.c_int64, [pointer]
        self.run.argtypes = [
            pointer, pointer, pointer, ctypes.c_int64, ctypes.c_int, pointer, pointer, pointer, ctypes.POINTER(_Repeat),
        ]  # fmt: skip
        self.run.restype = ctypes.c_int64


_loaded = lru_cache(1024)(_Object)


class _State:
    """The memory of one run: an arena, scratch for every thread, a table of pointers. Concurrent runs have one each.

    Programs of equal parts, or that differ in their lengths only, take turns with it: each kind has a table of its own.
    """

    def __init__(self, executable: CpuExecutable) -> None:
        self.arena = aligned_bytes(executable.arena_bytes)
        self.scratch = aligned_bytes(executable.scratch_stride * executable.threads)
        self.tables: dict[Shared | None, Any] = {}
        self.scratch_pointer = address(self.scratch)
        self.status = np.zeros(8, np.int64)
        self.stop = Stop()
        self.stop_pointer = ctypes.addressof(self.stop)
        self.serve(executable)

    def serve(self, executable: CpuExecutable) -> None:
        """Take the table of this program, and of those that share weights with it."""
        self.serves, shared = executable.token, executable.shared
        if shared not in self.tables:
            table = self.tables[shared] = (ctypes.c_void_p * executable.layout.size)()
            table[0], table[1] = address(self.arena), address(self.status)
            for k, w in enumerate(executable.weights):
                table[executable.layout.first_weight + k] = address(w)
        self.table = self.tables[shared]

    def fits(self, executable: CpuExecutable) -> bool:
        scratch = executable.scratch_stride * executable.threads
        return self.arena.nbytes >= executable.arena_bytes and self.scratch.nbytes >= scratch


class Idle(list[_State]):
    """Memory that waits for runs of some programs."""

    def release(self) -> None:
        self.clear()


@dataclass(eq=False)
class Shared:
    """What programs that differ in their lengths only have in common, beside their weights.

    `available`: the threads that there were when they were compiled; `idle`: memory, of others that never run beside
    them, too.
    """

    available: int
    idle: Idle = field(default_factory=Idle)


class CpuExecutable:
    """Runs generated code. Any number of threads may call `run`: each run has its own state.

    The shared object stays mapped until the process ends, when the executable is long gone: about 200 KB a
    program; programs of equal code share one.
    """

    target = "cpu"
    device: Device = HOST

    def __init__(
        self,
        library: Path,
        table: np.ndarray,
        outline: Outline,
        weights: Sequence[np.ndarray],
        threads: int = 0,
        isa: str = NATIVE,
        shared: Shared | None = None,
        worth: int | None = None,
    ) -> None:
        """`shared`: with programs of other lengths; their table states the sizes of their own buffers.

        `worth`: how many threads are, where that is known.
        """
        self.library_path, self.isa = library, isa
        self.table = table
        self.outline = outline
        self.parameters, self.outputs, self.steps = outline.parameters, outline.outputs, outline.steps
        self.checks, self.arena_bytes = outline.checks, outline.arena_bytes
        self.weights = list(weights)
        self.requested_threads = threads
        self.threads = threads or worth or threads_worth(table, shared.available if shared else available())
        self.layout = Layout(len(self.parameters), len(self.outputs), len(weights))
        if shared is None:
            self._check_sizes()
        self._table_pointer = address(table)
        code = _loaded(library)
        self.scratch_stride, self._run = -(-code.scratch(self._table_pointer) // ALIGNMENT) * ALIGNMENT, code.run
        found = runtime()
        self._openmp = _OpenMP(found.parallel, found.thread_num, found.num_threads)
        self._openmp_pointer = ctypes.addressof(self._openmp)
        self._allowed = found.max_threads
        self._crew, self.token = Crew(), object()
        self.shared, self.memory = shared, shared.idle if shared else Idle()

    def _check_sizes(self) -> None:
        """The buffers are as large as the table believes: a file may have brought them."""
        have = table_bytes(self.arena_bytes, self.parameters.values(), self.outputs, self.weights)
        need = sizes_in(self.table)
        if len(have) != len(need) or any(h < n for h, n in zip(have, need, strict=True)):
            raise ValueError(f"{self.library_path.name} was compiled for buffers of other sizes than this program's")

    def run(
        self,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument] | None,
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> Sequence[Argument]:
        results = outputs if outputs is not None else [Argument.empty(s) for s in self.outputs]
        self.run_at([a.pointer for a in inputs], [a.pointer for a in results], stream, deadline)
        return results

    def run_at(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        HOST.check_stream(stream)
        self._call([*inputs, *outputs], None, deadline)

    def run_unless_changed(
        self,
        image: MemoryImage,
        inputs: Sequence[int],
        outputs: Sequence[int],
        stream: int | None = None,
        deadline: Deadline | None = None,
    ) -> bool:
        HOST.check_stream(stream)
        return self._call([*inputs, *outputs], None, deadline, image)

    def run_repeatedly(
        self, repeat: Repeat, inputs: Sequence[int], outputs: Sequence[int], image: MemoryImage | None = None
    ) -> bool:
        addresses, following = [*inputs, *outputs], _Repeat(*repeat.native)
        while True:  # a word to the crew now and then
            following.most, following.runs = self._crew.runs_at_once, 0
            if not self._call(addresses, None, None, image, following):
                return False
            if not following.again:
                return True

    def in_place(self, inputs: Sequence[Argument]) -> Mapping[int, int]:
        return self.outline.in_place

    @property
    def holds_memory(self) -> bool:
        """Whether memory waits for the next run."""
        return bool(self.memory)

    def release(self) -> None:
        self.memory.clear()

    def share_weights(self, others: Iterable[Executable]) -> None:
        known: dict[Hashable, np.ndarray] = {}
        for other in others:
            if isinstance(other, CpuExecutable):
                known |= zip(other._contents, other.weights, strict=True)
        self.weights = [known.get(c, w) for c, w in zip(self._contents, self.weights, strict=True)]
        self.release()

    @cached_property
    def _contents(self) -> list[Hashable]:
        return list(map(content, self.weights))

    def profile(self, inputs: Sequence[Argument], runs: int = 20) -> list[float]:
        """Seconds of every step, the mean of `runs` runs after one that is not counted."""
        results = [Argument.empty(s) for s in self.outputs]
        addresses = [a.pointer for a in (*inputs, *results)]
        self._call(addresses, None)
        spent = np.zeros(max(1, steps_in(self.table)), np.int64)
        for _ in range(runs):
            self._call(addresses, address(spent))
        return [float(n) * 1e-9 / runs for n in spent]

    def _call(
        self,
        addresses: Sequence[int],
        nanoseconds: int | None,
        deadline: Deadline | None = None,
        image: MemoryImage | None = None,
        repeat: _Repeat | None = None,
    ) -> bool:
        """Run; false where the memory of `image`, which is looked at meanwhile, has changed."""
        threads, begin = self.requested_threads or min(self.threads, self._allowed()), 0
        if threads > 1 and not self.requested_threads:
            threads, begin = 1 if self._crew.alone else threads, perf_counter_ns()
        try:
            state = self.memory.pop()  # list.pop and append are atomic
        except IndexError:
            state = _State(self)
        if state.serves is not self.token:
            state = state if state.fits(self) else _State(self)
            state.serve(self)
        state.table[2 : 2 + len(addresses)] = addresses
        if threads > 1 and pool_is_lost():
            call = self._call_native, state, nanoseconds, threads, deadline, image, repeat
            done = call_with_pool(*call, stop=state.stop.ask)
        else:
            done = self._call_native(state, nanoseconds, threads, deadline, image, repeat)
        if not done:
            return False
        status = None
        if self.checks and state.status[0]:
            status = state.status[:2].tolist()
            state.status[0] = 0
        if begin:
            self._crew.ran(threads == 1, perf_counter_ns() - begin, 1 if repeat is None else repeat.runs)
        self.memory.append(state)  # not behind a run that was ended: its state may be told so late
        if status:
            self.outline.raise_failed(status)
        return True

    def _call_native(
        self,
        state: _State,
        nanoseconds: int | None,
        threads: int,
        deadline: Deadline | None,
        image: MemoryImage | None,
        repeat: _Repeat | None,
    ) -> bool:
        state.stop.begin(deadline, image)
        reason = self._run(
            self._table_pointer, state.table, state.scratch_pointer, self.scratch_stride, threads,
            self._openmp_pointer, nanoseconds, state.stop_pointer, repeat,
        )  # fmt: skip
        if reason:
            state.stop.finish(deadline)
        return not reason

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restore` needs: JSON data and named tensors; `code` is the compiled object, `table.code` its table.

        The cache keeps the table from now on: like code, it is read from there, or from a file that is trusted.
        """
        entries = self.table.tobytes()
        key = table_key(self.library_path.stem, entries)
        obtain(key, ".table", lambda path: path.write_bytes(entries))
        data, tensors = sections.write(self.outline, self.weights)
        data |= {"object": self.library_path.stem, "table": key, "machine": machine(self.isa)}
        return data, tensors | {"code": np.fromfile(self.library_path, np.uint8), "table.code": self.table}


def restore(
    data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions
) -> CpuExecutable | None:
    """What `sections` described, or None where its code is neither in the local cache nor trusted.

    An object of the cache is code that was compiled here, a table one that was made here; the file only names them,
    and the table says how large the buffers must be.
    """
    if data["machine"] != machine(options.isa):
        return None
    library, table = library_of(data, tensors, trust_code), _kept_table(data["table"], data["object"])
    if trust_code and table is None:
        table = np.ascontiguousarray(tensors["table.code"], np.int64)
    if library is None or table is None:
        return None
    return CpuExecutable(library, table, *sections.read(data, tensors), options.num_threads, options.isa)


def library_of(data: Mapping[str, Any], tensors: Mapping[str, np.ndarray], trust_code: bool) -> Path | None:
    """The object that sections name: of the cache, or of the file where it is trusted."""
    library = lookup(data["object"], ".so")
    if trust_code and library is None:
        library = obtain(digest(tensors["code"].tobytes()), ".so", lambda p: p.write_bytes(tensors["code"].tobytes()))
    return library


def machine(isa: str) -> str:
    """What code must have been made for to be run here."""
    return digest(made_for(isa), ABI, sections.FORMAT)


def table_key(object: str, entries: bytes) -> str:
    """The key under which the cache keeps a table for an object."""
    return digest("table", object, entries)


def _kept_table(key: str, object: str) -> np.ndarray | None:
    """A table from the cache, where it is one for this object."""
    path = lookup(key, ".table")
    table = None if path is None else np.fromfile(path, np.int64)
    return table if table is not None and table_key(object, table.tobytes()) == key else None


def table_bytes(
    arena: int, inputs: Iterable[Shape], outputs: Iterable[Shape], weights: Iterable[np.ndarray]
) -> list[int]:
    """Bytes of every entry of the pointer table, in Layout's order."""
    spans = [Shape.of(w).bytes for w in weights]
    return [arena, 64, *(s.bytes for s in inputs), *(s.bytes for s in outputs), *spans]


def aligned_bytes(size: int) -> np.ndarray:
    """`size` uninitialised bytes from a multiple of ALIGNMENT on."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + size]
