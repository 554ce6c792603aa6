"""A compiled program: the shared object, its weights, and one native call a run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.runtime.argument import Argument
from migraphx.targets.cpu.codegen import Layout
from migraphx.targets.cpu.threads import available, runtime

ALIGNMENT = 64


class _OpenMP(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("parallel", "thread_num", "num_threads")]


class _State:
    """What one run at a time needs: an arena, scratch for every thread, a table of pointers."""

    def __init__(self, executable: CpuExecutable) -> None:
        self.arena = aligned_bytes(executable.arena_bytes)
        self.scratch = aligned_bytes(executable.scratch_stride * executable.threads)
        self.table = (ctypes.c_void_p * executable.layout.size)()
        self.table[0] = address(self.arena)
        first = 1 + executable.layout.inputs + executable.layout.outputs
        for k, w in enumerate(executable.weights):
            self.table[first + k] = address(w)


class CpuExecutable:
    """Runs generated code. Any number of threads may call `run`: each run has its own state."""

    target = "cpu"

    def __init__(
        self,
        library: Path,
        parameters: dict[str, Shape],
        outputs: list[Shape],
        weights: Sequence[np.ndarray],
        arena_bytes: int,
        threads: int = 0,
    ) -> None:
        self.library_path = library
        self.parameters = parameters
        self.outputs = outputs
        self.weights = list(weights)
        self.arena_bytes = arena_bytes
        self.threads = threads or available()
        self.layout = Layout(len(parameters), len(outputs), len(weights))
        self._library = ctypes.CDLL(str(library))
        self._library.mgx_scratch.restype = ctypes.c_int64
        self.scratch_stride = -(-self._library.mgx_scratch() // ALIGNMENT) * ALIGNMENT
        self._run = self._library.mgx_run
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
        self._run.restype = None
        found = runtime()
        self._openmp = _OpenMP(found.parallel, found.thread_num, found.num_threads)
        self._idle: list[_State] = []

    def run(self, inputs: Sequence[Argument], outputs: Sequence[Argument] | None) -> Sequence[Argument]:
        results = outputs if outputs is not None else [Argument.empty(s) for s in self.outputs]
        try:
            state = self._idle.pop()  # list.pop and append are atomic
        except IndexError:
            state = _State(self)
        table, entry = state.table, 1
        for a in inputs:
            table[entry] = a.pointer
            entry += 1
        for a in results:
            table[entry] = a.pointer
            entry += 1
        self._run(table, address(state.scratch), self.scratch_stride, self.threads, ctypes.addressof(self._openmp))
        self._idle.append(state)
        return results

    def sections(self) -> dict[str, Any]:
        return {"library": self.library_path, "weights": self.weights, "arena_bytes": self.arena_bytes}


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def aligned_bytes(size: int) -> np.ndarray:
    """`size` uninitialised bytes from a multiple of ALIGNMENT on."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + size]
