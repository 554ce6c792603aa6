"""Regions of interest, boxes that overlap, determinants."""

from __future__ import annotations

import math

from migraphx.ir.module import Instruction
from migraphx.ops.vision import NonMaxSuppression, RoiAlign
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit import structs
from migraphx.targets.cpu.emit.indexing import simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.lower.registry import CPU


@CPU.of("roialign")
def roialign(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, RoiAlign)
    data, rois, images = (ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    image = ctx.check(f"{described(ins)}: the image of a region is not one of {data.lens[0]}")
    most = op.MOST_SAMPLES
    samples = ctx.check(f"{described(ins)}: the samples of a bin of a region, or NaN, are more than {most}")
    numbers = Numbers()
    batch, channels, height, width = data.lens
    fill = structs.RoiAlign(
        rois=rois.lens[0],
        images=batch,
        channels=channels,
        height=height,
        width=width,
        out_height=op.output_height,
        out_width=op.output_width,
        samples=op.sampling_ratio,
        image_check=image,
        samples_check=samples,
        most=most,
        scale=op.spatial_scale,
        half=op.coordinate_transformation_mode == "half_pixel",
        largest=op.mode == "max",
    ).cpp(numbers)
    head = f"roi_align(t, {fill}, p0, p1, p2, p3, p4);"

    def write(out: View) -> None:
        reads, writes = (data, rois, images), (out, ctx.status)
        ctx.call(simple_call(head, reads, writes, numbers, ins.name, ins.origin, "regions.hpp"))

    ctx.row_major(ins, write)


@CPU.of("nonmaxsuppression")
def non_max_suppression(ctx: LoweringContext, ins: Instruction) -> None:
    """With room for all rows. The form whose length depends on data runs on the host."""
    op = ins.op
    assert isinstance(op, NonMaxSuppression)
    reads = [ctx.standard(v, ins.origin) for v in ctx.reads(ins)]
    numbers = Numbers()
    batch, classes, boxes = reads[1].lens
    fill = structs.Suppression(batch, classes, boxes, op.center_point_box).cpp(numbers)
    head = f"suppress(t, {fill}, p0, p1, p2, p3, p4, p5, scratch);"

    def write(out: View) -> None:
        scratch = f"{fill['boxes']} * int64_t(sizeof(regions::Box))"
        ctx.call(simple_call(head, reads, (out,), numbers, ins.name, ins.origin, "regions.hpp", scratch))

    ctx.row_major(ins, write)


@CPU.of("det")
def det(ctx: LoweringContext, ins: Instruction) -> None:
    view = ctx.standard(ctx.view(ins.inputs[0]), ins.origin)
    numbers = Numbers()
    fill = structs.Det(math.prod(view.lens[:-2]), view.lens[-1]).cpp(numbers)
    head = f"det(t, {fill}, p0, p1, scratch);"

    def write(out: View) -> None:
        scratch = f"{fill['n']} * {fill['n']} * int64_t(sizeof(double))"
        ctx.call(simple_call(head, (view,), (out,), numbers, "det", ins.origin, "linalg.hpp", scratch))

    ctx.row_major(ins, write)
