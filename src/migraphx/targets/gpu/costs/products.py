"""Candidates for products, and how long each takes.

The model adds up what a launch costs: waves of tiles on the processors, each as long as the slower of its arithmetic
and its loads, but no shorter than memory takes for all bytes. Times are in microseconds.
"""

from __future__ import annotations

import math
from dataclasses import replace

from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.facts import Facts

LAUNCH = 2.0  # of a kernel in a graph, with its first loads
SECOND_PASS = 2.5  # adding the parts of a split depth up, besides their bytes
LATENCY = 0.6  # from a load to its use
FINISH = 2e-10  # seconds of a processor for an element's epilogue
FINISH_GATED = 4e-11  # of two products of which one is the other's gate, while other tiles come in (H100)
ALONE = 1.6  # times as long where no other block works meanwhile
LOW_TILES = 1.6  # times as long tiles of fewer rows than wgmma has take in models (MiniLM's, 344 and 503 tokens)
IN_FLIGHT = 3e3  # bytes that a processor must have asked for, to keep memory half busy
STAGED = 24e3  # the same of tiles that come through shared memory
FEW = 2.0  # times as fast tiles of 16 rows are where there are no more, and memory decides
TURNS = 1.07  # times as long one row's weights take that come by several steps
REGISTERS = 65536  # of a processor
THREADS = 2048  # of a processor

TILES = {  # rows, columns, depth, warps, stages
    "half": (
        (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4),
        (64, 256, 64, 4, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 128, 4, 3),
        (64, 32, 64, 4, 4), (32, 64, 64, 4, 4), (32, 128, 64, 4, 4), (32, 32, 128, 4, 3), (16, 32, 128, 4, 4),
        (16, 64, 128, 4, 4), (16, 128, 64, 4, 4), (16, 32, 64, 2, 4), (64, 64, 64, 4, 3), (64, 32, 64, 4, 3),
        (64, 32, 128, 4, 4), (16, 32, 256, 2, 4), (64, 64, 64, 8, 4), (64, 64, 128, 4, 4), (64, 32, 128, 4, 6),
        (64, 32, 64, 2, 4),
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
MOST_FEW = 8  # rows: half of the smallest tile
FEW_ROWS = ((16, 32, 256, 2, 6), (16, 64, 256, 4, 3), (16, 64, 128, 4, 6))  # of 16 bits, where there are no more
DESCRIBED = (  # of half, by the hardware's own copies
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4),
    (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (192, 256, 64, 8, 3),
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
    few = FEW_ROWS if 1 < m <= MOST_FEW and type in ("half", "bf16") else ()
    for kernel, (tm, tn, tk, warps, stages) in (*ways("product", type, facts), *(("product", tile) for tile in few)):
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


def is_tall(config: Config) -> bool:
    """Whether a tile's rows are two tiles, the second of half as many: what a power of two does not divide."""
    return config.kernel == "described" and config.m % 3 == 0


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
    config: Config, shape: tuple[int, int, int, int], type: str, itemsize: int, facts: Facts, result: int = 2,
    finish: float = FINISH,
) -> float:  # fmt: skip
    """Microseconds; `result`: bytes of an element that the epilogue reads and writes; `finish`: as FINISH."""
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
    finish *= config.m * config.n * busy * (ALONE if busy == 1 else 1.0)
    work = waves * (steps * step + finish + config.m * config.n * result * busy / facts.cache_rate)
    elements = batch * m * n
    traffic = (batch * (m * k + k * n) * itemsize + elements * result) / facts.bandwidth
    traffic /= min(1.0, tiles / facts.processors)
    each = max(1.0, tiles / facts.processors)
    uneven = math.ceil(each) / each  # some processors read more than others
    waiting = min(each, together) * config.n * config.k * itemsize
    if config.kernel == "vector":
        traffic *= (1 + (IN_FLIGHT / waiting) ** 1.5) * (TURNS if steps > 1 else 1.0) * uneven
    elif config.kernel == "product" and m <= 16:
        waiting *= max(config.stages - 1, 1)
        traffic *= (1 + (STAGED / waiting) ** 1.5) * (TURNS if m == 1 else 1.0)
        if 1 < m <= MOST_FEW:  # each tile reads the rows again
            traffic *= (1 + config.m / config.n) * uneven
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


# ---- products of what products make ---------------------------------------------------------------------------------

CHAINED = ((64, 64, 4, 2), (64, 64, 4, 3))  # rows, columns between, warps, stages; 128 rows are slower (H200)
CHUNK_SECONDS = 2.6e-6  # from one chunk of columns between to the next (H200)


def chained_products(shape: tuple[int, ...], itemsize: int, facts: Facts) -> list[Config]:
    """Candidates for rows, columns between, the first depth, columns."""
    m, n, k, _ = shape
    found = [Config("chained", tm, tn, k, 1, w, s) for tm, tn, w, s in CHAINED if n % tn == 0 and m >= tm]
    return [c for c in found if _held(c, shape) * itemsize <= facts.shared]


def _held(config: Config, shape: tuple[int, ...]) -> int:
    """Elements in shared memory: the first rows, chunks of them, weights on their way."""
    _, _, k, columns = shape
    return config.m * (k + 2 * config.n) + config.stages * config.n * (k + columns)


def chained_cost(config: Config, shape: tuple[int, ...], itemsize: int, facts: Facts, result: int) -> float:
    """Microseconds; `result`: bytes of an element between that the first epilogue reads and writes."""
    m, n, k, columns = shape
    threads = 32 * config.warps
    registers = min(255, 56 + config.m * (config.n + columns) // threads) * threads
    together = max(1, min(REGISTERS // registers, facts.shared // (_held(config, shape) * itemsize)))
    waves = max(1.0, -(-m // config.m) / (facts.processors * together))
    traffic = (m * (k + columns) * itemsize + m * n * result) / facts.bandwidth
    return LAUNCH + LATENCY + max(traffic, waves * (n // config.n) * CHUNK_SECONDS) * 1e6


def apart_cost(shape: tuple[int, ...], itemsize: int, facts: Facts, result: int) -> float:
    """Microseconds of the two products that memory decides, on the terms of `chained_cost`."""
    m, n, k, columns = shape
    again = m * n * itemsize
    traffic = m * (k + columns) * itemsize + m * n * result + (again if again > facts.cached else 0)
    return 2 * (LAUNCH + LATENCY) + traffic / facts.bandwidth * 1e6


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
