"""Taps of a convolution that read nothing but padding: wide dilations over small images, depths of one frame."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import is_open
from migraphx.ops.convolution import both_sides
from migraphx.passes.rewrite import rewrites

Answer = Instruction | Refuse
EACH_IS_INSIDE = Mismatch("no tap is outside at every pixel")


@rewrites(lambda b, x, w: b.one_of(("convolution", "quant_convolution"), x, w))
def trim_window(b: Builder, x: Instruction, w: Instruction, root: Instruction) -> Answer:
    """convolution(x, w) -> convolution(x, slice(w)) where the outer taps lie outside the image at every pixel

    A weight that is not finite counts no more where it would meet nothing but zeros.
    """
    attributes, rank = root.op.attributes(), x.shape.ndim - 2
    if is_open(x.shape.lens[2:]):
        return EACH_IS_INSIDE
    kept: list[range] = []
    padding: list[tuple[int, int]] = []
    axes = zip(both_sides(attributes["padding"], rank), attributes["stride"], attributes["dilation"], strict=True)
    for d, ((before, behind), stride, dilation) in enumerate(axes, 2):
        length, last = x.shape.lens[d], (root.shape.lens[d] - 1) * stride
        taps = range(w.shape.lens[d])
        inside = [k for k in taps if -last <= k * dilation - before < length]
        some = range(inside[0], inside[-1] + 1) if inside else taps
        kept.append(some)
        padding.append((before - some.start * dilation, behind - (len(taps) - some.stop) * dilation))
    if all(len(some) == n for some, n in zip(kept, w.shape.lens[2:], strict=True)):
        return EACH_IS_INSIDE
    if any(p < 0 for sides in padding for p in sides):
        return Refuse("the other taps do not reach the whole image")
    attributes["padding"] = [p for side in zip(*padding, strict=True) for p in side]
    starts, ends = [some.start for some in kept], [some.stop for some in kept]
    less = b.slice(w, axes=[*range(2, rank + 2)], starts=starts, ends=ends)
    return b.instruction(root.name, [x, less], **attributes)
