"""Weights of products; gemm.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.pack.panels import by_panels, fill_panel, zeros


def pack_dot(b: np.ndarray, nr: int) -> np.ndarray:
    """{K, N} -> {ceil(N / NR), K, NR}, zeros past N."""
    k, n = b.shape
    panels = -(-n // nr)
    packed = zeros((panels, k, nr), b.dtype)

    def fill(begin: int, end: int) -> None:
        for p in range(begin, end):
            fill_panel(packed[p], b[:, p * nr : (p + 1) * nr])

    by_panels(packed, panels, fill)
    return packed
