"""Weights of 3x3 convolutions by Winograd; winograd.hpp states the layout."""

from __future__ import annotations

import numpy as np

from migraphx.targets.cpu.headers import constant, real
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
    """{OC, IC, [K,] 3, 3} -> {36, ceil(OC / NR), K IC, NR}: G w G^T, each of 36 places packed as a dot's weights."""
    oc, ic, *_ = w.shape
    frames = w.size // (oc * ic * 9)
    panels, depth = -(-oc // nr), frames * ic
    padded = np.zeros((panels * nr, depth, 9), np.float32)
    padded[:oc] = w.reshape(oc, ic, frames, 9).swapaxes(1, 2).reshape(oc, depth, 9)
    taps = padded.reshape(panels, nr, depth, 9).transpose(3, 0, 2, 1).reshape(9, -1)
    transform = np.kron(WINOGRAD_G, WINOGRAD_G).astype(np.float32)  # {36, 9}: both sides in one product
    packed = zeros((36, panels, depth, nr), np.float32)
    np.matmul(transform, taps, out=packed.reshape(36, -1))
    return packed


TAPS_DEPTH = constant("TAPS_DEPTH", "winograd.hpp")


def pack_winograd_taps(w: np.ndarray, nr: int) -> np.ndarray:
    """{OC, IC, 3, 3} -> {IC / TAPS_DEPTH, ceil(OC / NR), TAPS_DEPTH, 9, NR}, the last part of IC as long as it is."""
    oc, ic, *_ = w.shape
    panels = -(-oc // nr)
    packed = zeros((ic, panels, 9 * nr), np.float32)
    for first in range(0, ic, TAPS_DEPTH):
        part = packed[first : first + TAPS_DEPTH]
        to = part.reshape(panels, len(part), 9, nr)
        for p in range(panels):
            columns = w[p * nr : (p + 1) * nr, first : first + len(part)]
            to[p, ..., : len(columns)] = columns.reshape(len(columns), -1, 9).transpose(1, 2, 0)
    return packed


WORDS_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int16)  # 2 G of winograd_words.hpp


def pack_winograd_words(w: np.ndarray, nr: int) -> np.ndarray:
    """int8 {OC, IC, 3, 3} -> lanes of int32 {16, ceil(OC / NR), IC / 2, NR}: 4 G w G^T, two channels of int16 a lane.

    IC is padded to whole words, of four.
    """
    oc, ic, *_ = w.shape
    panels, words = -(-oc // nr), -(-ic // 4)
    packed = zeros((16, panels, 2 * words, nr), np.int32)
    parts = packed.view(np.int16).reshape(16, panels, 2 * words, nr, 2)
    transform = np.kron(WORDS_G, WORDS_G)
    for p in range(panels):
        taps = w[p * nr : (p + 1) * nr].reshape(-1, 9).T.astype(np.int16)
        places = np.matmul(transform, taps).reshape(16, -1, ic)
        for first in (0, 1):
            part = places[:, :, first::2].transpose(0, 2, 1)
            parts[:, p, : part.shape[1], : part.shape[2], first] = part
    return packed
