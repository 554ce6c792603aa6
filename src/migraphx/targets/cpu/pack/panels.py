"""Memory of packed weights, and the threads that fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import DTypeLike

from migraphx.targets.cpu.threads import available

LINE = 64  # bytes of a cache line: a vector that crosses one is loaded at half the speed
WORTH_THREADS = 1 << 20  # bytes


def zeros(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


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
    threads = min(available(), count) if packed.nbytes >= WORTH_THREADS else 1
    if threads <= 1:
        fill(0, count)
        return
    ends = [count * n // threads for n in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, ends[:-1], ends[1:]))
