"""Transposed convolution: one convolution for each position of the output within a stride."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from migraphx.ops.convolution import ConvolutionBackwards, both_sides
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.transposed import Phase, of_zeros, phases_of
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import Engine, conv_call, conv_of
from migraphx.targets.cpu.lower.contractions import packed_at_run_time
from migraphx.targets.cpu.lower.registry import CPU, features_of
from migraphx.targets.cpu.pack.conv import pack_conv


@CPU.of_contraction("convolution_backwards")
def convolution_backwards(ctx: LoweringContext, c: Contraction) -> None:
    op, rank = c.anchor.op, len(c.write.lens)
    assert isinstance(op, ConvolutionBackwards)
    source, kernel = channels_last(ctx, ctx.view(c.operands[0]), c.origin), c.operands[1].shape.lens[2:]
    before = [p[0] for p in both_sides(op.padding, rank - 2)]
    whole = c.epilogue((0, *range(2, rank)), 1)
    for phases, epilogue in phases_of(whole, kernel, op.stride, op.dilation, before):
        if not all(p.taps for p in phases):
            of_zeros(ctx, epilogue, c.origin)
            continue
        window = Window.of(
            source.lens[2:], epilogue.write.lens[2:], [p.taps for p in phases], (1,) * len(phases),
            [p.dilation for p in phases], [p.pad for p in phases],
        )  # fmt: skip
        packed = _weights(ctx, c, phases, op.group)
        params = conv_of(source, window, op.group, epilogue)
        ctx.call(conv_call(source, packed, params, epilogue, Engine(ctx.fast_math), c.origin))


def _weights(ctx: LoweringContext, c: Contraction, phases: Sequence[Phase], group: int) -> View:
    """Packed weights of a phase, from {C, O / group, kernel...}: channels exchanged, taps backwards."""
    constant = ctx.constant(c.operands[1])
    if constant is None:
        view = ctx.view(c.operands[1])
        step, *strides = view.strides
        lens = (group, view.lens[0] // group, *view.lens[1:])
        view = replace(view, lens=lens, strides=(step * lens[1], step, *strides))
        view = view.transposed((0, 2, 1, *range(3, len(lens))))
        for d, p in enumerate(phases, 3):
            view = view.sliced(d, p.tap, view.lens[d], p.step)
            back = tuple(-s if k == d else s for k, s in enumerate(view.strides))
            view = replace(view, strides=back, offset=view.offset + (view.lens[d] - 1) * view.strides[d])
        return packed_at_run_time(ctx, view, c.origin)
    w, key = constant
    taps = tuple(slice(p.tap, None, p.step) for p in phases)

    def make() -> np.ndarray:
        channels, ocg, *kernel = w.shape
        transposed = w.reshape(group, channels // group, ocg, *kernel).swapaxes(1, 2)
        part = transposed.reshape(group * ocg, channels // group, *kernel)[(slice(None), slice(None), *taps)]
        return pack_conv(np.flip(part, tuple(range(2, part.ndim))), group, features_of(ctx).panel)

    return ctx.packed((*key, "transposed", group, *((p.tap, p.step) for p in phases)), make)
