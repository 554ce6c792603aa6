"""Resampling, axis by axis or both axes of an image at once, and normalisation over channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ir.size import likely_less
from migraphx.ops.vision import Resize
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.lower.views import channels_last
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.contract import resize_call, resize_planes_call
from migraphx.targets.cpu.emit.indexing import around, simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.scalar import COMPUTE_TYPES
from migraphx.targets.cpu.emit.structs import Lrn, Resample
from migraphx.targets.cpu.lower.registry import CPU

IMAGES = ("float", "half", "bf16")
Taps = tuple[np.ndarray, np.ndarray]
"""Indices {taps, out} along an axis and their weights."""


@CPU.of("resize")
def resize(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, Resize)
    view = ctx.view(ins.inputs[0])
    taps = {d: t for d in range(len(view.lens)) if (t := op.taps(view.lens, d)) is not None}
    if not taps:
        ctx.copy(view, ctx.result(ins), ins.origin)
    elif op.repeats(view.lens):
        ctx.copy(view.expanded(ins.shape.lens), ctx.result(ins), ins.origin)
    elif len(view.lens) == 4 and [*taps] == [2, 3] and view.type in IMAGES and _as_many(*taps.values()):
        _image(ctx, ins, view, taps)
    else:
        _axis_by_axis(ctx, ins, view, taps)


def _as_many(rows: Taps, columns: Taps) -> bool:
    """Whether both axes have as many taps: with antialias one that shrinks has more."""
    return len(rows[0]) == len(columns[0])


def _image(ctx: LoweringContext, ins: Instruction, view: View, taps: Mapping[int, Taps]) -> None:
    """Both axes at once, in the order in which the result is written; a smaller source is copied into it."""
    write = ctx.result(ins)
    indices, weights = zip(*(_samples(ctx, ins, d, t, view.type) for d, t in taps.items()), strict=True)
    grows = not likely_less(write.elements, view.elements)
    if write.strides[3] == 1 and write.strides[1] != 1 and (view.standard or grows):
        epilogue = Epilogue(None, (None,), write, (0, 1, 2), 3)
        ctx.call(resize_planes_call(ctx.standard(view, ins.origin), indices, weights, epilogue, ins.origin))
    else:
        epilogue = Epilogue(None, (None,), write, (0, 2, 3), 1)
        ctx.call(resize_call(channels_last(ctx, view, ins.origin), indices, weights, epilogue, ins.origin))


def _samples(ctx: LoweringContext, ins: Instruction, axis: int, taps: Taps, type: str) -> tuple[np.ndarray, View]:
    """Indices and weights along an axis, each {out, taps}."""
    wide = np.float64 if type == "double" else np.float32
    key = ("resize", ins.op, ins.inputs[0].shape.lens, axis, wide)
    return taps[0].T, ctx.packed(key, lambda: np.ascontiguousarray(taps[1].T, wide))


def _axis_by_axis(ctx: LoweringContext, ins: Instruction, view: View, taps: Mapping[int, Taps]) -> None:
    """One kernel an axis, in the order of memory; sums in between are not rounded to the element's type."""
    order = ins.shape.permutation  # as the result lies
    source = ctx.standard(view.transposed(order), ins.origin)
    nearest = ins.op.attributes()["mode"] == "nearest"
    between = source.type if nearest else COMPUTE_TYPES[source.type]
    result = ctx.result(ins).transposed(order)
    for n, axis in enumerate(taps):
        at, last = order.index(axis), n + 1 == len(taps)
        lens = (*source.lens[:at], ins.shape.lens[axis], *source.lens[at + 1 :])
        write = result if last and result.standard else ctx.temporary(Shape(view.type if last else between, lens))
        index, weight = _samples(ctx, ins, axis, taps[axis], view.type)
        outer, length, inner = around(source.lens, at)
        numbers = Numbers()
        fill = Resample(outer, length, lens[at], inner).cpp(numbers)
        head = f"resample<{index.shape[1]}>(t, {fill}, p0, {numbers.all(index.ravel())}, p1, p2);"
        ctx.call(simple_call(head, (source, weight), (write,), numbers, "resize", ins.origin, "resize.hpp"))
        source = write
    if source.buffer is not result.buffer:
        ctx.copy(source, result, ins.origin)


@CPU.of("lrn")
def lrn(ctx: LoweringContext, ins: Instruction) -> None:
    view, attributes = ctx.view(ins.inputs[0]), ins.op.attributes()
    n, c, *spatial = view.lens
    flat = view if spatial else replace(view, lens=(n, c, 1), strides=(*view.strides, view.strides[0]))
    source = channels_last(ctx, flat, ins.origin)
    pixels = n * math.prod(spatial)
    order = (0, *range(2, len(view.lens)), 1)
    result = ctx.result(ins).transposed(order)
    write = result if result.standard else ctx.temporary(Shape(view.type, result.lens))
    numbers, factors = Numbers(), (attributes[name] for name in ("alpha", "beta", "bias"))
    fill = Lrn(pixels, c, source.strides[-1], attributes["size"], *factors).cpp(numbers)
    head = f"lrn<{COMPUTE_TYPES[view.type]}>(t, {fill}, p0, p1, scratch);"
    scratch = f"lrn_scratch({fill['c']}, {fill['size']})"
    ctx.call(simple_call(head, (source,), (write,), numbers, "lrn", ins.origin, "lrn.hpp", scratch))
    if write is not result:
        ctx.copy(write, result, ins.origin)
