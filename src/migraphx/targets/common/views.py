"""Views of buffers, and the loops over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from migraphx.ir import dtype as dtypes
from migraphx.ir.shape import standard_strides
from migraphx.ir.size import hint_of, most_of


@dataclass(eq=False)
class Buffer:
    """A block of memory of a compiled program.

    `kind` says who provides it: the caller (`input`, `output`), the program (`weight`) or the arena (`arena`);
    `index` counts within the kind. `position` is an arena buffer's place in bytes once memory is planned.
    """

    kind: str
    nbytes: int
    index: int = 0
    position: int = 0


@dataclass(frozen=True)
class Move:
    """How a view moves with the trips of a loop: by ((trip + phase) & mask) * step bytes; `slot` is the loop's."""

    slot: int
    step: int
    phase: int = 0
    mask: int = -1


@dataclass(frozen=True)
class View:
    """Elements of a buffer: lens, strides and offset are in elements of `type`.

    Inside a loop a view may move with its trips.
    """

    buffer: Buffer
    type: str
    lens: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    moves: tuple[Move, ...] = ()

    @property
    def itemsize(self) -> int:
        return dtypes.to_numpy(self.type).itemsize

    @property
    def elements(self) -> int:
        return math.prod(self.lens)

    @property
    def byte_offset(self) -> int:
        return self.offset * self.itemsize

    @property
    def standard(self) -> bool:
        want = standard_strides(self.lens)
        return all(n <= 1 or s == w for n, s, w in zip(self.lens, self.strides, want, strict=True)) or not self.elements

    def same(self, other: View) -> bool:
        """Whether these are the elements of `other` in its order: the strides of one element do not count."""
        strides = tuple(o if n == 1 else s for n, s, o in zip(self.lens, self.strides, other.strides, strict=False))
        return replace(self, strides=strides) == other

    @property
    def at_hand(self) -> View:
        """The view at the lengths of this compilation, where it is for many."""
        lens, strides = tuple(map(hint_of, self.lens)), tuple(map(hint_of, self.strides))
        return replace(self, lens=lens, strides=strides, offset=hint_of(self.offset))

    def transposed(self, permutation: Sequence[int]) -> View:
        return replace(
            self,
            lens=tuple(self.lens[d] for d in permutation),
            strides=tuple(self.strides[d] for d in permutation),
        )

    def expanded(self, lens: Sequence[int]) -> View:
        """Broadcast by NumPy's rules: stride 0 where a length 1 grows."""
        lead = len(lens) - len(self.lens)
        own = zip(self.lens, self.strides, lens[lead:], strict=True)
        strides = (0,) * lead + tuple(0 if n == 1 and m != 1 else s for n, s, m in own)
        return replace(self, lens=tuple(lens), strides=strides)

    def sliced(self, axis: int, start: int, end: int, step: int = 1) -> View:
        lens, strides = list(self.lens), list(self.strides)
        offset = self.offset + start * strides[axis]
        lens[axis], strides[axis] = most_of(0, -(-(end - start) // step)), strides[axis] * step
        return replace(self, lens=tuple(lens), strides=tuple(strides), offset=offset)

    def reversed(self, axis: int) -> View:
        """Back to front along an axis."""
        strides = tuple(-s if d == axis else s for d, s in enumerate(self.strides))
        return replace(self, strides=strides, offset=self.offset + (self.lens[axis] - 1) * self.strides[axis])

    def row(self, axis: int, start: int, slot: int, by: int = 1, phase: int = 0, mask: int = -1) -> View:
        """In each trip of a loop row `start + by * ((trip + phase) & mask)` of an axis, which stays with length 1."""
        move = Move(slot, by * self.strides[axis] * self.itemsize, phase, mask)
        lens = tuple(1 if d == axis else n for d, n in enumerate(self.lens))
        offset = self.offset + start * self.strides[axis]
        return replace(self, lens=lens, offset=offset, moves=(*self.moves, move))

    def first(self) -> View:
        """Without the leading dimension, which has length 1."""
        return replace(self, lens=self.lens[1:], strides=self.strides[1:])

    def row_major(self, lens: Sequence[int]) -> View:
        """The elements of a standard view under other lens, which are as many."""
        return replace(self, lens=tuple(lens), strides=standard_strides(lens))

    def reshaped(self, lens: Sequence[int]) -> View | None:
        """The same elements in row-major order under other lens, or None where that needs a copy."""
        if self.lens == tuple(lens):
            return self
        if not self.elements:
            return self.row_major(lens)
        runs = [(n, s) for n, s in _runs(self.lens, [self.strides])]
        strides: list[int] = []
        pending = list(runs)
        room, step = 1, 0
        for n in reversed(lens):
            if n == 1:
                strides.append(0)
                continue
            if room == 1:
                if not pending:
                    return None
                room, (step,) = pending.pop()
            if room % n:
                return None
            strides.append(step)
            room, step = room // n, step * n
        return replace(self, lens=tuple(lens), strides=tuple(reversed(strides)))


def _runs(lens: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Merge neighbouring dimensions that every view walks without a jump; dimensions of length 1 vanish."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for d, n in enumerate(lens):
        if n == 1:
            continue
        steps = tuple(s[d] for s in strides)
        if merged and all(outer == n * inner for outer, inner in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * n, steps)
        else:
            merged.append((n, steps))
    return merged


@dataclass(frozen=True)
class Loops:
    """A loop nest over several views: `lens`, outermost first, and for each view its strides."""

    lens: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def rank(self) -> int:
        return len(self.lens)


def loops(views: Sequence[View], lead: int | None, dims: Sequence[int] | None = None) -> Loops:
    """The shortest loop nest over `dims` (default: all) of views of equal lens.

    Dimensions are ordered by the strides of view number `lead`, so that it is walked in memory order, or kept
    in order where `lead` is None. A nest has at least one loop.
    """
    lens = views[0].lens
    dims = range(len(lens)) if dims is None else dims
    order = list(dims) if lead is None else sorted(dims, key=lambda d: (-views[lead].strides[d], d))
    merged = _runs([lens[d] for d in order], [[v.strides[d] for d in order] for v in views])
    merged = merged or [(1, (0,) * len(views))]
    return Loops(tuple(n for n, _ in merged), tuple(tuple(s[k] for _, s in merged) for k in range(len(views))))
