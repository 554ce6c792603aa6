"""Windows of an image as rows of a matrix."""

from __future__ import annotations

import math
from dataclasses import replace

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ops.vision import Im2col
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import NEUTRAL
from migraphx.targets.common.views import View


@NEUTRAL.of("im2col")
def im2col(ctx: LoweringContext, ins: Instruction) -> None:
    """Copies of the padded image: one view holds all windows, as the steps between them are regular."""
    op = ins.op
    assert isinstance(op, Im2col)
    view, kernel = ctx.view(ins.inputs[0]), ins.inputs[1].shape.lens[2:]
    before, behind = op.sides(view.lens[2:])
    lens = (*view.lens[:2], *(n + b + e for n, b, e in zip(view.lens[2:], before, behind, strict=True)))
    source = view
    if any((*before, *behind)):
        source = ctx.temporary(Shape(view.type, lens))
        fill(ctx, source, 0, ins.origin)
        middle = source
        for d, (b, n) in enumerate(zip(before, view.lens[2:], strict=True), 2):
            middle = middle.sliced(d, b, b + n)
        ctx.copy(view, middle, ins.origin)
    out = op.out_lens(view.lens[2:], kernel)
    steps = source.strides[2:]
    all_windows = replace(
        source,
        lens=(*out, view.lens[1], *kernel),
        strides=(
            *(s * step for s, step in zip(steps, op.stride, strict=True)),
            source.strides[1],
            *(s * d for s, d in zip(steps, op.dilation, strict=True)),
        ),
    )
    ctx.row_major(ins, lambda rows: ctx.copy(all_windows, _apart(rows, all_windows.lens), ins.origin))


def _apart(rows: View, lens: tuple[int, ...]) -> View:
    """{positions, columns} with both split into the dimensions that were merged."""
    seen = rows.reshaped(lens)
    assert seen is not None and math.prod(lens) == rows.elements
    return seen
