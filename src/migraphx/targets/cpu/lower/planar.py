"""Convolutions of pictures: planar.hpp takes their few channels as planes, as they come, and gives channels last."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Instruction
from migraphx.targets.common.lower.views import contiguous
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import Convolution, planar_call
from migraphx.targets.cpu.emit.structs import Planar
from migraphx.targets.cpu.lower.depthwise import call_and_offer
from migraphx.targets.cpu.lower.registry import CPU, features_of
from migraphx.targets.cpu.pack.conv import pack_planar

CHANNELS, COLUMNS = 4, 7  # at most, of a picture and of a filter: from 8 on products of pixels are deep enough


@CPU.of("contiguous", "layout")
def laid_out(ctx: LoweringContext, ins: Instruction) -> None:
    """Nothing, where all that reads it takes planes as well; else a copy."""
    view = ctx.view(ins.inputs[0])
    if ins not in ctx.output_views and all(_reads_planes(ctx, user, ins, view) for user in ins.users):
        ctx.views[ins] = view
    else:
        contiguous(ctx, ins)


def planar(ctx: LoweringContext, c: Contraction) -> bool:
    """Whether planar.hpp computes a convolution; it is called then."""
    x, weights, attributes = ctx.view(c.operands[0]), c.operands[1], c.anchor.op.attributes()
    constant = ctx.constant(weights)
    if constant is None or not _takes_planes(c.anchor, x, weights.shape.lens):
        return False
    (n, ic, in_h, in_w), (_, oc, out_h, out_w), (_, _, kernel_h, kernel_w) = x.lens, c.write.lens, weights.shape.lens
    (x_image, x_plane, x_row, _), (stride_h, stride_w) = x.strides, attributes["stride"]
    pad_h, pad_w = attributes["padding"][:2]
    params = Planar(
        n, ic, oc, x_image, x_plane, x_row, in_h, in_w, out_h, out_w, kernel_h, stride_h, pad_h, pad_w
    )  # fmt: skip
    value, key = constant
    packed = ctx.packed((*key, "planar"), lambda: pack_planar(value, features_of(ctx).panel))
    shape = kernel_w, stride_w, *params.tiles
    epilogue = c.epilogue((0, 2, 3), 1)
    call = planar_call(x, packed, params, shape, epilogue, c.origin)
    call_and_offer(ctx, Convolution(call, x, packed, params, epilogue, shape=shape), c.write.type == "float")
    return True


def _takes_planes(convolution: Instruction, x: View, weights: Sequence[int]) -> bool:
    """Whether planar.hpp takes a convolution of `x` with constant weights of such lens."""
    attributes = convolution.op.attributes()
    if len(x.lens) != 4 or x.type != "float" or x.strides[3] != 1:
        return False
    oc, ic, _, kernel_w = weights
    few = 0 < ic <= CHANNELS and ic < oc and kernel_w <= COLUMNS
    return few and attributes["group"] == 1 and all(d == 1 for d in attributes["dilation"])


def _reads_planes(ctx: LoweringContext, user: Instruction, image: Instruction, x: View) -> bool:
    """Whether a convolution, which may have an epilogue, reads an image as its first operand only, in planes."""
    inside = {i: i for i in user.inputs}
    if user.name == "group":
        (body,) = user.modules
        inside = dict(zip(body.parameters.values(), user.inputs, strict=True))
        user = next(i for i in body if not i.name.startswith("@"))
    if user.name != "convolution" or [*inside.values()].count(image) != 1:
        return False
    first, weights = (inside[i] for i in user.inputs)
    known = first is image and ctx.constant(weights) is not None
    return known and _takes_planes(user, x, weights.shape.lens)
