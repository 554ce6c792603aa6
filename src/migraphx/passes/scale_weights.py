"""Gates of channels that go into the weights behind them."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import is_open, likely_less
from migraphx.passes.constants import compact, is_constant
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import rewrite, rewrites

LEAST = 8  # pixels for each output channel: the weights are scaled and packed at every run


def _within_one(gate: Instruction) -> bool:
    """Whether no number is larger than 1: a sigmoid, or a clamp whose upper limit says so."""
    limits = [i for i in gate.inputs if is_constant(i)] if gate.name == "min" else []
    floors = [i for other in gate.inputs if other.name == "max" for i in other.inputs if is_constant(i)]
    clamped = limits and floors and compact(limits[0]).max() <= 1 and compact(floors[0]).min() >= -1
    return gate.name == "sigmoid" or bool(clamped)


@rewrites(lambda b, x, gate, w: b.convolution(b.once(b.mul(x, b.multibroadcast(gate))), b.constant("w")))
def gate_before_convolution(
    b: Builder, x: Instruction, gate: Instruction, w: Instruction, root: Instruction
) -> Instruction | Refuse:
    """convolution(x * gate, w) -> convolution(x, w * gate), the gate one number for each channel, none above 1"""
    (outputs, channels, *kernel), (images, _, *pixels) = w.shape.lens, root.shape.lens
    if gate.shape.lens != (1, channels, *(1 for _ in kernel)) or is_open(images) or images != 1:
        return Mismatch("not a gate of the channels of one image")
    if x.shape.type != "float" or any(k != 1 for k in kernel):
        return Refuse("the weights are not of a 1x1 convolution of floats")
    if not _within_one(gate):
        return Refuse("numbers of the gate may be larger than 1, and products overflow")
    count = 1
    for length in pixels:
        count *= length
    if likely_less(count, LEAST * outputs):
        return Refuse("few pixels share the weights")
    scaled = b.mul(w, b.multibroadcast(gate, out_lens=w.shape.lens))
    return b.convolution(x, scaled, **root.op.attributes())


def scale_weights(module: Module) -> Refusals:
    """What multiplies the channels of a large image (squeeze-and-excitation) multiplies the few weights instead.

    before:
        x = @param:x -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        s = @param:s -> float_type, {1, 2, 1, 1}, {2, 1, 1, 1}
        @2 = @literal{3, 5, 7, 9} -> float_type, {2, 2, 1, 1}, {2, 1, 1, 1}
        @3 = sigmoid(s)
        @4 = multibroadcast[out_lens={1, 2, 4, 4},out_dyn_dims={}](@3)
        @5 = mul(x,@4)
        @6 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](@5,@2)
        @7 = @return(@6)

    after:
        x = @param:x -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        s = @param:s -> float_type, {1, 2, 1, 1}, {2, 1, 1, 1}
        @2 = @literal{3, 5, 7, 9} -> float_type, {2, 2, 1, 1}, {2, 1, 1, 1}
        @3 = sigmoid(s)
        @4 = multibroadcast[out_lens={2, 2, 1, 1},out_dyn_dims={}](@3)
        @5 = mul(@2,@4)
        @6 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@5)
        @7 = @return(@6)
    """
    return rewrite(module, [gate_before_convolution])
