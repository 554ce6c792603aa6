"""Weights of convolutions; conv.hpp states the layouts."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.pack.panels import by_panels, zeros


def pack_conv(w: np.ndarray, group: int, nr: int) -> np.ndarray:
    """{OC, IC / g, spatial...} -> {g, ceil(OC / g / NR), spatial..., IC / g, NR}, zeros past OC / g."""
    oc, icg, *spatial = w.shape
    ocg = oc // group
    panels = -(-ocg // nr)
    packed = zeros((group, panels, *spatial, icg, nr), w.dtype)
    by_group = w.reshape(group, ocg, icg, *spatial)

    def fill(begin: int, end: int) -> None:
        for p in range(begin, end):
            part = by_group[:, p * nr : (p + 1) * nr]
            packed[:, p, ..., : part.shape[1]] = np.moveaxis(np.moveaxis(part, 1, -1), 1, -2)

    by_panels(packed, panels, fill)
    return packed


def pack_planar(w: np.ndarray, nr: int) -> np.ndarray:
    """{OC, IC, KH, KW} -> {ceil(OC / NR), KH, IC, KW, NR}, zeros past OC."""
    oc, ic, rows, columns = w.shape
    panels = -(-oc // nr)
    packed = zeros((panels, rows, ic, columns, nr), w.dtype)
    for p in range(panels):
        part = w[p * nr : (p + 1) * nr]
        packed[p, ..., : len(part)] = part.transpose(2, 1, 3, 0)
    return packed


def pack_depthwise(w: np.ndarray) -> np.ndarray:
    """{C, G, spatial...} -> {spatial..., G, C}, G channels a group."""
    by_channel = np.moveaxis(w, (0, 1), (-1, -2))
    packed = zeros(by_channel.shape, w.dtype)
    packed[...] = by_channel
    return packed
