"""Transposed convolution: one convolution for each position of the output within a stride."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ops.convolution import ConvolutionBackwards, both_sides
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lower.views import channels_last, fill
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.transposed import Phase, phases_of
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import Engine, conv_call, conv_of
from migraphx.targets.cpu.lower.contractions import packed_at_run_time
from migraphx.targets.cpu.lower.registry import CPU, features_of
from migraphx.targets.cpu.pack.conv import pack_conv


@CPU.of("convolution_backwards")
def convolution_backwards(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, ConvolutionBackwards)
    source, write = channels_last(ctx, ctx.view(ins.inputs[0]), ins.origin), ctx.result(ins)
    kernel, rank = ins.inputs[1].shape.lens[2:], len(write.lens)
    before = [p[0] for p in both_sides(op.padding, rank - 2)]
    for phases, part in phases_of(write, kernel, op.stride, op.dilation, before):
        if not all(p.taps for p in phases):
            fill(ctx, part, 0, ins.origin)
            continue
        window = Window.of(
            source.lens[2:], part.lens[2:], [p.taps for p in phases], (1,) * len(phases),
            [p.dilation for p in phases], [p.pad for p in phases],
        )  # fmt: skip
        packed = _weights(ctx, ins, phases, op.group)
        epilogue = Epilogue(None, (None,), part, (0, *range(2, rank)), 1)
        params = conv_of(source, window, op.group, epilogue)
        ctx.call(conv_call(source, packed, params, epilogue, Engine(ctx.fast_math), ins.origin))


def _weights(ctx: LoweringContext, ins: Instruction, phases: Sequence[Phase], group: int) -> View:
    """Packed weights of a phase, from {C, O / group, kernel...}: channels exchanged, taps backwards."""
    constant = ctx.constant(ins.inputs[1])
    if constant is None:
        view = ctx.view(ins.inputs[1])
        c, *strides = view.strides
        lens = (group, view.lens[0] // group, *view.lens[1:])
        view = replace(view, lens=lens, strides=(c * lens[1], c, *strides))
        view = view.transposed((0, 2, 1, *range(3, len(lens))))
        for d, p in enumerate(phases, 3):
            view = view.sliced(d, p.tap, view.lens[d], p.step)
            back = tuple(-s if k == d else s for k, s in enumerate(view.strides))
            view = replace(view, strides=back, offset=view.offset + (view.lens[d] - 1) * view.strides[d])
        return packed_at_run_time(ctx, view, ins.origin)
    w, key = constant
    taps = tuple(slice(p.tap, None, p.step) for p in phases)

    def make() -> np.ndarray:
        c, ocg, *kernel = w.shape
        transposed = w.reshape(group, c // group, ocg, *kernel).swapaxes(1, 2)
        part = transposed.reshape(group * ocg, c // group, *kernel)[(slice(None), slice(None), *taps)]
        return pack_conv(np.flip(part, tuple(range(2, part.ndim))), group, features_of(ctx).panel)

    return ctx.packed((*key, "transposed", group, *((p.tap, p.step) for p in phases)), make)
