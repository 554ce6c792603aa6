"""Main memory that stands for a device's: what is allocated is known, and holds poison before it is written."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

ALIGNMENT = 256
MOST_PROGRAMS = (2**31 - 1, 65_535, 65_535)  # along each axis of a grid
POISON = 0xFF  # NaN in every float type, -1 in integers


class Memory:
    """All blocks that are alive."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None
        self._lock = Lock()

    def allocate(self, nbytes: int, byte: int = POISON) -> tuple[int, Any]:
        pages = mmap.mmap(-1, nbytes + ALIGNMENT)  # near each other, as a device's are; malloc's may not be
        raw = np.frombuffer(pages, np.uint8)
        raw.fill(byte)
        start = -(-raw.ctypes.data // ALIGNMENT) * ALIGNMENT
        owner = _Owner(raw)
        self.add(start, nbytes, owner)
        return start, owner

    def add(self, start: int, nbytes: int, owner: Any) -> None:
        """Memory that somebody else allocated, as long as its owner lives."""
        with self._lock:
            self._ends[start] = start + nbytes
            self._sorted = None
        weakref.finalize(owner, self._remove, start)

    def _remove(self, start: int) -> None:
        with self._lock:
            del self._ends[start]
            self._sorted = None

    @property
    def bytes(self) -> int:
        """What is allocated now."""
        with self._lock:
            return sum(end - start for start, end in self._ends.items())

    def outside(self, places: np.ndarray, itemsize: int) -> np.ndarray:
        """Those addresses from which on so many bytes do not lie in one block."""
        with self._lock:
            if self._sorted is None:
                starts = np.array(sorted(self._ends), np.uint64)
                self._sorted = starts, np.array([self._ends[int(s)] for s in starts], np.uint64)
            starts, ends = self._sorted
        if not len(starts):
            return places
        at = np.searchsorted(starts, places, "right")
        good = (at > 0) & (places + np.uint64(itemsize) <= ends[np.maximum(at, 1) - 1])
        return places[~good]

    def check(self, start: int, nbytes: int) -> None:
        """ValueError where a range is not allocated as a whole."""
        if nbytes and len(self.outside(np.array([start], np.uint64), nbytes)):
            raise ValueError(f"{nbytes} bytes at {start:#x} are not memory of this device")

    def move(self, to: int, source: int, nbytes: int) -> None:
        ctypes.memmove(to, source, nbytes)


def check_grid(name: str, grid: Sequence[int]) -> None:
    """ValueError for a grid that no driver launches: empty, or too long along an axis."""
    if not all(1 <= n <= most for n, most in zip(grid, MOST_PROGRAMS, strict=True)):
        raise ValueError(f"{name}: a grid of {tuple(grid)} cannot be launched")


class _Owner:
    def __init__(self, raw: np.ndarray) -> None:
        self.raw = raw
