"""Candidates for attention, and how long each takes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from migraphx.ir.size import is_open
from migraphx.targets.common.views import View
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.products import LATENCY, LAUNCH, REGISTERS, SECOND_PASS, thirds
from migraphx.targets.gpu.facts import Facts

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
