"""Memory of packed weights, and the threads that fill it."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from migraphx.runtime.cores import available
from migraphx.runtime.side_by_side import side_by_side

if TYPE_CHECKING:  # importing it adds to NumPy's names, which Dynamo may be reading in another thread
    from numpy.typing import DTypeLike

LINE = 64  # bytes of a cache line: a vector that crosses one is loaded at half the speed
WORTH_THREADS = 1 << 20  # bytes
WORTH_PAGES = 1 << 16
HUGE_PAGE = 1 << 21
"""Bytes. Weights are read once a run: a Zen 4, which fetches ahead within a page, reads a fifth slower from pages of
4 KiB. NumPy asks for huge pages from 4 MiB on."""

_rest, _lock = [np.empty(0, np.uint8)], Lock()  # of a huge page that several arrays share


def zeros(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Zeros that begin at a cache line, large ones in huge pages."""
    count, kind = int(np.prod(shape)), np.dtype(dtype)
    size = -(-count * kind.itemsize // LINE) * LINE
    huge = size >= WORTH_PAGES and hasattr(mmap, "MADV_HUGEPAGE")
    raw = _in_huge_pages(size) if huge else np.zeros(size + LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % LINE
    return raw[start : start + count * kind.itemsize].view(dtype).reshape(shape)


def _in_huge_pages(size: int) -> np.ndarray:
    """Zeros in a mapping of their own, whose last part is of ordinary pages; fewer share a huge page with others."""
    if size >= HUGE_PAGE:
        return _mapping(size)
    with _lock:
        if _rest[0].nbytes < size:
            _rest[0] = _mapping(HUGE_PAGE)
        taken, _rest[0] = _rest[0][:size], _rest[0][size:]
    return taken


def _mapping(size: int) -> np.ndarray:
    """Zeros from a border of huge pages on."""
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.__array_interface__["data"][0] % HUGE_PAGE
    with suppress(OSError):  # a kernel without them answers that it has none
        memory.madvise(mmap.MADV_HUGEPAGE, start, size // HUGE_PAGE * HUGE_PAGE)
    return whole[start : start + size]


def fill_panel(panel: np.ndarray, columns: np.ndarray) -> None:
    """panel {K, NR} begins with columns {K, n}.

    Columns that lie one behind the other (the weights of torch's linear layers) are read one by one: a walk along the
    rows of the panel would read each at addresses that a cache has one place for.
    """
    if columns.shape[1] > 1 and columns.strides[0] == columns.itemsize < columns.strides[1]:
        for k in range(columns.shape[1]):
            panel[:, k] = columns[:, k]
    else:
        panel[:, : columns.shape[1]] = columns


def by_panels(packed: np.ndarray, count: int, fill: Callable[[int, int], None]) -> None:
    """`fill(begin, end)` for all of `count` panels, large ones by several threads: most of it is memory's first use."""
    threads = max(1, min(available(), count)) if packed.nbytes >= WORTH_THREADS else 1
    ends = [count * n // threads for n in range(threads + 1)]
    side_by_side(lambda part: fill(*part), pairwise(ends), threads)
