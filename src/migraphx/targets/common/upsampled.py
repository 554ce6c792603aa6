"""Convolution of images that nearest neighbours made larger, as convolutions of the small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ops.vision import Resize


@dataclass(frozen=True)
class UpsampledWindow:
    """Of one axis on which each pixel is there `times` times: a window `kernel` wide, `before` pixels of padding.

    The output o sums w[t] * x[(o + t - before) // times]. Outputs of one phase p = o % times see the same few
    pixels, the first of them `first(p)` from the pixel o // times; all phases as many where the window is `even`.
    """

    times: int
    kernel: int
    before: int

    def first(self, phase: int) -> int:
        return (phase - self.before) // self.times

    def tap(self, phase: int, t: int) -> int:
        """Which of the pixels that a phase sees the window's element t is on."""
        return (phase + t - self.before) // self.times - self.first(phase)

    @property
    def even(self) -> bool:
        """Whether all phases see equally many pixels: where one sees fewer, it would multiply others by 0."""
        return (self.kernel - 1) % self.times == 0

    @property
    def taps(self) -> int:
        """How many pixels each phase sees."""
        return 1 + (self.kernel - 1) // self.times

    @property
    def pad(self) -> int:
        """Pixels of padding before those that the first phase sees."""
        return -self.first(0)

    @property
    def late(self) -> int:
        """first(p) is (p + late) // times - pad."""
        return self.pad * self.times - self.before


def summed(weights: np.ndarray, axes: Sequence[UpsampledWindow]) -> np.ndarray:
    """Weights {phases x O, C, taps...} for the small images, of {O, C, kernel...} for the large ones."""
    wide = np.float64 if weights.dtype.itemsize >= 4 else np.float32
    found = np.zeros((*(a.times for a in axes), *weights.shape[:2], *(a.taps for a in axes)), wide)
    for phase in product(*(range(a.times) for a in axes)):
        for taps in product(*(range(a.kernel) for a in axes)):
            at = (a.tap(p, t) for a, p, t in zip(axes, phase, taps, strict=True))
            found[(*phase, slice(None), slice(None), *at)] += weights[(slice(None), slice(None), *taps)]
    return found.reshape(-1, *found.shape[len(axes) + 1 :])


def repeats(ins: Instruction) -> tuple[int, ...] | None:
    """How many times `ins` {N, C, spatial...} has each pixel of its input, along each axis; None where it differs."""
    op = ins.op
    if not isinstance(op, Resize) or op.mode != "nearest" or len(ins.shape.lens) < 3:
        return None
    lens, found = ins.inputs[0].shape.lens, list[int]()
    for axis, (n, out) in enumerate(zip(lens, ins.shape.lens, strict=True)):
        taps, times = op.taps(lens, axis), out // n
        if taps is not None and (axis < 2 or out % n or (taps[0][0] != np.arange(out) // times).any()):
            return None
        found.append(times)
    return tuple(found[2:])
