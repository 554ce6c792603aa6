"""Candidates for convolutions, and how long each takes: products whose rows are windows."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Protocol

from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.products import (
    FINISH,
    LATENCY,
    LAUNCH,
    LEAST_STEPS,
    SPLITS,
    library_cost,
    product_cost,
    smallest,
    ways,
)
from migraphx.targets.gpu.facts import Facts

FEW_CHANNELS = 16  # below: the taps' channels are one depth
LINES = (
    (128, 64, 8, 2),
    (64, 64, 8, 2),
    (64, 64, 4, 2),
    (64, 32, 4, 2),
    (128, 32, 8, 2),
    (64, 16, 4, 2),
)  # their tiles
MOST_LINE = 128  # numbers of a row of a window that are one step


class Convolution(Protocol):
    """What the model asks of a convolution (emit/spatial.py: Conv)."""

    @property
    def x(self) -> View: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def channels(self) -> int: ...

    @property
    def taps(self) -> int: ...

    @property
    def line(self) -> int: ...

    @property
    def short(self) -> bool: ...

    @property
    def group(self) -> int: ...

    @property
    def matrices(self) -> int: ...

    @property
    def window(self) -> Window: ...

    def steps(self, config: Config) -> int: ...


def convolutions(conv: Convolution, facts: Facts) -> list[Config]:
    """Candidates for a convolution that is no product."""
    found, type, itemsize = [], conv.x.type, conv.x.itemsize
    kernel = "flat" if conv.channels < FEW_CHANNELS else "convolution"
    tiles_of_kernels = [*ways(kernel, type, facts), *((kernel, t) for t in shallow(type))]
    if kernel == "flat":
        tiles_of_kernels = [(name, t) for name, t in tiles_of_kernels if name == kernel]
    for name, (tm, tn, tk, warps, stages) in dict.fromkeys(tiles_of_kernels):
        too_large = (tm > 32 and tm >= 2 * conv.rows) or (tn > 16 and tn >= 2 * conv.columns)
        too_deep = kernel == "convolution" and tk > 32 and tk >= 2 * conv.channels
        config = Config(name, tm, tn, tk, 1, warps, stages)
        if too_large or too_deep or config.shared(itemsize) > facts.shared:
            continue
        tiles = conv.matrices * -(-conv.rows // tm) * -(-conv.columns // tn)
        found += [config, *divided(config, tiles, conv.steps(config), facts)]
    if kernel == "flat" and conv.line and (type in ("half", "bf16", "float") or conv.short):
        depth = max(16, 1 << (conv.line - 1).bit_length())
        found += [
            Config("rows", tm, tn, depth, 1, warps, stages)
            for tm, tn, warps, stages in LINES
            if (tn <= 16 or tn < 2 * conv.columns) and depth <= MOST_LINE
        ]
    return found or [Config(kernel, *smallest(type))]


FINISH_DESCRIBED = 4e-11  # seconds of a processor for an element's epilogue, of boxes (H200)
DESCRIBED = "described"  # boxes of pixels, by the hardware's own copies (emit/boxes.py)
BOXES = (  # pixels, channels, depth, warps, stages
    (128, 128, 64, 4, 4), (256, 128, 64, 8, 3), (128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4), (256, 64, 64, 4, 4), (64, 64, 64, 4, 6),
)  # fmt: skip


def described_convolutions(conv: Convolution, facts: Facts) -> list[Config]:
    """Candidates where tensor descriptors can be made of images and weights, unless most of a tile were empty."""
    if not facts.descriptors:
        return []
    found = list[Config]()
    for m, n, k, warps, stages in BOXES:
        config = Config(DESCRIBED, m, n, k, 1, warps, stages)
        too_large = m >= 2 * conv.rows or n >= (2 if n > 64 else 4) * conv.columns
        if too_large or conv.channels % k or config.shared(conv.x.itemsize) > facts.shared:
            continue
        tiles = conv.matrices * prod(boxes(conv, box_of(conv, m))) * -(-conv.columns // n)
        found += [config, *divided(config, tiles, conv.steps(config), facts)]
    return found


def divided(config: Config, tiles: int, steps: int, facts: Facts) -> list[Config]:
    """The same with the depth in parts, where they are no more than the device holds at once, and no part is short."""
    most = 2 * facts.processors
    return [replace(config, split=s) for s in SPLITS if 1 < s <= most // tiles and steps >= s * LEAST_STEPS]


def box_of(conv: Convolution, count: int) -> tuple[int, int, int]:
    """Images, lines and pixels of a line, powers of two, of boxes of `count` pixels: the fewest, then the widest."""
    images, high, wide = (1 << (n - 1).bit_length() for n in (conv.x.lens[0], *conv.window.out[1:]))
    found = [
        (count // (h * w), h, w)
        for w in powers(min(wide, count))
        for h in powers(min(high, count // w))
        if count // (h * w) <= images
    ]
    return min(found, key=lambda box: (prod(boxes(conv, box)), -box[2], -box[1]))


def powers(most: int) -> list[int]:
    """The powers of two up to `most`."""
    return [1 << n for n in range(most.bit_length())]


def boxes(conv: Convolution, box: tuple[int, int, int]) -> tuple[int, int, int]:
    """How many boxes the output is along images, lines and pixels of a line."""
    images, high, wide = (-(-n // b) for n, b in zip((conv.x.lens[0], *conv.window.out[1:]), box, strict=True))
    return images, high, wide


LINED = "lined"  # of a copy whose rows of windows are vectors (lower/convolution.py: lined_up)
LINED_TILES = (
    (128, 64, 4, 4), (64, 64, 4, 4), (128, 64, 8, 3), (128, 32, 4, 4), (64, 32, 4, 4), (128, 64, 4, 2), (256, 64, 4, 3),
    (256, 64, 8, 3),
)  # fmt: skip


def lined_up_convolutions(conv: Convolution, facts: Facts) -> list[Config]:
    """Candidates where a copy of the images is convolved: a step is a row of a window."""
    tiles = [t for t in LINED_TILES if t[1] <= 32 or t[1] < 2 * conv.columns]
    each = 1 << (conv.x.lens[1] - 1).bit_length()  # channels of the copy's pixels
    depth = max(32, 1 << (conv.window.kernel[2] * each - 1).bit_length())
    found = [Config(LINED, m, n, depth, 1, warps, stages) for m, n, warps, stages in tiles if depth <= MOST_LINE]
    return [c for c in found if c.shared(conv.x.itemsize) <= facts.shared]


def shallow(type: str) -> tuple[tuple[int, ...], ...]:
    """Tiles of half the depth, for convolutions of few channels."""
    if type in ("int8", "uint8"):
        return ((128, 32, 64, 4, 4), (64, 32, 64, 4, 4), (128, 64, 32, 4, 4), (64, 64, 32, 4, 4), (64, 32, 32, 4, 4))
    if type not in ("half", "bf16"):
        return ()
    return ((128, 64, 32, 4, 4), (64, 64, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 4, 4), (64, 16, 32, 4, 4))


def conv_cost(config: Config, conv: Convolution, facts: Facts, result: int = 2) -> float:
    """Microseconds; as a product of the steps' depth whose first operand is read from memory once."""
    depth, itemsize, type = conv.steps(config) * config.k, conv.x.itemsize, conv.x.type
    rows = prod(boxes(conv, box_of(conv, config.m))) * config.m if config.kernel == DESCRIBED else conv.rows
    shape = (conv.matrices, rows, conv.columns, depth)
    wide = replace(facts, bandwidth=facts.bandwidth * conv.taps)  # a pixel is a row of so many windows
    finish = FINISH_DESCRIBED if config.kernel == DESCRIBED else FINISH
    cost = product_cost(config, shape, type, itemsize, wide, result, finish)
    traffic = (conv.x.elements * itemsize + conv.matrices * conv.rows * conv.columns * result) / facts.bandwidth
    gathered = {"flat": 3.0, "rows": 1.5}.get(config.kernel, 1.0)  # loads of single elements
    copy = LAUNCH + LATENCY + 3 * conv.x.elements * itemsize / facts.bandwidth * 1e6 if config.kernel == LINED else 0.0
    return max((cost - LAUNCH) * gathered, traffic * 1e6) + LAUNCH + copy


def library_conv_cost(conv: Convolution, facts: Facts, result: int, fused: bool) -> float:
    """Microseconds of a library's convolution, and of the kernel that finishes what it cannot."""
    depth = conv.taps * conv.channels
    wide = replace(facts, bandwidth=facts.bandwidth * conv.taps)  # a pixel is a row of so many windows
    shape = (conv.group, conv.rows, conv.columns, depth)
    steps = depth / 64 * LATENCY / 16  # what little work waits for
    return library_cost(shape, conv.x.type, conv.x.itemsize, wide, result, fused) + steps


WIDTHS = (4, 7, 8)  # pixels of a strip
STRIPS = (
    (8, 64, 4),
    (8, 64, 2),
    (16, 32, 2),
    (16, 64, 4),
    (4, 64, 2),
    (8, 32, 2),
    (2, 64, 1),
)  # of which, channels, warps


def depthwises(conv: Convolution) -> list[Config]:
    """Candidates for a depthwise convolution: pixels, or strips of `k` pixels, channels, warps."""
    found, channels, window = [], conv.x.lens[1], conv.window
    for m, n, warps in ((16, 64, 4), (32, 64, 4), (8, 128, 4), (32, 32, 4), (16, 128, 4), (4, 256, 4), (64, 16, 4)):
        if n <= 16 or n < 2 * channels:
            found.append(Config("depthwise", m, n, 1, 1, warps, 1))
    flat = window.size[0] == window.out[0] == window.kernel[0] == 1 and window.kernel[2] > 1
    if flat and conv.x.type in ("half", "bf16", "float"):
        for width in WIDTHS:
            if width <= max(4, window.out[2]):
                found += [Config("strips", m, n, width, 1, w, 1) for m, n, w in STRIPS if n <= 32 or n < 2 * channels]
    return found


def depthwise_cost(config: Config, conv: Convolution, facts: Facts) -> float:
    """Microseconds: waves of tiles, each as long as its loads from the first cache, or its arithmetic."""
    window, channels = conv.window, conv.x.lens[1]
    wide = config.k if config.kernel == "strips" else 1
    lines = conv.rows // window.out[2] * -(-window.out[2] // wide)
    blocks = -(-lines // config.m) * -(-channels // config.n)
    waves = -(-blocks // (4 * facts.processors))
    columns = conv.taps + conv.taps // window.kernel[2] * (wide - 1) * window.stride[2] if wide > 1 else conv.taps
    weights = conv.taps if wide > 1 else 0
    loads = config.m * config.n * (columns + weights) * conv.x.itemsize / 100e9  # that a first cache serves
    arithmetic = config.m * config.n * wide * conv.taps / 80e9
    traffic = 2 * conv.x.elements * conv.x.itemsize / facts.bandwidth
    work = waves * min(4, max(1, blocks / facts.processors)) * max(loads, arithmetic)
    rounds = window.kernel[1] if wide > 1 else 1  # of loads that wait for one another
    return LAUNCH + LATENCY * rounds + max(work, traffic) * 1e6
