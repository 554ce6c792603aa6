"""Calls that pick elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from migraphx.ir.size import hint_of
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import call_of, generated_call
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
    rows, inner = hint_of(rows), hint_of(inner)
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


BLOCK = 1024  # elements of a program that takes them one by one


def gather_elements_call(
    data: View, indices: View, write: View, status: View, axis: int, check: int, origin: str
) -> GpuCall:
    """out[o][k][i] = data[o][indices[o][k][i]][i]; row-major, the same before and behind the axis."""
    _, count, inner = around(indices.lens, axis)
    numbers = (indices.elements, count, data.lens[axis], inner, check)
    return call_of(
        "gather_elements", (as_bits(data), indices), (as_bits(write), status), numbers, {"BLOCK": BLOCK},
        blocks(indices.elements, BLOCK), "gather_elements", origin, gathers=True,
    )  # fmt: skip


def embedding_bag_call(
    data: View, indices: View, weights: View, write: View, status: View, check: int, origin: str
) -> GpuCall:
    """Sums of rows of data {batch, rows, columns} times weights; it and the result are row-major."""
    batches, bags, taps = indices.lens
    total, (_, length, width) = batches * bags, data.lens
    height, across = rows_tile(total, width, data.itemsize)
    strides = (*indices.strides, *weights.strides)
    return call_of(
        "embedding_bag", (data, indices, weights), (write, status), (total, bags, taps, width, length, check, *strides),
        {"TYPE": data.type, "ROWS": height, "COLS": across}, blocks(total, height) * blocks(width, across),
        "embedding_bag", origin,
    )  # fmt: skip


def gather_nd_call(
    data: View, indices: View, write: View, status: View, batch: int, check: int, origin: str
) -> GpuCall:
    """out[batch][tuple][..] = data[batch][index tuple][..]; row-major."""
    depth = indices.lens[-1]
    rows, tuples = math.prod(indices.lens[:-1]), math.prod(indices.lens[batch:-1])
    lens, inner = data.lens[batch : batch + depth], math.prod(data.lens[batch + depth :])
    height, width = rows_tile(rows, inner, data.itemsize)
    lines = [
        "across = tl.cdiv(inner, COLS)",
        "r = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)",
        "c = tl.program_id(0) % across * COLS + tl.arange(0, COLS)",
        "at = r // tuples",
    ]
    for d in range(depth):
        index = f"tl.load(indices + (r * {depth} + {d}), r < rows, 0)"
        lines.append(f"at = at * n{d} + checked({index}, n{d}, r < rows, status, check)")
    lines += [
        "inside = (r < rows)[:, None] & (c < inner)[None, :]",
        "found = tl.load(data + ((at * inner)[:, None] + c[None, :]), inside)",
        "tl.store(out + ((r * inner)[:, None] + c[None, :]), found, inside)",
    ]
    numbers = {
        "rows": rows,
        "tuples": tuples,
        "inner": inner,
        "check": check,
        **{f"n{d}": n for d, n in enumerate(lens)},
    }
    return generated_call(
        "gather_nd", lines, {"data": as_bits(data), "indices": indices}, {"out": as_bits(write), "status": status},
        numbers, {"ROWS": height, "COLS": width}, blocks(rows, height) * blocks(inner, width), "gathernd", origin,
        vectors=("inner",), gathers=True,
    )  # fmt: skip


def one_hot_call(indices: View, values: View, write: View, axis: int, origin: str) -> GpuCall:
    """out[..][d][..] = values[index == d]; row-major."""
    _, depth, inner = around(write.lens, axis)
    numbers = (write.elements, depth, inner)
    return call_of(
        "one_hot", (indices, as_bits(values)), (as_bits(write),), numbers, {"BLOCK": BLOCK},
        blocks(write.elements, BLOCK), "onehot", origin,
    )  # fmt: skip


def numbers_call(values: Sequence[int], write: View, origin: str) -> GpuCall:
    """Numbers of the call, stored in order."""
    lines = [f"tl.store(out + {k}, n{k})" for k in range(len(values))]
    numbers = {f"n{k}": n for k, n in enumerate(values)}
    return generated_call("sizes", lines, {}, {"out": write}, numbers, {}, 1, "sizes", origin, warps=1)
