"""Pooling: shells round kernels/pooling.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from migraphx.ir import dtype as dtypes
from migraphx.ir.size import hint_of, note_class
from migraphx.ops.pooling import lowest
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.contract import finish
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.spatial import window_texts
from migraphx.targets.gpu.emit.tiles import WIDE, power_of_two, span
from migraphx.targets.gpu.kernel import GpuCall

TILE = 2048  # elements of a program
MANY_TAPS = 16  # from which on a window that is the whole image is divided among lanes
GLOBAL_TILE = 4096


@dataclass(frozen=True)
class Pool:
    """Pooling of `x` {N, C, spatial...}, channels last; `behind`: padding behind each spatial axis."""

    x: View
    window: Window
    behind: Sequence[int]
    mode: str
    order: int
    count_pad: bool


def pool_call(pool: Pool, write: View, origin: str = "") -> GpuCall:
    """Into `write` {N, C, spatial...}."""
    x = pool.x
    if x.type == "bool":  # the larger byte
        x, write = (replace(v, type="uint8") for v in (x, write))
    rank, window = len(write.lens), pool.window
    epilogue = Epilogue(None, (None,), write, (0, *range(2, rank)), 1)
    whole = window.kernel == window.size and set(window.out) == {1} and not any((*window.pad, *pool.behind))
    shell = Shell()
    p, cols = shell.pointer(x), shell.size(x.lens[1])
    pixel = shell.size(x.strides[-1], span(x) > WIDE)
    compute = dtypes.accumulator(x.type)
    least = lowest(compute)
    low = 'float("-inf")' if compute.kind == "f" else str(int(least))
    kind = f'"{x.type}", "{pool.mode}", {pool.order}, {low}'
    rows = x.lens[0] * prod(window.out)
    if whole and prod(window.kernel) >= MANY_TAPS:
        width = min(power_of_two(x.lens[1]), 64)
        pixels = shell.size(prod(window.kernel), loose=True)
        shell.lines += [
            f"tiles_n = tl.cdiv({cols}, BN)",
            "row = tl.program_id(0) // tiles_n + tl.arange(0, 1)",
            "col = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)",
            f"acc = global_pooling_sums({p}, tl.program_id(0) // tiles_n, col, {cols}, {pixels}, {pixel}, {kind}, BT)",
            f"rows_in, cols_in = row >= 0, col < {cols}",
        ]
        constants = {"BN": width, "BT": GLOBAL_TILE // width}
        programs = x.lens[0] * -(-x.lens[1] // width)
    else:
        lines, across = rows // window.out[2], window.out[2]
        note_class(across)
        width = min(power_of_two(x.lens[1]), 128)
        height = min(TILE // width, power_of_two(hint_of(across)))
        m = shell.size(across, loose=True)
        lead = 3 - len(pool.behind)
        ends = ", ".join(["0"] * lead + [shell.size(e, loose=True) for e in pool.behind])
        k0, k1, k2 = window.kernel
        numbers = f"{ends}, {', '.join(window_texts(shell, window, x).values())}, {k0}, {k1}, {k2}"
        plain = (
            x.type in ("half", "bf16", "float", "double") or x.type in dtypes.INTEGERS - dtypes.NARROW_INTEGERS.keys()
        )
        shell.lines += [
            f"tiles_n, tiles_m = tl.cdiv({cols}, BN), tl.cdiv({m}, BM)",
            "line = tl.program_id(0) // tiles_n // tiles_m",
            "place = tl.program_id(0) // tiles_n % tiles_m * BM + tl.arange(0, BM)",
            "col = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)",
            f"acc = pooling_sums({p}, line, place, col, {cols}, {pixel}, {numbers}, {kind}, {pool.count_pad}, {plain})",
            f"row, rows_in, cols_in = line * {m} + place, place < {m}, col < {cols}",
        ]
        constants = {"BM": height, "BN": width}
        programs = lines * -(-across // height) * -(-x.lens[1] // width)
    finish(shell, epilogue, write.type)
    return shell.call("pooling", (programs, 1, 1), constants, 4, 1, "pooling", origin)
