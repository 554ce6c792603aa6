"""Weights of 3x3 convolutions by Winograd; winograd.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.headers import real
from migraphx.targets.cpu.pack.panels import zeros


def _winograd_transform() -> np.ndarray:
    """G of F(4x4, 3x3) for the points 0, p, -p, q, -q and infinity of winograd.hpp."""
    p, q = (real(name, "winograd.hpp") for name in ("P1", "Q1"))
    i, j = 2 * p**2 * (p**2 - q**2), 2 * q**2 * (q**2 - p**2)
    return np.array(
        [
            [1 / (p * q) ** 2, 0, 0],
            [1 / i, p / i, p**2 / i],
            [1 / i, -p / i, p**2 / i],
            [1 / j, q / j, q**2 / j],
            [1 / j, -q / j, q**2 / j],
            [0, 0, 1],
        ]
    )


WINOGRAD_G = _winograd_transform()


def pack_winograd(w: np.ndarray, nr: int) -> np.ndarray:
    """{OC, IC, 3, 3} -> {36, ceil(OC / NR), IC, NR}: G w G^T, each of its 36 places packed as a dot's weights."""
    oc, ic, *_ = w.shape
    panels = -(-oc // nr)
    padded = np.zeros((panels * nr, ic, 9), np.float32)
    padded[:oc] = w.reshape(oc, ic, 9)
    taps = padded.reshape(panels, nr, ic, 9).transpose(3, 0, 2, 1).reshape(9, -1)
    transform = np.kron(WINOGRAD_G, WINOGRAD_G).astype(np.float32)  # {36, 9}: both sides in one product
    packed = zeros((36, panels, ic, nr), np.float32)
    np.matmul(transform, taps, out=packed.reshape(36, -1))
    return packed
