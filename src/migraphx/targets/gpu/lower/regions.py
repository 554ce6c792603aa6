"""Regions of interest, boxes that overlap, determinants."""

from __future__ import annotations

import math

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ops.vision import NonMaxSuppression, RoiAlign
from migraphx.targets.common.lower.views import fill
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import call_of
from migraphx.targets.gpu.emit.tiles import blocks, power_of_two
from migraphx.targets.gpu.lower.registry import GPU

BLOCK = 128  # bins of a program: each is a loop over its samples
BOXES = 1024  # that a program looks at together


@GPU.of("roialign")
def roialign(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, RoiAlign)
    data, rois, images = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    image = ctx.check(f"{described(ins)}: the image of a region is not one of {data.lens[0]}")
    most = op.MOST_SAMPLES
    samples = ctx.check(f"{described(ins)}: the samples of a bin of a region, or NaN, are more than {most}")
    numbers = (ins.shape.elements, *data.lens, image, samples)
    constants = {
        "SCALE": op.spatial_scale,
        "HALF": op.coordinate_transformation_mode == "half_pixel",
        "LARGEST": op.mode == "max",
        "SAMPLES": op.sampling_ratio,
        "MOST": most,
        "OUT_HEIGHT": op.output_height,
        "OUT_WIDTH": op.output_width,
        "TYPE": data.type,
        "BLOCK": BLOCK,
    }
    programs = blocks(ins.shape.elements, BLOCK)

    def write(out: View) -> None:
        reads, writes = (data, rois, images), (out, ctx.status)
        ctx.call(call_of("roi_align", reads, writes, numbers, constants, programs, ins.name, ins.origin))

    ctx.row_major(ins, write)


@GPU.of("nonmaxsuppression")
def non_max_suppression(ctx: LoweringContext, ins: Instruction) -> None:
    """With as many rows as there may be: where the rows are those found, it runs on the host."""
    op = ins.op
    assert isinstance(op, NonMaxSuppression)
    reads = [ctx.standard(v, ins.origin) for v in ctx.reads(ins)]
    images, classes, count = reads[1].lens
    rows = images * classes
    picks, counts, free = (
        ctx.temporary(Shape(t, (rows, n))) for t, n in (("int64", count), ("int32", 1), ("uint8", count))
    )
    block = min(BOXES, power_of_two(count))
    types = dict(zip(("BOX", "SCORE", "OVERLAP", "LEAST"), (reads[k].type for k in (0, 1, 3, 4)), strict=True))
    constants = {"CENTERED": op.center_point_box, **types, "BLOCK": block}

    def write(out: View) -> None:
        fill(ctx, out, 0, ins.origin)
        if out.elements:
            numbers, label = (classes, count), ins.name
            ctx.call(call_of("best_boxes", reads, (picks, counts, free), numbers, constants, rows, label, ins.origin))
            numbers, constants_of_copy = (rows, classes, count), {"BLOCK": block}
            found = (picks, counts)
            ctx.call(call_of("kept_boxes", found, (out,), numbers, constants_of_copy, rows, label, ins.origin))

    ctx.row_major(ins, write)


@GPU.of("det")
def det(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)
    n, count = view.lens[-1], math.prod(view.lens[:-2])
    memory = ctx.temporary(Shape("double", (max(count, 1), max(n, 1), max(n, 1))))
    width = power_of_two(n)
    constants = {"TYPE": view.type, "N": width, "ROWS": max(1, min(width, 1024 // width))}
    ctx.row_major(
        ins, lambda out: ctx.call(call_of("det", (view,), (out, memory), (n,), constants, count, "det", ins.origin))
    )
