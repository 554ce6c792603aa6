"""4-bit weights; int4.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.pack.panels import zeros


def pack_int4_panels(codes: np.ndarray, nr: int) -> np.ndarray:
    """int8 {K, N} from -8 to 7 -> bytes {ceil(N / NR), K, NR / 2}, as int4.hpp states."""
    k, n = codes.shape
    wide = np.full((k, -(-n // nr) * nr), 8, np.uint8)
    wide[:, :n] = (codes + np.int8(8)).view(np.uint8)
    pairs = wide.reshape(k, -1, 2, nr // 2).transpose(1, 0, 2, 3)
    packed = zeros((pairs.shape[0], k, nr // 2), np.uint8)
    np.bitwise_or(pairs[:, :, 0], pairs[:, :, 1] << 4, out=packed)
    return packed
