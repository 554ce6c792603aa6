"""4-bit weights; int4.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.pack.panels import zeros


def pack_int4_panels(codes: np.ndarray, block: int, nr: int) -> np.ndarray:
    """int8 {K, N} from -8 to 7 -> bytes {ceil(N / NR), K / block, ceil(block / 4), NR / 2, 4}, as int4.hpp states."""
    k, n = codes.shape
    quads, panels = -(-block // 4), -(-n // nr)
    wide = np.zeros((k // block, 4 * quads, panels * nr), np.uint8)
    np.add(codes.reshape(-1, block, n), 8, out=wide[:, :block, :n], casting="unsafe")
    halves = wide.reshape(-1, quads, 4, panels, 2, nr // 2).transpose(4, 3, 0, 1, 5, 2)
    packed = zeros(halves.shape[1:], np.uint8)
    np.bitwise_or(halves[0], halves[1] << 4, out=packed)
    return packed
