"""Ramps: values whose elements follow from their places, whatever the lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from migraphx.ir.shape import standard_strides


@dataclass(frozen=True)
class Ramp:
    """An array of integers: the element at {i, j, ...} is start + i * steps[0] + j * steps[1] + ..."""

    lens: tuple[int, ...]
    steps: tuple[int, ...]
    start: int = 0

    def reshaped(self, lens: Sequence[int]) -> Ramp | None:
        """With dimensions of length 1 put in or left out; None where more changes."""
        steps = [s for n, s in zip(self.lens, self.steps, strict=True) if n != 1]
        if tuple(n for n in lens if n != 1) != tuple(n for n in self.lens if n != 1):
            return None
        return replace(self, lens=tuple(lens), steps=tuple(0 if n == 1 else steps.pop(0) for n in lens))

    def expanded(self, lens: Sequence[int]) -> Ramp:
        """Broadcast by NumPy's rules."""
        lead = len(lens) - len(self.lens)
        own = zip(self.lens, self.steps, strict=True)
        return replace(self, lens=tuple(lens), steps=(0,) * lead + tuple(0 if n == 1 else s for n, s in own))

    def below(self, bound: int) -> bool | None:
        """Whether all elements are less than the bound (True), or none is (False)."""
        ends = [s * (n - 1) for n, s in zip(self.lens, self.steps, strict=True)]
        least, most = (self.start + sum(choose(e, 0) for e in ends) for choose in (min, max))
        return True if most < bound else False if least >= bound else None

    @property
    def counts(self) -> bool:
        """Whether the elements are 0, 1, 2 ... in row-major order."""
        want = zip(self.lens, self.steps, standard_strides(self.lens), strict=True)
        return self.start == 0 and all(n == 1 or s == w for n, s, w in want)


def positions(tuples: Sequence[Ramp], lens: Sequence[int]) -> Ramp | None:
    """The row-major positions that index tuples name in an array of `lens`; None where one may be out of range."""
    if not all(t.below(n) and t.below(0) is False for t, n in zip(tuples, lens, strict=True)):
        return None
    strides = standard_strides(lens)
    steps = (sum(t.steps[d] * s for t, s in zip(tuples, strides, strict=True)) for d in range(len(tuples[0].lens)))
    start = sum(t.start * s for t, s in zip(tuples, strides, strict=True))
    return Ramp(tuples[0].lens, tuple(steps), start)
