"""Calls that pick elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import call_of
from migraphx.targets.gpu.emit.tiles import PROGRAMS, blocks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall


def around(lens: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before the axis, along it, and behind it."""
    return math.prod(lens[:axis]), lens[axis], math.prod(lens[axis + 1 :])


def as_bits(view: View) -> View:
    """The view's elements as the bits that they are."""
    return replace(view, type=f"uint{8 * view.itemsize}")


def rows_tile(rows: int, inner: int, itemsize: int) -> tuple[int, int]:
    """The height and the width of a program's tile of rows of `inner` contiguous elements."""
    block = max(256, 4096 // itemsize)
    while block > 128 and rows * inner < PROGRAMS * block:
        block //= 2
    width = min(power_of_two(inner), block)
    return max(1, min(block // width, power_of_two(rows))), width


def gather_call(data: View, index: View, write: View, status: View, axis: int, check: int, origin: str = "") -> GpuCall:
    """out[o][i][..] = data[o][index[i]][..] along an axis, for as many indices as `index` has; all row-major."""
    outer, length, inner = around(data.lens, axis)
    rows = outer * index.elements
    height, width = rows_tile(rows, inner, data.itemsize)
    programs = blocks(rows, height) * blocks(inner, width)
    return call_of(
        "gather", (as_bits(data), index), (as_bits(write), status), (rows, index.elements, length, inner, check),
        {"ROWS": height, "COLS": width}, programs, "gather", origin, vectors=(3,), gathers=True,
    )  # fmt: skip
