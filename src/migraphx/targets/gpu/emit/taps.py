"""A copy of a convolution's weights in the kernels' order, at the speed of memory."""

from __future__ import annotations

from dataclasses import replace

from migraphx.ir.size import is_open
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import VECTOR, aligned
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import WIDE
from migraphx.targets.gpu.kernel import GpuCall

MOST_TAPS = 25  # which a thread holds in registers
GROUPS = 128  # of a program: a thread each


def turns_taps(weights: View) -> bool:
    """Whether `taps_call` copies these weights {OC, channels, taps}: row-major, channels in whole vectors."""
    _, channels, taps = weights.lens
    if is_open(weights.lens) or weights.moves or not (weights.standard and aligned(weights)):
        return False
    return channels % (VECTOR // weights.itemsize) == 0 and 1 < taps <= MOST_TAPS and weights.elements < WIDE


def taps_call(weights: View, packed: View, origin: str) -> GpuCall:
    """Weights {OC, channels, taps} into `packed` {OC, taps, channels}.

    A thread reads the taps of as many channels as make a vector, which are that many vectors side by side, exchanges
    elements in registers, and writes a vector of each tap.
    """
    shell, (oc, channels, taps) = Shell(), weights.lens
    bits = f"uint{8 * weights.itemsize}"
    x, wide = shell.pointer(replace(weights, type=bits)), VECTOR // weights.itemsize
    blocks, total = shell.size(channels // wide, loose=True), shell.size(oc * channels // wide, loose=True)
    lines = [
        f"at = tl.program_id(0) * {GROUPS} + tl.arange(0, {GROUPS})",
        f"inside = (at < {total})[:, None]",
        f"element = tl.arange(0, {wide})[None, :]",
        f"from_ = {x} + (at * {taps * wide})[:, None] + element",
    ]
    for v in range(taps):
        lines.append(f"x{v} = tl.load(from_ + {v * wide}, inside, 0)")
        lines += _split(f"x{v}", wide, v * wide)
    out = shell.pointer(replace(packed, type=bits))
    n = shell.size(channels, fine=True)
    lines.append(f"to = {out} + (at // {blocks} * ({taps} * {n}) + at % {blocks} * {wide})[:, None] + element")
    for t in range(taps):
        lines += _join(f"y{t}", [f"e{c * taps + t}" for c in range(wide)])
        lines.append(f"tl.store(to + {t} * {n}, y{t}, inside)")
    shell.lines += lines
    grid = (-(-oc * channels // wide // GROUPS), 1, 1)
    return shell.call("taps", grid, {}, GROUPS // 32, 1, "copy taps", origin)


def _split(name: str, wide: int, first: int) -> list[str]:
    """Lines that take a block {rows, wide} apart, into e{first}, ...: each element of a row."""
    if wide == 1:
        return [f"e{first} = {name}"]
    lines, parts = [], {(): name}
    while wide > 1:
        wide //= 2
        shape = f"[{GROUPS}, {wide}, 2]" if wide > 1 else f"[{GROUPS}, 2]"
        following: dict[tuple[int, ...], str] = {}
        for key, part in parts.items():
            low, high = f"{part}_0", f"{part}_1"
            lines.append(f"{low}, {high} = tl.split(tl.reshape({part}, {shape}))")
            following |= {(0, *key): low, (1, *key): high}
        parts = following
    lines += [f"e{first + int(''.join(map(str, key)), 2)} = {part}" for key, part in parts.items()]
    return lines


def _join(name: str, parts: list[str]) -> list[str]:
    """Lines that make `name` {rows, wide} of blocks {rows}."""
    lines, level = [], 0
    wide = 1
    while len(parts) > 1:
        half, joined = len(parts) // 2, list[str]()
        wide *= 2
        for k in range(half):
            made = f"{name}_{level}_{k}"
            lines.append(f"{made} = tl.join({parts[k]}, {parts[k + half]})")
            joined.append(made)
        parts, level = joined, level + 1
    return [*lines, f"{name} = tl.reshape({parts[0]}, [{GROUPS}, {wide}])"]
