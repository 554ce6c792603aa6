"""Place every arena buffer so that those which live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migraphx.targets.common.views import Buffer

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer is written at step `first` and read for the last time at step `last`."""

    buffer: Buffer
    first: int
    last: int


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    return -(-nbytes // alignment) * alignment


def plan_memory(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> int:
    """Set each buffer's position, a multiple of `alignment`; returns the arena's size in bytes.

    Largest first, each at the lowest place free for all of its life (greedy by size; Pisarchyk and Lee,
    "Efficient Memory Management for Deep Neural Net Inference", 2020).
    """
    placed: list[Lifetime] = []
    total = 0
    for life in sorted(lifetimes, key=lambda t: (-t.buffer.nbytes, t.first)):
        size, position = aligned(life.buffer.nbytes, alignment), 0
        rivals = [p for p in placed if p.first <= life.last and life.first <= p.last]
        for p in sorted(rivals, key=lambda p: p.buffer.position):
            if position + size <= p.buffer.position:
                break
            position = max(position, p.buffer.position + aligned(p.buffer.nbytes, alignment))
        life.buffer.position = position
        placed.append(life)
        total = max(total, position + size)
    return total
