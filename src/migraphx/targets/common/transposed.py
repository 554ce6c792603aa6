"""Transposed convolution as convolutions: one for each position of the output within a stride."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from migraphx.targets.common.views import View


@dataclass(frozen=True)
class Phase:
    """The outputs first, first + stride, ... of one axis: a convolution of the input by some of the taps.

    Output o sums x[i] * w[t] over i * stride + t * dilation = o + padding. For the outputs of one phase these
    are the taps tap, tap + step, ...; taken backwards they meet inputs `dilation` apart.
    """

    first: int
    tap: int
    step: int
    taps: int
    dilation: int
    pad: int

    @classmethod
    def of(cls, first: int, kernel: int, stride: int, dilation: int, pad: int) -> Phase:
        common = math.gcd(stride, dilation)
        step = stride // common
        at = [t for t in range(min(kernel, step)) if (first + pad - t * dilation) % stride == 0]
        if not at:
            return cls(first, 0, step, 0, 1, 0)
        (tap,), apart = at, dilation // common
        taps = -(-(kernel - tap) // step)
        return cls(first, tap, step, taps, apart, (taps - 1) * apart - (first + pad - tap * dilation) // stride)


def phases_of(
    write: View, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], before: Sequence[int]
) -> Iterator[tuple[tuple[Phase, ...], View]]:
    """The phases of each axis, and what of `write` {N, C, spatial...} they compute; `before`: the padding."""
    axes = [
        [Phase.of(first, *numbers) for first in range(min(numbers[1], out))]
        for out, *numbers in zip(write.lens[2:], kernel, stride, dilation, before, strict=True)
    ]
    for phases in product(*axes):
        part = write
        for d, (p, s) in enumerate(zip(phases, stride, strict=True)):
            part = part.sliced(2 + d, p.first, write.lens[2 + d], s)
        yield phases, part
