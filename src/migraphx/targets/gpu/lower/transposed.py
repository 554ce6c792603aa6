"""Transposed convolutions as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.size import is_open
from migraphx.ops.convolution import ConvolutionBackwards, both_sides
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.transposed import Phase, of_zeros, phases_of, taps_at_run_time, taps_of, window_of
from migraphx.targets.common.views import View
from migraphx.targets.gpu.costs.convolutions import FEW_CHANNELS
from migraphx.targets.gpu.emit.spatial import Conv, Upsampled
from migraphx.targets.gpu.lower.contractions import as_multiplied, multiplied
from migraphx.targets.gpu.lower.convolution import constant_weights, convolve, weights_at_run_time
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of_contraction("convolution_backwards")
def convolution_backwards(ctx: LoweringContext, c: Contraction) -> None:
    """A convolution for each position of the output within a stride, or one for all of them."""
    op, rank = c.anchor.op, len(c.write.lens)
    assert isinstance(op, ConvolutionBackwards)
    source = channels_last(ctx, as_multiplied(ctx, ctx.view(c.operands[0]), c.origin), c.origin)
    kernel, before = c.operands[1].shape.lens[2:], [p[0] for p in both_sides(op.padding, rank - 2)]
    whole = c.epilogue((0, *range(2, rank)), 1)
    every = list(phases_of(whole, kernel, op.stride, op.dilation, before))
    at_once = phases_at_once(ctx, c, source, [phases for phases, _ in every])
    if at_once is not None:
        convolve(ctx, at_once, whole, c.anchor.name, c.origin)
        return
    for phases, epilogue in every:
        if not all(p.taps for p in phases):
            of_zeros(ctx, epilogue, c.origin)
            continue
        window = window_of(source, phases, epilogue.write)
        depthwise = op.group == source.lens[1] == c.write.lens[1]
        packed = _phase_weights(ctx, c, phases, op.group, depthwise)
        convolve(ctx, Conv(source, packed, window, op.group), epilogue, c.anchor.name, c.origin)


def phases_at_once(ctx: LoweringContext, c: Contraction, source: View, every: Sequence[Sequence[Phase]]) -> Conv | None:
    """The convolution of all phases, where each has as many taps; None where one has others."""
    op, w, constant, axes = c.anchor.op, c.operands[1].shape, ctx.constant(c.operands[1]), len(c.write.lens) - 2
    assert isinstance(op, ConvolutionBackwards)
    plain = constant is not None and op.group == 1 and {*op.dilation} == {1} and axes <= 2 and len(every) > 1
    if not plain or is_open((*source.lens, *c.write.lens)) or source.lens[1] < FEW_CHANNELS:
        return None
    whole = all(out == n * s for out, n, s in zip(c.write.lens[2:], source.lens[2:], op.stride, strict=True))
    (taps, *others) = {tuple(p.taps for p in phases) for phases in every}
    if not whole or others or w.type not in dtypes.FLOATS:
        return None
    assert constant is not None
    value, key = constant
    lens, type = (len(every) * w.lens[1], w.lens[0], *taps), multiplied(ctx, dtypes.from_numpy(value.dtype))
    make = lambda: np.concatenate([taps_of(value, phases, 1) for phases in every])  # noqa: E731
    packed = constant_weights(ctx, lens, make, (*key, "transposed", op.stride, op.padding), type, False)
    ones, first = (1,) * axes, [p[0] for p in both_sides(op.padding, axes)]
    window = Window.of(source.lens[2:], source.lens[2:], taps, ones, ones, [p.pad for p in every[0]])
    late = tuple(p % s for p, s in zip(first, op.stride, strict=True))
    lead = (1,) * (2 - axes), (0,) * (2 - axes)
    return Conv(source, packed, window, 1, upsampled=Upsampled(lead[0] + tuple(op.stride), lead[1] + late))


def _phase_weights(ctx: LoweringContext, c: Contraction, phases: Sequence[Phase], group: int, depthwise: bool) -> View:
    """Packed weights of a phase, from {C, O / group, kernel...}: channels exchanged, taps backwards."""
    constant = ctx.constant(c.operands[1])
    channels, ocg, *_ = c.operands[1].shape.lens
    lens = (group * ocg, channels // group, *(p.taps for p in phases))
    if constant is not None:
        w, key = constant
        type = multiplied(ctx, dtypes.from_numpy(w.dtype))
        which = (*key, "transposed", group, *((p.tap, p.step) for p in phases))
        return constant_weights(ctx, lens, lambda: taps_of(w, phases, group), which, type, depthwise)
    view = taps_at_run_time(as_multiplied(ctx, ctx.view(c.operands[1]), c.origin), phases, group)
    whole = ctx.standard(view, c.origin).reshaped(lens)
    assert whole is not None
    strides_of = [prod(lens[d + 1 :]) for d in range(len(lens))]
    return weights_at_run_time(ctx, replace(whole, strides=tuple(strides_of)), depthwise, c.origin)
