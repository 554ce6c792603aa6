"""Weights of products; gemm.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.pack.panels import by_panels, zeros


def pack_dot(b: np.ndarray, nr: int) -> np.ndarray:
    """{K, N} -> {ceil(N / NR), K, NR}, zeros past N."""
    k, n = b.shape
    panels = -(-n // nr)
    packed = zeros((panels, k, nr), b.dtype)
    whole = n // nr

    def fill(begin: int, end: int) -> None:
        columns = b[:, begin * nr : end * nr]
        packed[begin:end] = columns.reshape(k, end - begin, nr).transpose(1, 0, 2)

    by_panels(packed, whole, fill)
    if whole < panels:
        packed[whole, :, : n - whole * nr] = b[:, whole * nr :]
    return packed
