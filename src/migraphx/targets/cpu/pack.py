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
