"""Transposed convolution as convolutions: one for each position of the output within a stride."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.ops.convolution import channels_exchanged
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext
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
    epilogue: Epilogue, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], before: Sequence[int]
) -> Iterator[tuple[tuple[Phase, ...], Epilogue]]:
    """The phases of each axis, and the epilogue {N, C, spatial...} of what they compute; `before`: the padding."""
    lens = epilogue.write.lens[2:]
    axes = [
        [Phase.of(first, *numbers) for first in range(min(numbers[1], out))]
        for out, *numbers in zip(lens, kernel, stride, dilation, before, strict=True)
    ]
    for phases in product(*axes):

        def part(view: View, phases: tuple[Phase, ...] = phases) -> View:
            for d, (p, s) in enumerate(zip(phases, stride, strict=True)):
                view = view.sliced(2 + d, p.first, lens[d], s)
            return view

        reads = tuple(v and part(v) for v in epilogue.reads)
        yield phases, replace(epilogue, write=part(epilogue.write), reads=reads)


def window_of(source: View, phases: Sequence[Phase], write: View) -> Window:
    """The window of a phase's convolution of `source` into `write`, both {N, C, spatial...}."""
    taps, dilation, pad = ([getattr(p, name) for p in phases] for name in ("taps", "dilation", "pad"))
    return Window.of(source.lens[2:], write.lens[2:], taps, (1,) * len(phases), dilation, pad)


def taps_of(w: np.ndarray, phases: Sequence[Phase], group: int) -> np.ndarray:
    """The weights of a phase, {O, C / group, taps...}, of {C, O / group, kernel...}: the taps backwards."""
    part = channels_exchanged(w, group)[(slice(None), slice(None), *(slice(p.tap, None, p.step) for p in phases))]
    return np.flip(part, tuple(range(2, part.ndim)))


def taps_at_run_time(w: View, phases: Sequence[Phase], group: int) -> View:
    """The same as a view {group, O / group, C / group, taps...}."""
    (step, *strides), each = w.strides, w.lens[0] // group
    view = replace(w, lens=(group, each, *w.lens[1:]), strides=(step * each, step, *strides))
    view = view.transposed((0, 2, 1, *range(3, len(view.lens))))
    for d, p in enumerate(phases, 3):
        view = view.sliced(d, p.tap, view.lens[d], p.step).reversed(d)
    return view


def of_zeros(ctx: LoweringContext, epilogue: Epilogue, origin: str) -> None:
    """What an epilogue makes of positions that no tap reaches."""
    if epilogue.module is None:
        fill(ctx, epilogue.write, 0, origin)
        return
    position = epilogue.reads.index(None)
    type = [*epilogue.module.parameters.values()][position].shape.type
    zeros = ctx.temporary(Shape(type, epilogue.write.lens))
    fill(ctx, zeros, 0, origin)
    reads = [zeros if v is None else v for v in epilogue.reads]
    ctx.call(ctx.emit.pointwise(epilogue.module, reads, epilogue.write, origin))
