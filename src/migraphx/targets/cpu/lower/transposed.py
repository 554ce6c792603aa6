"""Transposed convolution: one convolution for each position of the output within a stride."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ops.convolution import ConvolutionBackwards, both_sides
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.transposed import Phase, of_zeros, phases_of, taps_at_run_time, taps_of, window_of
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
        window = window_of(source, phases, epilogue.write)
        packed = _weights(ctx, c, phases, op.group)
        params = conv_of(source, window, op.group, epilogue)
        ctx.call(conv_call(source, packed, params, epilogue, Engine(ctx.fast_math), c.origin))


def _weights(ctx: LoweringContext, c: Contraction, phases: Sequence[Phase], group: int) -> View:
    """Packed weights of a phase, from {C, O / group, kernel...}: channels exchanged, taps backwards."""
    constant = ctx.constant(c.operands[1])
    if constant is None:
        return packed_at_run_time(ctx, taps_at_run_time(ctx.view(c.operands[1]), phases, group), c.origin)
    w, key = constant
    return ctx.packed(
        (*key, "transposed", group, *((p.tap, p.step) for p in phases)),
        lambda: pack_conv(taps_of(w, phases, group), group, features_of(ctx).panel),
    )
