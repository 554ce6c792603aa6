"""Regions of interest, boxes that overlap, windows as rows, determinants."""

from __future__ import annotations

import math
from dataclasses import replace

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ops.vision import Im2col, NonMaxSuppression, RoiAlign
from migraphx.targets.common.lower.views import fill
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


@CPU.of("im2col")
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
