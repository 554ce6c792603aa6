"""Weights as the kernels read them, in panels of NR = `nr` columns; gemm.hpp and conv.hpp state the layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import DTypeLike

from migraphx.targets.cpu.headers import constant, real
from migraphx.targets.cpu.threads import available

TILE_WORDS = constant("TILE_WORDS", "quant.hpp")  # the depth is padded to whole AMX tiles
LINE = 64  # bytes of a cache line: a vector that crosses one is loaded at half the speed
WORTH_THREADS = 1 << 20  # bytes


def zeros(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def by_panels(packed: np.ndarray, count: int, fill: Callable[[int, int], None]) -> None:
    """`fill(begin, end)` for all of `count` panels, large ones by several threads: most of it is memory's first use."""
    threads = min(available(), count) if packed.nbytes >= WORTH_THREADS else 1
    if threads <= 1:
        fill(0, count)
        return
    ends = [count * n // threads for n in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, ends[:-1], ends[1:]))


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


def pack_depthwise(w: np.ndarray) -> np.ndarray:
    """{C, 1, spatial...} -> {spatial..., C}."""
    by_channel = np.moveaxis(w[:, 0], 0, -1)
    packed = zeros(by_channel.shape, w.dtype)
    packed[...] = by_channel
    return packed


def pack_words(w: np.ndarray, nr: int) -> np.ndarray:
    """int8 or bf16 {groups, depth, N} -> words {groups * ceil(N / NR), 1 + Q, NR}, as quant.hpp states.

    Words of int8 are int32, those of bf16 float, as their sums are.
    """
    groups, depth, n = w.shape
    each = 4 // w.itemsize
    panels, words = -(-n // nr), -(-depth // (each * TILE_WORDS)) * TILE_WORDS
    packed = zeros((groups, panels, 1 + words, nr), np.int32 if w.dtype == np.int8 else np.float32)
    parts = packed.view(w.dtype).reshape(groups, panels, 1 + words, nr, each)

    def fill(begin: int, end: int) -> None:
        for group, p in (divmod(at, panels) for at in range(begin, end)):
            columns = w[group, :, p * nr : (p + 1) * nr]
            for first in range(each):
                part = columns[first::each]
                parts[group, p, 1 : 1 + len(part), : part.shape[1], first] = part
            if w.dtype == np.int8:
                packed[group, p, 0, : columns.shape[1]] = -128 * columns.sum(0, dtype=np.int32)

    by_panels(packed, groups * panels, fill)
    return packed.reshape(groups * panels, 1 + words, nr)


def pack_word_conv(w: np.ndarray, group: int, nr: int) -> np.ndarray:
    """int8 or bf16 {OC, IC / g, spatial...}, its channels padded to whole words, packed for a convolution in `group`
    groups."""
    oc, icg, *spatial = w.shape
    each = 4 // w.itemsize
    wide = np.zeros((oc, -(-icg // each) * each, *spatial), w.dtype)
    wide[:, :icg] = w
    depth = np.moveaxis(wide, 1, -1).reshape(group, oc // group, -1)
    return pack_words(depth.transpose(0, 2, 1), nr)


def pack_int4_panels(codes: np.ndarray, nr: int) -> np.ndarray:
    """int8 {K, N} from -8 to 7 -> bytes {ceil(N / NR), K, NR / 2}, as int4.hpp states."""
    k, n = codes.shape
    wide = np.full((k, -(-n // nr) * nr), 8, np.uint8)
    wide[:, :n] = (codes + np.int8(8)).view(np.uint8)
    pairs = wide.reshape(k, -1, 2, nr // 2).transpose(1, 0, 2, 3)
    packed = zeros((pairs.shape[0], k, nr // 2), np.uint8)
    np.bitwise_or(pairs[:, :, 0], pairs[:, :, 1] << 4, out=packed)
    return packed
