"""Compile a C++ snippet against the kernel headers and call it on NumPy arrays with guard zones.

A snippet is a translation unit: it includes the headers it tests and exports `extern "C"` functions.
`compile_snippet` gives a `ctypes.CDLL`; the object stays in the cache of compiled objects. Both instruction sets are
built from the same text: `ISAS` lists those that this machine can run, its best for quick tests.
"""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from migraphx.targets.common.cache import digest, obtain
from migraphx.targets.cpu.isa import instruction_set
from migraphx.targets.cpu.toolchain import FLAGS
from tests.tiers import few

HERE = Path(__file__).resolve().parent  # headers that snippets share
KERNELS = HERE.parents[3] / "src" / "migraphx" / "targets" / "cpu" / "kernels"
_AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mno-avx512f")
GUARD = 256  # elements of poison on either side of a guarded array
POISON = {"f": 1e30, "i": 77, "u": 77}


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _isas() -> dict[str, tuple[str, ...]]:
    flags = _cpu_flags()
    isas: dict[str, tuple[str, ...]] = {"native": ("-march=native",)}
    if "avx512f" in flags:
        isas["avx2"] = _AVX2
    return isas


LEVELS = _isas()
ISAS = few(LEVELS, "native")


@cache
def compile_snippet(source: str, isa: str = "native") -> ctypes.CDLL:
    """Build `source` for `isa` (a key of LEVELS) with programs' flags, once; the compiler's words are the error."""
    command = [
        "g++",
        *FLAGS,
        "-fopenmp",
        "-shared",
        *LEVELS[isa],
        f"-I{KERNELS}",
        f"-I{HERE}",
        "-x",
        "c++",
        "-",
        "-o",
    ]

    def build(path: Path) -> None:
        done = subprocess.run([*command, str(path)], input=source, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:4000]}")

    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    headers = (p.read_text() for folder in (KERNELS, HERE) for p in sorted(folder.glob("*.hpp")))
    key = digest("snippet", version, instruction_set(), *command, *headers, source)
    return ctypes.CDLL(str(obtain(key, ".so", build)))


def aligned(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """A copy that begins `offset` elements past a 64-byte boundary."""
    raw = np.empty(array.nbytes + 64 + (offset + 1) * array.itemsize, np.uint8)
    start = -raw.ctypes.data % 64 + offset * array.itemsize
    out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


class Guarded:
    """A poisoned output of `shape` between two guard zones; `check` says whether the zones are whole."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.poison = self.dtype.type(POISON.get(self.dtype.kind, 0) if self.dtype.itemsize > 2 else 77)
        size = int(np.prod(shape, dtype=np.int64))
        self.raw = np.full(size + 2 * GUARD, self.poison, self.dtype)
        self.array = self.raw[GUARD : GUARD + size].reshape(shape)

    def check(self) -> None:
        assert (self.raw[:GUARD] == self.poison).all(), "written before the buffer"
        assert (self.raw[self.raw.size - GUARD :] == self.poison).all(), "written past the buffer"


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pack(b: np.ndarray, nr: int) -> np.ndarray:
    """[..., k, n] -> [..., ceil(n / nr), k, nr], zero padded, 64-byte aligned: the layout of gemm.hpp."""
    *outer, k, n = b.shape
    panels = -(-n // nr)
    wide = np.zeros((*outer, k, panels * nr), b.dtype)
    wide[..., :n] = b
    order = (*range(len(outer)), len(outer) + 1, len(outer), len(outer) + 2)
    return aligned(wide.reshape(*outer, k, panels, nr).transpose(order))


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 -> bf16 bits (uint16), nearest even; NaN is not expected."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)
