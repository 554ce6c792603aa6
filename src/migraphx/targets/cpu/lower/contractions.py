"""Operators that compute: pointwise, reductions, dots, convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operation
from migraphx.ir.refusal import Refuse
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.size import is_open, likely_less
from migraphx.ops.reduce import Reduction
from migraphx.targets.common.constants import shared_matrix
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.lower.views import channels_last, fill
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import Loops, View, loops
from migraphx.targets.cpu.emit.contract import (
    Engine,
    conv_of,
    dot_call,
    gemm_call,
    winograd_call,
)
from migraphx.targets.cpu.emit.reduce import reduce_call
from migraphx.targets.cpu.emit.structs import Conv
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.lower.depthwise import convolved, depthwise, in_lanes
from migraphx.targets.cpu.lower.picked import picked, picked_dot
from migraphx.targets.cpu.lower.planar import planar
from migraphx.targets.cpu.lower.registry import CPU, features_of, pick
from migraphx.targets.cpu.lower.vnni import groups_fill_lanes, vnni_convolution, vnni_dot
from migraphx.targets.cpu.pack.conv import pack_conv
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.winograd import pack_winograd, pack_winograd_taps

BLOCKS = (str(constant("ROW_BLOCK", "engine.hpp")), "60")  # rows of a product that are worked on together
MOST_BATCHES = 4  # dimensions of batched_dot in gemm.hpp
MANY_ROWS = {"half": 8, "bf16": 32}
AMX_LEAST_DEPTH = constant("AMX_LEAST_DEPTH", "amx.hpp")


@CPU.of("fused_reduce")
def fused_reduce(ctx: LoweringContext, ins: Instruction) -> None:
    axes = ins.op.attributes()["axes"]
    (module,) = ins.modules
    reads, write = ctx.reads(ins), ctx.result(ins)
    for body, of, to, over in _in_two_steps(ctx, module, axes, reads, write):
        ctx.call(reduce_call(body, over, of, to, ins.origin))


STEP_ELEMENTS = 1 << 16  # from so many elements on a reduction of columns is shared by rows
STEP_LINES = 8


def _in_two_steps(
    ctx: LoweringContext, module: Module, axes: Sequence[int], reads: Sequence[View], write: View
) -> Iterator[tuple[Module, Sequence[View], View, Sequence[int]]]:
    """Bodies, what they read and write, and their axes.

    A reduction over the pixels of a channels-last image is split in two: over the pixels of each line, then over the
    lines. Threads take lines, as they did when they wrote the image, and few channels keep all threads busy.
    """
    (last,) = module.outputs
    alone = [i for i in module if isinstance(i.op, Reduction)] == [last]
    full = last.inputs[0].shape.elements
    view = next((v for v in reads if v.elements == full and all(v.strides)), reads[0])
    long = [a for a in axes if view.lens[a] > 1]
    along = min((view.strides[a] for a in long), default=0)
    across = min((s for d, s in enumerate(view.strides) if d not in axes and view.lens[d] > 1), default=0)
    outer = max(long, key=lambda a: view.strides[a], default=0)
    suits = alone and len(long) > 1 and across == 1 < along and last.shape.type in ("float", "double")
    if not suits or likely_less(view.elements, STEP_ELEMENTS) or view.lens[outer] < STEP_LINES:
        yield module, reads, write, axes
        return
    inner = tuple(a for a in axes if a != outer)
    lens = tuple(1 if a in inner else n for a, n in enumerate(view.lens))
    order = tuple(sorted(range(len(lens)), key=lambda d: -view.strides[d]))
    lines = ctx.temporary(permuted(last.shape.type, lens, order))
    yield _over(module, inner), reads, lines, inner
    yield _reduction(last.name, lines, (outer,)), (lines,), write, (outer,)


def _over(module: Module, axes: Sequence[int]) -> Module:
    """A body whose output is its one reduction, over other axes."""
    body = module.clone()
    (last,) = body.outputs
    body.replace_operation(last, operation(last.name, axes=tuple(axes)), last.inputs)
    body.replace_return([last])
    return body


def _reduction(name: str, view: View, axes: Sequence[int]) -> Module:
    body = Module(name)
    value = body.add_parameter("x0", Shape(view.type, view.lens))
    body.add_return([body.add_instruction(operation(name, axes=tuple(axes)), [value])])
    return body


@CPU.of_contraction("dot")
def dot(ctx: LoweringContext, c: Contraction) -> None:
    if (of := picked(ctx, c.operands[1])) is not None:
        picked_dot(ctx, c, of)
        return
    rank, origin = len(c.write.lens), c.origin
    epilogue = c.epilogue(range(rank - 1), rank - 1)
    a, constant = ctx.view(c.operands[0]), ctx.constant(c.operands[1])
    matrix = None if constant is None else shared_matrix(constant[0])
    if constant is not None and matrix is None:
        ctx.refuse(c.anchor, "packed weights", Refuse("each batch has a matrix of its own"))
    if matrix is not None:
        if a.type == "bf16" and features_of(ctx).bf16_words:
            vnni_dot(ctx, a, matrix, epilogue, "dot", origin)
            return
        rows, name = loops([a], None, range(rank - 1)), "dot"
        if not at_one_step(a, rows) and pick(ctx, "rows", ("as they lie", "copied")) == "copied":
            a = ctx.standard(a, origin)
            rows = loops([a], None, range(rank - 1))
        if at_one_step(a, rows):
            k, n = matrix.shape
            if widens(ctx, a, rows.lens[0], splits(ctx, a, k, 1)):
                a, name = as_floats(ctx, a, origin), "float dot"
                rows = loops([a], None, range(rank - 1))
            nr, key = features_of(ctx).panel, (ctx.identity(matrix), name)  # the same for any number of batches
            packed = ctx.packed(key, lambda: pack_dot(matrix.astype(dtypes.to_numpy(a.type), copy=False), nr))
            sizes = (rows.lens[0], n, k, rows.strides[0][0])
            ctx.call(gemm_call(a, packed, sizes, epilogue, engine_for(ctx, a, rows.lens[0]), origin))
            return
        ctx.refuse(c.anchor, "packed weights", Refuse("the rows that they multiply are not at one step"))
    b = ctx.view(c.operands[1])
    if loops([a, b], None, range(rank - 2)).rank > MOST_BATCHES:
        a, b = ctx.standard(a, origin), ctx.standard(b, origin)
    ctx.call(dot_call(a, b, epilogue, origin))


def at_one_step(a: View, rows: Loops) -> bool:
    """Whether the rows of a product follow each other at one step, each without gaps, as gemm.hpp takes them."""
    return rows.rank == 1 and (a.strides[-1] == 1 or a.lens[-1] == 1)


def widens(ctx: LoweringContext, view: View, rows: int, split: bool) -> bool:
    """Whether narrow floats become floats first, which are quicker to multiply, from so many rows on.

    `split`: AMX takes them as they are.
    """
    if view.type not in MANY_ROWS:
        return False
    wide = rows >= MANY_ROWS[view.type] and not split
    return pick(ctx, "type", ("float", view.type) if wide else (view.type, "float")) == "float"


def engine_for(ctx: LoweringContext, view: View, rows: int) -> Engine:
    """How products of so many rows are computed."""
    fast = ctx.fast_math
    if fast and features_of(ctx).amx and view.type in ("float", "half"):
        fast = pick(ctx, "unit", ("amx", "vectors")) == "amx"
    block = BLOCKS[0] if is_open(rows) or rows <= int(BLOCKS[-1]) else pick(ctx, "block", BLOCKS)
    return Engine(fast, 0 if block == BLOCKS[0] else int(block))


def splits(ctx: LoweringContext, view: View, depth: int, group: int) -> bool:
    """Whether amx.hpp takes many rows of half as they are."""
    suits = view.type == "half" and depth >= AMX_LEAST_DEPTH and group == 1
    return suits and ctx.fast_math and features_of(ctx).amx


def as_floats(ctx: LoweringContext, view: View, origin: str) -> View:
    """A copy, in the same order: what is read many times is widened once."""
    order = sorted(range(len(view.lens)), key=lambda d: -view.strides[d])
    wide = ctx.temporary(permuted("float", view.lens, order))
    ctx.convert(view, wide, origin)
    return wide


@CPU.of_contraction("convolution")
def convolution(ctx: LoweringContext, c: Contraction) -> None:
    if planar(ctx, c):
        return
    attributes, write, origin = c.anchor.op.attributes(), c.write, c.origin
    source = channels_last(ctx, ctx.view(c.operands[0]), origin)
    weights = c.operands[1].shape.lens
    constant = ctx.constant(c.operands[1])
    epilogue = c.epilogue((0, *range(2, len(write.lens))), 1)
    window = Window.of(
        source.lens[2:],
        write.lens[2:],
        weights[2:],
        attributes["stride"],
        attributes["dilation"],
        attributes["padding"],
    )
    n_groups, features = attributes["group"], features_of(ctx)
    nr = features.panel
    if in_lanes(source, write, n_groups, features.lanes):
        depthwise(ctx, c, source, window, epilogue)
        return
    if (
        constant is not None
        and source.type == "bf16"
        and features.bf16_words
        and groups_fill_lanes(constant[0], n_groups)
    ):
        vnni_convolution(ctx, source, *constant, attributes, epilogue, "convolution", origin)
        return
    depth, rows = prod(weights[1:]), source.lens[0] * prod(window.out)
    if constant is not None and widens(ctx, source, rows, splits(ctx, source, depth, n_groups)):
        source = channels_last(ctx, as_floats(ctx, source, origin), origin)
        constant = constant[0].astype(np.float32), (*constant[1], "float")
    params = conv_of(source, window, n_groups, epilogue)
    if takes_winograd(ctx, c, params, source, constant) and constant is not None:
        (value, key), taps = constant, params.suits_winograd_of_taps
        kind, pack = ("winograd taps", pack_winograd_taps) if taps else ("winograd", pack_winograd)
        packed = ctx.packed((*key, kind), lambda: pack(value, nr))
        ctx.call(winograd_call(source, packed, params, epilogue, origin, taps))
        return
    how = engine_for(ctx, source, rows)
    if constant is None:
        packed = packed_at_run_time(ctx, split(ctx.view(c.operands[1]), 0, weights[0] // n_groups), origin)
    else:
        value, key = constant
        packed = ctx.packed((*key, "convolution", n_groups), lambda: pack_conv(value, n_groups, nr))
    convolved(ctx, c, source, packed, params, epilogue, how)


def takes_winograd(
    ctx: LoweringContext, c: Contraction, params: Conv, source: View, weights: tuple[np.ndarray, tuple[Any, ...]] | None
) -> bool:
    """Whether winograd.hpp computes a convolution; of other 3x3 ones the reason is noted."""
    if not params.winograd_kernel:
        return False
    why = ""
    if weights is None:
        why = Refuse("the weights are not constant")
    elif not ctx.fast_math:
        why = Refuse("fast_math=False")
    elif source.type != "float":
        why = Refuse("it computes in float only")
    elif not params.fits_winograd:
        why = Refuse("the stride, dilation or groups are not 1")
    else:
        suits = params.suits_winograd or params.suits_winograd_of_taps
        ways = ("winograd", "direct") if suits else ("direct", "winograd")
        if pick(ctx, "convolution", ways) == "direct":
            few = Refuse("too few pixels or channels share the transforms")
            why = Refuse("it was slower when it was measured") if suits else few
        elif not np.isfinite(weights[0]).all():
            why = Refuse("weights that are not finite")
    if why:
        ctx.refuse(c.anchor, "winograd", why)
    return not why


def split(view: View, d: int, inner: int) -> View:
    """Dimension d as two, the inner one of this length."""
    lens = (*view.lens[:d], view.lens[d] // inner, inner, *view.lens[d + 1 :])
    return replace(view, lens=lens, strides=(*view.strides[:d], view.strides[d] * inner, *view.strides[d:]))


def packed_at_run_time(ctx: LoweringContext, weights: View, origin: str) -> View:
    """Weights {group, OC / group, IC / group, spatial...} that are not constant, packed as pack_conv does."""
    group, ocg, icg, *kernel = weights.lens
    nr, rank = features_of(ctx).panel, len(weights.lens)
    whole, panels = ocg // nr, -(-ocg // nr)
    out = ctx.temporary(Shape(weights.type, (group, panels, *kernel, icg, nr)))
    if whole < panels:
        fill(ctx, out, 0, origin)
        last = weights.sliced(1, whole * nr, ocg)
        last = split(last, 1, ocg - whole * nr).transposed((0, 1, *range(4, rank + 1), 3, 2))
        place = out.sliced(1, whole, panels).sliced(rank, 0, ocg - whole * nr)
        ctx.copy(last, place, origin)
    if whole:
        panels_of = split(weights.sliced(1, 0, whole * nr), 1, nr)
        ctx.copy(panels_of.transposed((0, 1, *range(4, rank + 1), 3, 2)), out.sliced(1, 0, whole), origin)
    return out
