"""Weights as the kernels read them; the layouts are stated in gemm.hpp and conv.hpp."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.toolchain import lanes


def panel() -> int:
    """Columns of one panel: NR of gemm.hpp."""
    return 2 * lanes()


def pack_dot(b: np.ndarray) -> np.ndarray:
    """{K, N} -> {ceil(N / NR), K, NR}, zeros past N."""
    k, n = b.shape
    nr = panel()
    panels = -(-n // nr)
    packed = np.zeros((panels, k, nr), b.dtype)
    whole = n // nr
    packed[:whole] = b[:, : whole * nr].reshape(k, whole, nr).transpose(1, 0, 2)
    if whole < panels:
        packed[whole, :, : n - whole * nr] = b[:, whole * nr :]
    return packed


def pack_conv(w: np.ndarray, group: int) -> np.ndarray:
    """{OC, IC / g, spatial...} -> {g, ceil(OC / g / NR), spatial..., IC / g, NR}, zeros past OC / g."""
    oc, icg, *spatial = w.shape
    nr, ocg = panel(), oc // group
    panels = -(-ocg // nr)
    packed = np.zeros((group, panels, *spatial, icg, nr), w.dtype)
    by_group = w.reshape(group, ocg, icg, *spatial)
    for p in range(panels):
        part = by_group[:, p * nr : (p + 1) * nr]
        packed[:, p, ..., : part.shape[1]] = np.moveaxis(np.moveaxis(part, 1, -1), 1, -2)
    return packed


def _winograd_transform() -> np.ndarray:
    """G of F(4x4, 3x3) for the points 0, p, -p, q, -q and infinity of winograd.hpp."""
    p, q = 5 / 8, 3 / 2
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


def pack_winograd(w: np.ndarray) -> np.ndarray:
    """{OC, IC, 3, 3} -> {36, ceil(OC / NR), IC, NR}: G w G^T, each of its 36 places packed as a dot's weights."""
    oc, ic, *_ = w.shape
    nr = panel()
    panels = -(-oc // nr)
    padded = np.zeros((panels * nr, ic, 9), np.float32)
    padded[:oc] = w.reshape(oc, ic, 9)
    taps = padded.reshape(panels, nr, ic, 9).transpose(3, 0, 2, 1).reshape(9, -1)
    transform = np.kron(WINOGRAD_G, WINOGRAD_G).astype(np.float32)  # {36, 9}: both sides in one product
    return (transform @ taps).reshape(36, panels, ic, nr)


def pack_depthwise(w: np.ndarray) -> np.ndarray:
    """{C, 1, spatial...} -> {spatial..., C}."""
    return np.ascontiguousarray(np.moveaxis(w[:, 0], 0, -1))
