"""4-bit weights; int4.hpp states the layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from migraphx.targets.cpu.pack.panels import by_panels, zeros

PANELS = 8  # at a time: what is made of them on the way stays in a core's cache


def pack_int4_panels(
    codes: np.ndarray, block: int, nr: int, unpacked: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> np.ndarray:
    """int8 {K, N} from -8 to 7 -> bytes {ceil(N / NR), K / block, ceil(block / 4), NR / 2, 4}, as int4.hpp states.

    They are what `unpacked` makes of some columns of `codes`.
    """
    n, k = codes.shape[1], unpacked(codes[:, :1]).shape[0]
    quads, panels = -(-block // 4), -(-n // nr)
    packed = zeros((panels, k // block, quads, nr // 2, 4), np.uint8)

    def fill(begin: int, end: int) -> None:
        for at in range(begin, end, PANELS):
            some = packed[at : min(at + PANELS, end)]
            part = unpacked(codes[:, at * nr : (at + len(some)) * nr])
            wide = np.zeros((k // block, 4 * quads, len(some) * nr), np.uint8)
            np.add(part.reshape(-1, block, part.shape[1]), 8, out=wide[:, :block, : part.shape[1]], casting="unsafe")
            halves = wide.reshape(-1, quads, 4, len(some), 2, nr // 2).transpose(4, 3, 0, 1, 5, 2)
            np.bitwise_or(halves[0], halves[1] << 4, out=some)

    by_panels(packed, panels, fill)
    return packed
