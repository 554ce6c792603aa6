"""Copies that bring channels and taps of a convolution into another order, at the speed of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from migraphx.ir.size import is_open
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import VECTOR, aligned
from migraphx.targets.gpu.emit.shell import Shell
from migraphx.targets.gpu.emit.tiles import WIDE, blocks
from migraphx.targets.gpu.kernel import GpuCall

MOST_TAPS = 25  # which a thread holds in registers
GROUPS = 128  # of vectors of channels: a thread each
PROGRAMS = 264  # that fill a large device: more groups are taken in turn
EACH = "for group in range(tl.program_id(0), groups, tl.num_programs(0)):"
"""The loop of programs that take what there is in turn, however many they are."""


def in_vectors(weights: View) -> bool:
    """Whether weights {OC, channels, taps} are row-major, with channels in whole vectors, and taps in registers."""
    _, channels, taps = weights.lens
    if is_open(weights.lens) or weights.moves or not (weights.standard and aligned(weights)):
        return False
    return channels % (VECTOR // weights.itemsize) == 0 and taps <= MOST_TAPS and weights.elements < WIDE


def taps_call(weights: View, packed: View, origin: str, scale: View | None = None) -> GpuCall:
    """Weights {OC, channels, taps} into `packed` {OC, taps, channels}, perhaps times `scale` {OC}, of float.

    A thread reads the taps of as many channels as make a vector, which are that many vectors side by side, exchanges
    elements in registers, and writes a vector of each tap.
    """
    oc, channels, taps = weights.lens
    type = weights.type if scale else _bits(weights).type
    shell, x, wide = _begin(replace(weights, type=type), oc * channels)
    if scale:
        factor = f"{shell.pointer(scale)} + row * {shell.stride(scale.strides[0], scale)}"
        shell.lines.append(f"factor = tl.load({factor}, row < {shell.size(oc, loose=True)}, 0)[:, None]")
    shell.lines.append(f"from_ = {x} + (at * {taps * wide})[:, None] + element")
    for v in range(taps):
        shell.lines.append(f"x{v} = tl.load(from_ + {v * wide}, inside, 0)")
        if scale:
            shell.lines.append(f'x{v} = narrow(widen(x{v}, "{type}").to(tl.float32) * factor, "{type}")')
        _split(shell, f"x{v}", [f"e{v * wide + k}" for k in range(wide)])
    out, n = shell.pointer(replace(packed, type=type)), shell.size(channels, fine=True)
    shell.lines.append(f"to = {out} + (row * ({taps} * {n}) + channel)[:, None] + element")
    for t in range(taps):
        y = _joined(shell, f"y{t}", [f"e{c * taps + t}" for c in range(wide)])
        shell.lines.append(f"tl.store(to + {t} * {n}, {y}, inside)")
    return _call(shell, oc * channels // wide, "scaled_taps" if scale else "taps", origin)


def patches_call(x: View, window: Window, patches: View, origin: str) -> GpuCall:
    """The windows of `x` {N, channels, spatial...}, channels last, as rows of `patches` {pixels, channels x taps}.

    In the order of weights {OC, channels, taps}. A thread does to a window what `taps_call` does, backwards.
    """
    axes = len(x.lens) - 2
    rows, kernel, channels = patches.lens[0], window.kernel[-axes:], x.lens[1]
    shell, p, wide = _begin(_bits(x), rows * channels)
    places, taps = ["row"], [()]
    for d in range(axes):
        taps = [(*tap, k) for tap in taps for k in range(kernel[d])]
    size: Callable[[int], str] = lambda n: shell.size(n, loose=True)  # noqa: E731
    for d in reversed(range(axes)):
        at, out = 3 - axes + d, size(window.out[3 - axes + d])
        first = f"{places[0]} % {out} * {size(window.stride[at])} - {size(window.pad[at])}"
        shell.lines += [f"first{d}, rest{d} = {first}, {places[0]} // {out}"]
        places = [f"rest{d}"]
    sizes = [size(n) for n in window.size[-axes:]]
    steps = [shell.stride(s, x) for s in (x.strides[0], *x.strides[2:])]
    dilations = [size(n) for n in window.dilation[-axes:]]
    shell.lines.append(f"image = {places[0]} * {steps[0]} + channel")
    for t, tap in enumerate(taps):
        at = [f"(first{d} + {k} * {dilations[d]})" for d, k in enumerate(tap)]
        there = " & ".join(f"({i} >= 0) & ({i} < {n})" for i, n in zip(at, sizes, strict=True))
        where = " + ".join(["image", *(f"{i} * {s}" for i, s in zip(at, steps[1:], strict=True))])
        shell.lines.append(f"x{t} = tl.load({p} + ({where})[:, None] + element, inside & ({there})[:, None], 0)")
        _split(shell, f"x{t}", [f"e{c * len(taps) + t}" for c in range(wide)])
    out = shell.pointer(_bits(patches))
    shell.lines.append(f"to = {out} + (at * {len(taps) * wide})[:, None] + element")
    for v in range(len(taps)):
        y = _joined(shell, f"y{v}", [f"e{v * wide + k}" for k in range(wide)])
        shell.lines.append(f"tl.store(to + {v * wide}, {y}, inside)")
    return _call(shell, rows * channels // wide, "patches", origin)


def _bits(view: View) -> View:
    return replace(view, type=f"uint{8 * view.itemsize}")


def _begin(x: View, elements: int) -> tuple[Shell, str, int]:
    """A shell whose threads stand at a vector of channels of a row each; the pointer to `x`, a vector's elements."""
    shell, wide, channels = Shell(), VECTOR // x.itemsize, x.lens[1]
    pointer = shell.pointer(x)
    each, total = shell.size(channels // wide, loose=True), shell.size(elements // wide, loose=True)
    shell.lines += [
        f"at = group * {GROUPS} + tl.arange(0, {GROUPS})",
        f"inside = (at < {total})[:, None]",
        f"element = tl.arange(0, {wide})[None, :]",
        f"row, channel = at // {each}, at % {each} * {wide}",
    ]
    return shell, pointer, wide


def _call(shell: Shell, threads: int, name: str, origin: str) -> GpuCall:
    groups = blocks(threads, GROUPS)
    shell.lines = [f"groups = {shell.size(groups, loose=True)}", EACH, *(f"    {line}" for line in shell.lines)]
    grid = (min(groups, PROGRAMS), 1, 1)
    return shell.call(name, grid, {}, GROUPS // 32, 1, f"copy {name.replace('_', ' ')}", origin)


def _split(shell: Shell, block: str, names: Sequence[str]) -> None:
    """Give each element of the rows of a block {rows, as many} its name."""
    parts, wide = [block], len(names)
    while wide > 1:
        wide //= 2
        shape, halves = f"[{GROUPS}, {wide}, 2]" if wide > 1 else f"[{GROUPS}, 2]", list[list[str]]()
        for part in parts:
            low, high = halves_of = [f"{part}_0", f"{part}_1"]
            shell.lines.append(f"{low}, {high} = tl.split(tl.reshape({part}, {shape}))")
            halves.append(halves_of)
        parts = [low for low, _ in halves] + [high for _, high in halves]
    shell.lines += [f"{name} = {part}" for name, part in zip(names, parts, strict=True)]


def _joined(shell: Shell, name: str, parts: Sequence[str]) -> str:
    """The name of a block {rows, as many} of these blocks {rows}."""
    wide, level = len(parts), 0
    while len(parts) > 1:
        half, made = len(parts) // 2, list[str]()
        for k in range(half):
            made.append(f"{name}_{level}_{k}")
            shell.lines.append(f"{made[-1]} = tl.join({parts[k]}, {parts[k + half]})")
        parts, level = made, level + 1
    shell.lines.append(f"{name} = tl.reshape({parts[0]}, [{GROUPS}, {wide}])")
    return name
