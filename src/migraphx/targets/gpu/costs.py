"""Candidates for products, convolutions and attention, and what the cost model thinks of each.

The model adds up what a launch costs: waves of tiles on the processors, each as long as the slower of its arithmetic
and its loads, but no shorter than memory takes for all bytes. Times are in microseconds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from migraphx.ir.size import is_open
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.facts import Facts

LAUNCH = 2.0  # of a kernel in a graph, with its first loads
SECOND_PASS = 2.5  # adding the parts of a split depth up, besides their bytes
LATENCY = 0.6  # from a load to its use
FINISH = 2e-10  # seconds of a processor for an element's epilogue
ALONE = 1.6  # times as long where no other block works meanwhile
LOW_TILES = 1.6  # times as long tiles of fewer rows than wgmma has take in models (MiniLM's, 344 and 503 tokens)
IN_FLIGHT = 3e3  # bytes that a processor must have asked for, to keep memory half busy
STAGED = 24e3  # the same of tiles that come through shared memory
FEW = 2.0  # times as fast tiles of 16 rows are where there are no more, and memory decides
TURNS = 1.07  # times as long one row's weights take that come by several steps
REGISTERS = 65536  # of a processor
THREADS = 2048  # of a processor

# ---- products -------------------------------------------------------------------------------------------------------

TILES = {  # rows, columns, depth, warps, stages
    "half": (
        (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4),
        (64, 256, 64, 4, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 128, 4, 3),
        (64, 32, 64, 4, 4), (32, 64, 64, 4, 4), (32, 128, 64, 4, 4), (32, 32, 128, 4, 3), (16, 32, 128, 4, 4),
        (16, 64, 128, 4, 4), (16, 128, 64, 4, 4), (16, 32, 64, 2, 4), (64, 64, 64, 4, 3), (64, 32, 64, 4, 3),
        (64, 32, 128, 4, 4), (16, 32, 256, 2, 4),
    ),
    "byte": (
        (128, 128, 128, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 128, 4, 4), (128, 64, 128, 4, 4),
        (64, 64, 128, 4, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4), (128, 128, 64, 8, 2), (64, 128, 64, 4, 2),
        (128, 64, 64, 4, 2), (64, 64, 64, 4, 2), (32, 64, 128, 4, 4), (16, 64, 256, 4, 4), (16, 32, 128, 4, 4),
        (16, 32, 256, 2, 4),
    ),
    "float": (
        (128, 128, 16, 8, 3), (128, 64, 16, 8, 3), (64, 128, 16, 8, 3), (64, 64, 32, 4, 3), (64, 64, 16, 4, 4),
        (64, 32, 32, 4, 3), (32, 64, 32, 4, 3), (32, 32, 32, 4, 3), (16, 64, 32, 4, 3), (16, 32, 32, 2, 3),
    ),
    "thirds": (
        (128, 128, 32, 8, 3), (128, 64, 32, 4, 3), (64, 128, 32, 4, 3), (64, 64, 32, 4, 3), (64, 64, 32, 8, 3),
        (64, 32, 32, 4, 3),
    ),
    "double": ((64, 64, 16, 4, 3), (64, 32, 16, 4, 3), (32, 32, 16, 4, 3), (16, 32, 16, 2, 3)),
    "integer": ((16, 16, 16, 4, 1),),
}  # fmt: skip
DESCRIBED = (  # of half, by the hardware's own copies
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4),
    (64, 256, 64, 4, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 128, 64, 4, 2),
)  # fmt: skip
ROWS = (
    (8, 512, 4),
    (4, 512, 4),
    (16, 256, 4),
    (2, 1024, 4),
    (1, 1024, 4),
    (64, 64, 4),
    (8, 1024, 4),
)  # of one row: columns, depth, warps
HELD = ((4096, 4), (8192, 4), (8192, 8), (16384, 8))  # elements of whole rows in a tile, warps
WIDEST = 1024  # elements of a row that a tile holds whole, for each warp
COLUMNS = ((64, 16, 4), (128, 16, 4), (256, 8, 4))  # the same where columns follow each other in memory
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 3  # of the depth in a part
MOST_PARTS = 12  # of a tile of the last wave


THIRDS = " x3"  # ends the names of kernels that multiply floats as three products of TF32


def thirds(config: Config) -> bool:
    """Whether floats are multiplied as the sum of three products of their leading and trailing halves."""
    return config.kernel.endswith(THIRDS)


def ways(kernel: str, type: str, facts: Facts) -> list[tuple[str, tuple[int, ...]]]:
    """The kernels for products of a type, each with a tile."""
    found = [(kernel, tile) for tile in tiles_of(type)]
    by_thirds = TILES["thirds"] if type == "float" and facts.third_flops else ()
    return [*found, *((kernel + THIRDS, tile) for tile in by_thirds)]


def tiles_of(type: str) -> tuple[tuple[int, ...], ...]:
    """The tiles for products of a type."""
    if type in ("int8", "uint8") or type.startswith("fp8"):
        return TILES["byte"]
    return TILES.get("half" if type == "bf16" else type, TILES["integer"])


def products(
    shape: tuple[int, int, int, int], type: str, itemsize: int, facts: Facts, along_depth: bool = True
) -> list[Config]:
    """Candidates for a product of batch, rows, columns, depth. `along_depth`: the weights' depth is contiguous."""
    batch, m, n, k = shape
    found = []
    for kernel, (tm, tn, tk, warps, stages) in ways("product", type, facts):
        too_large = (tm > 16 and tm >= 2 * m) or (tn > 32 and tn >= 2 * n)
        config = Config(kernel, tm, tn, tk, 1, warps, stages)
        if too_large or config.shared(itemsize) > facts.shared:
            continue
        tiles = batch * -(-m // tm) * -(-n // tn)
        for split in SPLITS:
            if split == 1 or (tiles * split <= 2 * facts.processors and k >= split * LEAST_STEPS * tk):
                found.append(replace(config, split=split))
        found += with_tail(config, tiles, k // tk, itemsize, facts) if batch == 1 else []
    if m == 1 and k and (type in ("half", "bf16", "float", "double") or (type in ("int8", "uint8") and along_depth)):
        tiles_n = (*whole_rows(k), *ROWS) if along_depth else COLUMNS
        for tn, tk, warps in dict.fromkeys(tiles_n):
            config = Config("vector", 1, tn, tk, 1, warps, 3)
            for split in SPLITS:
                if split == 1 or (batch * -(-n // tn) * split <= 4 * facts.processors and k >= split * 2 * tk):
                    found.append(replace(config, split=split))
    return found or [Config("product", *smallest(type))]


def whole_rows(k: int) -> list[tuple[int, int, int]]:
    """Tiles of one row's product that hold the whole depth: columns, depth, warps."""
    width = max(256, 1 << (k - 1).bit_length())
    return [(held // width, width, warps) for held, warps in HELD if width <= min(held, WIDEST * warps)]


def described_products(
    shape: tuple[int, int, int, int], type: str, itemsize: int, facts: Facts, written: int
) -> list[Config]:
    """Candidates where tensor descriptors can be made of both operands: the same depth of a tile in bytes.

    `written`: bytes of an element of the result, which goes through shared memory while the next tiles come in.
    """
    _, m, n, k = shape
    if not facts.descriptors or not (type in ("half", "bf16", "int8") or type.startswith("fp8")):
        return []
    tiles = [t for t in DESCRIBED if (t[0] <= 64 or t[0] < 2 * m) and (t[1] <= 64 or t[1] < 2 * n)]
    found = [Config("described", tm, tn, tk * 2 // itemsize, 1, w, s) for tm, tn, tk, w, s in tiles if m >= 64]
    passing = written if written >= 4 else 1  # half of the tile at a time
    fit = [c for c in found if c.shared(itemsize) + c.m * c.n * passing <= facts.shared - 1024]
    return [c for c in fit if k > c.k]  # the loop over tiles is pipelined through their steps: one is none


def with_tail(config: Config, tiles: int, steps: int, itemsize: int, facts: Facts) -> list[Config]:
    """The same with the tiles of an incomplete last wave in parts, if they are few."""
    slots = facts.processors * resident(config, itemsize, facts)
    rest = tiles % slots
    tail = min(slots // max(rest, 1), steps // LEAST_STEPS, MOST_PARTS)
    if tiles < slots or not rest or tail < 2:
        return []
    return [replace(config, whole=tiles - rest, tail=tail)]


def smallest(type: str) -> tuple[int, int, int, int, int, int]:
    """The last tile of a type, as the arguments of a Config."""
    m, n, k, warps, stages = tiles_of(type)[-1]
    return m, n, k, 1, warps, stages


def resident(config: Config, itemsize: int, facts: Facts) -> int:
    """How many blocks a processor holds at once."""
    threads = 32 * config.warps
    sums = config.m * config.n if config.kernel != "vector" else config.n * config.k
    registers = min(255, 56 + sums // threads) * threads
    staged = config.shared(itemsize) if config.kernel != "vector" else 1
    return max(1, min(REGISTERS // registers, THREADS // threads, facts.shared // max(staged, 1), 8))


def product_cost(
    config: Config, shape: tuple[int, int, int, int], type: str, itemsize: int, facts: Facts, result: int = 2
) -> float:
    """Microseconds; `result`: bytes of an element that the epilogue reads and writes."""
    batch, m, n, k = shape
    tiles = batch * -(-m // config.m) * -(-n // config.n) * config.split
    together = resident(config, itemsize, facts)
    waves: float = -(-tiles // (facts.processors * together))
    if config.tail > 1:
        waves = config.whole / (facts.processors * together) + 1.3 / config.tail
    if waves == 1:  # what is there is spread over the processors
        together = -(-tiles // facts.processors)
    steps = max(1, math.ceil(k / config.split / config.k))
    busy = together  # blocks that share a processor's units
    rate = facts.flops("thirds" if thirds(config) else type) / facts.processors * shape_rate(config, facts)
    rate *= FEW if m <= 16 else 1.0
    arithmetic = 0.0 if config.kernel == "vector" else 2 * config.m * config.n * config.k * busy / rate
    loads = (config.m + config.n) * config.k * itemsize * busy / facts.cache_rate
    step = max(arithmetic, loads, LATENCY * 1e-6 / max(config.stages - 1, 1) / 2)
    finish = FINISH * config.m * config.n * busy * (ALONE if busy == 1 else 1.0)
    work = waves * (steps * step + finish + config.m * config.n * result * busy / facts.cache_rate)
    elements = batch * m * n
    traffic = (batch * (m * k + k * n) * itemsize + elements * result) / facts.bandwidth
    traffic /= min(1.0, tiles / facts.processors)
    if config.kernel == "vector":
        waiting = max(1.0, min(tiles / facts.processors, together)) * config.n * config.k * itemsize
        traffic *= (1 + (IN_FLIGHT / waiting) ** 1.5) * (TURNS if steps > 1 else 1.0)
        each = max(1.0, tiles / facts.processors)
        traffic *= math.ceil(each) / each  # some processors read more than others
    elif config.kernel == "product" and m <= 16:
        waiting = (
            max(1.0, min(tiles / facts.processors, together))
            * config.n
            * config.k
            * itemsize
            * max(config.stages - 1, 1)
        )
        traffic *= (1 + (STAGED / waiting) ** 1.5) * (TURNS if m == 1 else 1.0)
    passed = elements * 4 * (2 * config.split) / facts.cache_bandwidth * 1e6 + SECOND_PASS if config.split > 1 else 0.0
    if config.tail > 1:
        left = batch * -(-m // config.m) * -(-n // config.n) - config.whole
        passed = SECOND_PASS + left * config.m * config.n * 8 * config.tail / facts.cache_bandwidth * 1e6
    low = LOW_TILES if config.kernel == "product" and facts.wide_tiles and config.m < 64 <= m else 1.0
    return low * (LAUNCH + LATENCY + max(work, traffic) * 1e6 + passed)


def shape_rate(config: Config, facts: Facts) -> float:
    """The share of the arithmetic that tiles of this shape reach."""
    small = min(config.m, 128) * min(config.n, 128) / 128**2
    share = 0.45 + 0.55 * small if config.m * config.n >= 4096 else 0.4 * max(small * 4, 0.25)
    if facts.wide_tiles and config.m < 64:
        share *= 0.6
    return share * (1.0 if config.m * config.n >= 128 * 256 else 0.93)


def library_cost(
    shape: tuple[int, int, int, int], type: str, itemsize: int, facts: Facts, result: int, fused: bool
) -> float:
    """Microseconds of a library's product, and of the kernel that finishes what it cannot."""
    batch, m, n, k = shape
    elements = batch * m * n
    arithmetic = 2 * elements * k / (facts.flops(type) * 1.05)
    traffic = (batch * (m * k + k * n) + elements) * itemsize / facts.bandwidth
    rest = 0.0 if fused else LAUNCH + elements * (itemsize + result) / facts.bandwidth * 1e6
    return LAUNCH + 2 * LATENCY + max(arithmetic, traffic) * 1e6 + rest


# ---- convolutions ---------------------------------------------------------------------------------------------------

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
        tiles, steps = conv.group * -(-conv.rows // tm) * -(-conv.columns // tn), conv.steps(config)
        for split in SPLITS:
            if split == 1 or (tiles * split <= 2 * facts.processors and steps >= split * LEAST_STEPS):
                found.append(replace(config, split=split))
    if kernel == "flat" and conv.line and (type in ("half", "bf16", "float") or conv.short):
        depth = max(16, 1 << (conv.line - 1).bit_length())
        found += [
            Config("rows", tm, tn, depth, 1, warps, stages)
            for tm, tn, warps, stages in LINES
            if (tn <= 16 or tn < 2 * conv.columns) and depth <= MOST_LINE
        ]
    return found or [Config(kernel, *smallest(type))]


LINED = "lined"  # of a copy whose rows of windows are vectors (lower/convolution.py: lined_up)
LINED_TILES = ((128, 64, 4, 4), (64, 64, 4, 4), (128, 64, 8, 3), (128, 32, 4, 4), (64, 32, 4, 4), (128, 64, 4, 2))


def lined_up_convolutions(conv: Convolution) -> list[Config]:
    """Candidates where a copy of the images is convolved."""
    tiles = [t for t in LINED_TILES if t[1] <= 32 or t[1] < 2 * conv.columns]
    return [Config(LINED, m, n, 32, 1, warps, stages) for m, n, warps, stages in tiles]


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
    shape = (conv.group, conv.rows, conv.columns, depth)
    wide = replace(facts, bandwidth=facts.bandwidth * conv.taps)  # a pixel is a row of so many windows
    cost = product_cost(config, shape, type, itemsize, wide, result)
    traffic = (conv.x.elements * itemsize + conv.group * conv.rows * conv.columns * result) / facts.bandwidth
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


# ---- attention ------------------------------------------------------------------------------------------------------

QUERIES = {  # rows, keys, warps, stages; by the size of a head
    64: (
        (128, 128, 8, 3), (64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 3), (32, 64, 4, 3),
        (64, 32, 4, 3), (16, 64, 4, 3), (16, 128, 4, 3),
    ),
    128: (
        (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3), (64, 64, 4, 2), (32, 64, 4, 2),
        (16, 64, 4, 3), (16, 128, 4, 2), (16, 32, 4, 3),
    ),
    256: ((64, 64, 8, 2), (64, 32, 8, 2), (64, 32, 4, 3), (32, 32, 4, 2), (16, 64, 4, 2), (16, 32, 4, 2)),
    512: ((32, 32, 8, 2), (16, 32, 8, 2), (16, 16, 8, 2)),
    1 << 30: ((16, 16, 8, 1),),
}  # fmt: skip
WIDE_QUERIES = {  # of float and double
    64: ((64, 32, 8, 2), (32, 32, 4, 2), (16, 32, 4, 2)),
    128: ((32, 32, 8, 2), (16, 32, 4, 2)),
    1 << 30: ((16, 16, 8, 1),),
}
THIRD_QUERIES = {  # of float by three products of TF32
    64: ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (128, 32, 8, 2)),
    128: ((64, 32, 4, 2), (64, 64, 8, 2)),
    1 << 30: (),
}
WHOLE_HEADS = "whole heads"  # the kernel of configurations whose programs hold all keys of a head
MOST_HELD = 256  # keys
TURN = 1.4  # at least, of a tile of rows whose keys are held, where no other block works meanwhile
KEY_SPLITS = (1, 2, 4, 8, 16, 32)
LOW = 1.5  # times as long a step with a mask takes of fewer rows than wgmma has
MASKED = 32  # scores of a thread with masks; half as many where rows differ, whose next masks lie in registers


class Attended(Protocol):
    """What the model asks of an attention (emit/attention.py: Attention)."""

    @property
    def q(self) -> View: ...

    @property
    def rows(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def keys(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def causal(self) -> bool: ...

    @property
    def scale(self) -> float: ...

    @property
    def mask(self) -> View | None: ...

    @property
    def masks_alike(self) -> bool: ...


def head_size(a: Attended) -> int:
    """Of queries or values, the larger, as tiles have it."""
    return 1 << (max(a.q.lens[3], a.width, 16) - 1).bit_length()


def holds_heads(a: Attended, facts: Facts) -> bool:
    """Whether programs may hold all keys and values of a head, and the scores of a tile of rows in registers."""
    size, plain = head_size(a), a.mask is None and not a.causal and a.scale > 0
    known = not is_open(a.keys) and a.keys <= MOST_HELD and a.rows > 32
    return (
        plain and known and facts.wide_tiles and a.q.type in ("half", "bf16") and size == a.q.lens[3] == a.width <= 64
    )


def attentions(a: Attended, facts: Facts) -> list[Config]:
    """Candidates: m rows and n keys at a time; `split` programs share the keys.

    Of whole heads a program has all keys, and `group` tiles of rows in turn.
    """
    size, itemsize = head_size(a), a.q.itemsize
    tables = QUERIES if a.q.type in ("half", "bf16") else WIDE_QUERIES
    tiles = next(t for most, t in tables.items() if size <= most)
    by_thirds = next(t for most, t in THIRD_QUERIES.items() if size <= most)
    if a.q.type != "float" or not facts.third_flops:
        by_thirds = ()
    found = []
    if holds_heads(a, facts):
        held = -(-a.keys // 16) * 16
        found = [Config(WHOLE_HEADS, 64, held, size, 1, 4, 1, n) for n in (4, 2, 1) if n == 1 or 64 * n < a.rows + 64]
    for kernel, (m, n, warps, stages) in (
        *(("attention", t) for t in tiles),
        *(("attention x3", t) for t in by_thirds),
    ):
        config = Config(kernel, m, n, size, 1, warps, stages)
        too_large = (m > 16 and m >= 2 * a.rows) or (n > 32 and n >= 2 * a.keys)
        spills = a.mask is not None and m * n * (1 if a.masks_alike else 2) > MASKED * 32 * warps
        if too_large or spills or (m + 2 * n * stages) * size * itemsize > facts.shared:
            continue
        blocks = a.heads * -(-a.rows // m)
        for split in KEY_SPLITS:
            if split == 1 or (not a.causal and blocks * split <= 4 * facts.processors and a.keys >= 2 * n * split):
                found.append(replace(config, split=split))
    m, n, warps, stages = tiles[-1]
    return found or [Config("attention", m, n, size, 1, warps, stages)]


def attention_cost(config: Config, a: Attended, facts: Facts) -> float:
    """Microseconds."""
    size, itemsize, held = config.k, a.q.itemsize, config.kernel == WHOLE_HEADS
    blocks = a.heads * -(-a.rows // (config.m * (config.group if held else 1))) * config.split
    shared = (config.m + 2 * config.n * config.stages) * size * itemsize
    registers = min(255, 64 + config.m * (config.n + (0 if held else size)) // (32 * config.warps)) * 32 * config.warps
    together = max(1, min(REGISTERS // registers, facts.shared // shared, 8))
    waves = -(-blocks // (facts.processors * together))
    if waves == 1:
        together = -(-blocks // facts.processors)
    keys = a.keys / config.split * (0.5 if a.causal and a.rows > config.m else 1.0)
    steps = config.group if held else max(1, math.ceil(keys / config.n))
    type = "thirds" if thirds(config) else a.q.type
    rate = facts.flops(type) / facts.processors * (0.75 if config.m >= 64 else 0.35)
    arithmetic = 4 * config.m * config.n * size * together / rate
    exponentials = config.m * config.n * together / 3.2e11  # a processor's, with what goes with each
    loads = 2 * config.n * size * itemsize * together / facts.cache_rate
    if held:  # what a program holds is there before its first tile
        before, step = 0.4 * loads, max(0.9 * (arithmetic + exponentials), TURN * 1e-6)
    else:
        before, step = 0.0, max(arithmetic + exponentials, loads, LATENCY * 1e-6 / max(config.stages - 1, 1))
    step *= LOW if a.mask is not None and facts.wide_tiles and config.m < 64 else 1.0
    traffic = (a.heads * (2 * a.keys * size + 2 * a.rows * size) * itemsize) / facts.bandwidth
    second = SECOND_PASS + a.heads * a.rows * a.width * 8 * config.split / facts.cache_bandwidth * 1e6
    work = waves * (before + steps * step)
    return LAUNCH + LATENCY + max(work, traffic) * 1e6 + (second if config.split > 1 else 0.0)


# ---- weights of 4 bits ----------------------------------------------------------------------------------------------


def int4_products(shape: tuple[int, int, int, int]) -> list[Config]:
    """Candidates for rows of floats times weights of 4 bits."""
    _, m, n, k = shape
    tiles = ((128, 64, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (32, 64, 4, 2), (16, 64, 4, 3), (16, 32, 4, 3))
    found = [Config("int4", tm, tn, 64, 1, w, s) for tm, tn, w, s in tiles if tm <= 16 or tm < 2 * m]
    if m <= 4:
        widths = dict.fromkeys((*whole_rows(k), (8, 1024, 4), (4, 1024, 4), (4, 512, 4)))
        found += [Config("int4 vector", 1, tn, tk, 1, w, 3) for tn, tk, w in widths if tn < 2 * n]
    return found


def int4_cost(config: Config, shape: tuple[int, int, int, int], facts: Facts) -> float:
    """Microseconds; few rows read the weights for each, many are summed as floats."""
    _, m, n, k = shape
    tiles = -(-m // config.m) * -(-n // config.n)
    each = facts.float_flops / facts.processors * (0.5 if config.kernel == "int4" else 0.25)
    work = -(-tiles // facts.processors) * 2 * config.m * config.n * (k + 64) / each
    traffic = -(-m // config.m) * n * k / 2 / facts.bandwidth
    if config.kernel == "int4 vector":
        work *= (TURNS if config.k < k else 1.0) * (1 + 0.05 * abs(math.log2(config.n * config.k / HELD[1][0])))
    return LAUNCH + LATENCY + max(work, traffic) * 1e6
