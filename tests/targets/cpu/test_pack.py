"""Packed weights: where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from migraphx.targets.cpu.pack.conv import pack_conv, pack_depthwise
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.int4 import pack_int4_panels
from migraphx.targets.cpu.pack.vnni import pack_vnni
from migraphx.targets.cpu.pack.winograd import pack_winograd

PACKED = {
    "dot": lambda: pack_dot(np.ones((300, 70), np.float32), 32),
    "double": lambda: pack_dot(np.ones((300, 70)), 32),
    "conv": lambda: pack_conv(np.ones((70, 8, 3, 3), np.float32), 2, 32),
    "winograd": lambda: pack_winograd(np.ones((70, 16, 3, 3), np.float32), 32),
    "depthwise": lambda: pack_depthwise(np.ones((70, 1, 3, 3), np.float32)),
    "words": lambda: pack_vnni(np.ones((1, 64, 70), np.int8), 32),
    "int4": lambda: pack_int4_panels(np.ones((64, 70), np.int8), 32),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_begin_at_a_cache_line(name: str) -> None:
    """Of several sizes of block that the allocator hands out, all: it promises 16 bytes only."""
    for _ in range(3):
        packed = PACKED[name]()
        assert packed.ctypes.data % 64 == 0 and packed.flags.c_contiguous
