"""Calls that compare elements along an axis."""

from __future__ import annotations

from collections.abc import Callable

from migraphx.ir.shape import Shape
from migraphx.ir.size import hint_of, note_class
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.indexing import around, as_bits
from migraphx.targets.gpu.emit.kernel import call_of, generated_call
from migraphx.targets.gpu.emit.tiles import PROGRAMS, blocks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall

BLOCK = 1024  # elements that a program takes one by one
WIDEST = 2048  # elements of a row that it takes at once
CHUNK = 512  # elements that are compared all with all
STEP = 16  # of these at once

Temporary = Callable[[Shape], View]


def _rows_tile(rows: int, length: int) -> tuple[int, int, int]:
    """The height and the width of a tile that walks along rows, and its warps: all of a processor for few long rows.

    Right at all lengths, and quick at those at hand.
    """
    note_class(rows)
    note_class(length)
    rows, length = hint_of(rows), hint_of(length)
    if blocks(rows, 1) < PROGRAMS and length > 4 * WIDEST:
        return 1, 4 * WIDEST, 16
    width = min(power_of_two(length), WIDEST)
    height = max(1, 1024 // width)
    while height > 1 and blocks(rows, height) < PROGRAMS:
        height //= 2
    return height, width, 4


def arg_extreme_call(view: View, write: View, axis: int, largest: bool, last: bool, label: str, origin: str) -> GpuCall:
    """The index of the largest, or smallest, along an axis; row-major."""
    outer, length, inner = around(view.lens, axis)
    rows = outer * inner
    height, width, warps = _rows_tile(rows, length)
    constants = {"TYPE": view.type, "LARGEST": largest, "LAST": last, "ROWS": height, "COLS": width}
    return call_of(
        "arg_extreme", (view,), (write,), (rows, length, inner), constants, blocks(rows, height), label, origin,
        warps=warps, vectors=(1,),
    )  # fmt: skip


def prefix_sum_call(view: View, write: View, axis: int, exclusive: bool, reverse: bool, origin: str) -> GpuCall:
    """Running sums along an axis; row-major."""
    outer, length, inner = around(view.lens, axis)
    rows = outer * inner
    height, width, warps = _rows_tile(rows, length)
    constants = {"TYPE": view.type, "EXCLUSIVE": exclusive, "REVERSE": reverse, "ROWS": height, "COLS": width}
    return call_of(
        "prefix_sum", (view,), (write,), (rows, length, inner), constants, blocks(rows, height), "prefix_scan_sum",
        origin, warps=warps, vectors=(1,),
    )  # fmt: skip


def topk_calls(
    view: View, values: View, places: View, axis: int, k: int, largest: bool, temporary: Temporary, origin: str
) -> list[GpuCall]:
    """The k largest, or smallest, in order, and their indices; row-major."""
    outer, length, inner = around(view.lens, axis)
    rows = outer * inner
    total = rows * length
    wide = view.itemsize == 8 or view.type == "uint32"
    sorter = Sorter(rows, length, "int64" if wide else "int32", temporary, origin)
    constants = {"TYPE": view.type, "LARGEST": largest, "BLOCK": BLOCK}
    calls = [
        call_of(
            "first_keys", (view,), (sorter.keys, sorter.indices), (total, length, inner), constants,
            blocks(total, BLOCK), "topk", origin,
        )
    ]  # fmt: skip
    calls += sorter.first(k)
    made = rows * k
    calls.append(
        call_of(
            "picked", (as_bits(view), sorter.indices), (as_bits(values), places),
            (made, length, inner, k, sorter.length), {"BLOCK": BLOCK}, blocks(made, BLOCK), "topk", origin,
        )
    )  # fmt: skip
    return calls


class Sorter:
    """Keys and indices {rows, length} on their way into order."""

    def __init__(self, rows: int, length: int, type: str, temporary: Temporary, origin: str) -> None:
        self.rows, self.length, self.type = rows, length, type
        self.temporary, self.origin = temporary, origin
        self.keys, self.indices = self._memory(length)

    def _memory(self, length: int) -> tuple[View, View]:
        lens = (self.rows, length)
        return self.temporary(Shape(self.type, lens)), self.temporary(Shape("int32", lens))

    def first(self, k: int) -> list[GpuCall]:
        """Calls after which the first k of each row are in order.

        Where few are wanted they are chosen among chunks again and again, else chunks that are in order are merged.
        """
        calls = []
        if 4 * k <= CHUNK:
            calls.append(self._select(min(k, self.length)))
            while self.length > k:
                calls.append(self._select(k))
            return calls
        calls.append(self._select(CHUNK))
        run = CHUNK
        while run < self.length:
            calls.append(self._merge(run))
            run *= 2
        return calls

    def _select(self, k: int) -> GpuCall:
        width = max(min(CHUNK, power_of_two(self.length)), STEP)
        chunks = blocks(self.length, width)
        last = self.length - (chunks - 1) * width
        share = (chunks - 1) * min(k, width) + min(k, last)
        keys, indices = self._memory(share)
        numbers = (self.length, chunks, min(k, width), share)
        constants = {"COLS": width, "STEP": STEP}
        call = call_of(
            "select", (self.keys, self.indices), (keys, indices), numbers, constants, self.rows * chunks, "topk",
            self.origin,
        )  # fmt: skip
        self.keys, self.indices, self.length = keys, indices, share
        return call

    def _merge(self, run: int) -> GpuCall:
        keys, indices = self._memory(self.length)
        total, steps = self.rows * self.length, run.bit_length()
        call = call_of(
            "merge", (self.keys, self.indices), (keys, indices), (total, self.length, run, steps), {"BLOCK": BLOCK},
            blocks(total, BLOCK), "topk", self.origin,
        )  # fmt: skip
        self.keys, self.indices = keys, indices
        return call


def nonzero_calls(view: View, write: View, temporary: Temporary, origin: str) -> list[GpuCall]:
    """The coordinates of the elements that are not 0, into the columns of {rank, elements}, which hold zeros."""
    count = view.elements
    programs = blocks(count, BLOCK)
    counts, before = (temporary(Shape("int64", (programs,))) for _ in "ab")
    constants = {"TYPE": view.type, "BLOCK": BLOCK}
    calls = [
        call_of("count_nonzero", (view,), (counts,), (count,), constants, programs, "nonzero", origin),
        prefix_sum_call(counts, before, 0, True, False, origin),
    ]
    lines = ["at, found, place = nonzero_places(x, before, count, TYPE, BLOCK)"]
    numbers = {"count": count}
    for d in reversed(range(len(view.lens))):
        numbers[f"n{d}"] = view.lens[d]
        lines.append(f"tl.store(out + ({d} * count.to(tl.int64) + place), at % n{d}, found)")
        lines.append(f"at = at // n{d}")
    reads = {"x": view, "before": before}
    calls.append(
        generated_call("nonzero", lines, reads, {"out": write}, numbers, constants, programs, "nonzero", origin)
    )
    return calls
