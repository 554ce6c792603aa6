"""Packed weights: where they lie."""

from __future__ import annotations

import errno
import mmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from migraphx.ops.quantize import PackInt4, UnpackInt4
from migraphx.targets.cpu.pack import panels
from migraphx.targets.cpu.pack.conv import pack_conv, pack_depthwise
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.int4 import pack_int4_panels
from migraphx.targets.cpu.pack.vnni import pack_vnni
from migraphx.targets.cpu.pack.winograd import pack_winograd, pack_winograd_taps

PACKED = {
    "dot": lambda: pack_dot(np.ones((300, 70), np.float32), 32),
    "double": lambda: pack_dot(np.ones((300, 70)), 32),
    "conv": lambda: pack_conv(np.ones((70, 8, 3, 3), np.float32), 2, 32),
    "winograd": lambda: pack_winograd(np.ones((70, 16, 3, 3), np.float32), 32),
    "winograd taps": lambda: pack_winograd_taps(np.ones((70, 16, 3, 3), np.float32), 32),
    "depthwise": lambda: pack_depthwise(np.ones((70, 1, 3, 3), np.float32)),
    "words": lambda: pack_vnni(np.ones((1, 64, 70), np.int8), 32),
    "int4": lambda: pack_int4_panels(np.ones((64, 70), np.int8), 32, 32),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_begin_at_a_cache_line(name: str) -> None:
    """Of several sizes of block that the allocator hands out, all: it promises 16 bytes only."""
    for _ in range(3):
        packed = PACKED[name]()
        assert packed.ctypes.data % 64 == 0 and packed.flags.c_contiguous


@pytest.mark.parametrize("lens", [(64, 70), (63, 32), (1, 5), (130, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_same_whatever_the_order_in_memory(lens: tuple[int, int], turned: bool) -> None:
    """{K, N} and torch's {N, K}, against the layouts as gemm.hpp and quant.hpp state them."""
    (k, n), words = lens, np.random.default_rng(1).integers(0, 1 << 15, lens).astype(np.uint16)
    weights = np.ascontiguousarray(words.T).T if turned else words
    padded = np.zeros((k + k % 2, -(-n // 32) * 32), np.uint16)
    padded[:k, :n] = words
    np.testing.assert_array_equal(
        pack_dot(weights.astype(np.float32), 32).transpose(1, 0, 2).reshape(k, -1), padded[:k].astype(np.float32)
    )
    pairs = pack_vnni(weights.view(ml_dtypes.bfloat16)[None], 32).view(np.uint16).reshape(-1, 32, 2)
    panels = pairs.reshape(padded.shape[1] // 32, -1, 32, 2)[:, 1 : 1 + len(padded) // 2]
    np.testing.assert_array_equal(panels.transpose(1, 3, 0, 2).reshape(padded.shape), padded)


@pytest.mark.parametrize(("k", "n", "block"), [(64, 300, 32), (12, 35, 6), (32, 5, 32)])
@pytest.mark.parametrize("shared", [False, True])
def test_codes_of_4_bits(monkeypatch: pytest.MonkeyPatch, k: int, n: int, block: int, shared: bool) -> None:
    """Against the layout that int4.hpp states, number by number; of bytes of two codes each, and by several threads."""
    if shared:
        monkeypatch.setattr(panels, "WORTH_THREADS", 1)
        monkeypatch.setattr(panels, "available", lambda: 3)
    nr, codes = 16, np.random.default_rng(2).integers(-8, 8, (k, n)).astype(np.int8)
    want = np.zeros((-(-n // nr), k // block, -(-block // 4), nr // 2, 4), np.uint8)
    for row, col in np.ndindex(k, n):
        within, number = divmod(col % nr, nr // 2)
        place = col // nr, row // block, row % block // 4, number, row % block % 4
        want[place] |= (codes[row, col] + 8) << 4 * within
    np.testing.assert_array_equal(pack_int4_panels(codes, block, nr), want)
    joined = PackInt4(axis=0).compute(codes)
    np.testing.assert_array_equal(pack_int4_panels(joined, block, nr, UnpackInt4(axis=0).compute), want)


@pytest.mark.parametrize("size", [panels.WORTH_PAGES, panels.HUGE_PAGE + 24])
def test_zeros_where_the_kernel_has_no_huge_pages(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    class Mapping(mmap.mmap):
        def madvise(self, *range: Any) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(panels.mmap, "mmap", Mapping)
    monkeypatch.setattr(panels, "_rest", [np.empty(0, np.uint8)])
    made = panels.zeros((size // 8,), np.float64)
    assert made.shape == (size // 8,) and not made.any() and made.ctypes.data % panels.LINE == 0
    made[:] = 1
    assert made.sum() == size // 8
