"""Calls that write elements at indices: every update's target, then what is the first, or the last, of each target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from migraphx.ir.shape import Shape
from migraphx.ir.size import is_open
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.indexing import as_bits, rows_tile
from migraphx.targets.gpu.emit.kernel import call_of, generated_call
from migraphx.targets.gpu.emit.order import BLOCK, Sorter, Temporary
from migraphx.targets.gpu.emit.tiles import blocks, power_of_two
from migraphx.targets.gpu.kernel import GpuCall

FEW = 256  # updates that are compared all with all


def nd_targets(
    indices: View, lens: Sequence[int], keys: View, numbers: View, status: View, check: int, origin: str
) -> GpuCall:
    """The slice that each index tuple names, -1 where it is out of range; lens: those of the indexed dimensions."""
    lines = ["at = tl.zeros_like(u)", "right = u < count"]
    for d in range(len(lens)):
        index = f"tl.load(indices + (u * {len(lens)} + {d}), u < count, 0)"
        lines += [f"index, good = located({index}, n{d}, u < count, status, check)", f"at = at * n{d} + index"]
        lines.append("right = right & good")
    return _targets(lines, indices, math.prod(indices.lens[:-1]), lens, keys, numbers, status, check, origin)


def element_targets(
    indices: View, lens: Sequence[int], axis: int, keys: View, numbers: View, status: View, check: int, origin: str
) -> GpuCall:
    """The element of row-major data of these lens that each index names along the axis; -1 where it is out of range."""
    rank = len(lens)
    lines = [
        f"index, right = located(tl.load(indices + u, u < count, 0), n{axis}, u < count, status, check)",
        "rest = u",
    ]
    for d in reversed(range(rank)):
        lines += [f"d{d} = {'index' if d == axis else f'rest % m{d}'}", f"rest = rest // m{d}"]
    lines.append("at = d0")
    lines += [f"at = at * n{d} + d{d}" for d in range(1, rank)]
    more = {f"m{d}": n for d, n in enumerate(indices.lens)}
    return _targets(lines, indices, indices.elements, lens, keys, numbers, status, check, origin, more)


def _targets(
    lines: Sequence[str],
    indices: View,
    count: int,
    lens: Sequence[int],
    keys: View,
    numbers: View,
    status: View,
    check: int,
    origin: str,
    more: dict[str, int] | None = None,
) -> GpuCall:
    lines = [
        "u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        *lines,
        "tl.store(keys + u, tl.where(right, at, -1), u < count)",
        "tl.store(numbers + u, u.to(tl.int32), u < count)",
    ]
    given = {"count": count, "check": check, **{f"n{d}": n for d, n in enumerate(lens)}, **(more or {})}
    writes = {"keys": keys, "numbers": numbers, "status": status}
    constants = {"BLOCK": BLOCK}
    programs = blocks(count, BLOCK)
    return generated_call("targets", lines, {"indices": indices}, writes, given, constants, programs, "targets", origin)


def joining_calls(
    sorter: Sorter, updates: View, out: View, tuples: int, inner: int, how: str, label: str, origin: str
) -> list[GpuCall]:
    """Updates {tuples, inner} joined to out at their targets, the sorter's keys, those of one target in their order."""
    targets = sorter.keys
    calls = sorter.first(tuples)
    height, width = rows_tile(tuples, inner, out.itemsize)
    constants = {"TYPE": out.type, "UPDATE": updates.type, "HOW": how, "ROWS": height, "COLS": width}
    return [
        *calls,
        call_of(
            "join_segments", (sorter.indices, targets, updates), (out,), (tuples, inner), constants,
            blocks(tuples, height) * blocks(inner, width), label, origin, vectors=(1,),
        ),
    ]  # fmt: skip


def replacing_calls(
    targets: View, updates: View, out: View, tuples: int, inner: int, temporary: Temporary, label: str, origin: str
) -> tuple[View | None, list[GpuCall]]:
    """The last update of each target. Where there are many updates, first the view that must be filled with -1."""
    updates, out = as_bits(updates), as_bits(out)
    height, width = rows_tile(tuples, inner, out.itemsize)
    programs = blocks(tuples, height) * blocks(inner, width)
    tile = {"ROWS": height, "COLS": width}
    if tuples <= FEW:
        constants = {"FEW": FEW if is_open(tuples) else power_of_two(tuples), **tile}
        call = call_of(
            "write_last_of_few", (targets, updates), (out,), (tuples, inner), constants, programs, label, origin,
            vectors=(1,),
        )  # fmt: skip
        return None, [call]
    winners = temporary(Shape("int32", (out.elements // inner,)))
    find = call_of(
        "find_last", (targets,), (winners,), (tuples,), {"BLOCK": BLOCK}, blocks(tuples, BLOCK), label, origin
    )
    write = call_of(
        "write_last", (winners, targets, updates), (out,), (tuples, inner), tile, programs, label, origin, vectors=(1,)
    )
    return winners, [find, write]
