"""Products of int8 and bf16 in the VNNI layout: quant.hpp takes 32-bit lanes of neighbours along the depth."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.targets.common.epilogue import Epilogue, Window
from migraphx.targets.common.lower.views import channels_last, fill, image
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View, loops
from migraphx.targets.cpu.emit.contract import conv_of
from migraphx.targets.cpu.emit.quantized import vnni_conv_call, vnni_gemm_call, vnni_winograd_call
from migraphx.targets.cpu.lower.registry import features_of, pick
from migraphx.targets.cpu.pack.vnni import pack_vnni, pack_vnni_conv
from migraphx.targets.cpu.pack.winograd import pack_winograd_words


def vnni_dot(ctx: LoweringContext, a: View, weights: np.ndarray, epilogue: Epilogue, label: str, origin: str) -> None:
    """`a` {.., M, K} times constant weights {K, N}."""
    k, n = weights.shape
    packed = ctx.packed((ctx.identity(weights), "words"), lambda: pack_vnni(weights[None], features_of(ctx).panel))
    a, rows, step = _lane_aligned_rows(ctx, a, origin)
    each = 4 // a.itemsize
    ctx.call(vnni_gemm_call(a, packed, (rows, n, -(-k // each), step // each), epilogue, label, origin))


def _lane_aligned_rows(ctx: LoweringContext, a: View, origin: str) -> tuple[View, int, int]:
    """`a` {.., M, K} with rows of whole 32-bit lanes at one step, or such a copy; the rows, the step."""
    rank, k, each = len(a.lens), a.lens[-1], 4 // a.itemsize
    rows = loops([a], None, range(rank - 1))
    step = rows.strides[0][0] if rows.lens[0] > 1 else 0
    if rows.rank == 1 and a.strides[-1] == 1 and k % each == step % each == 0:
        return a, rows.lens[0], step
    wide = ctx.temporary(Shape(a.type, (*a.lens[:-1], -(-k // each) * each)))
    _copy_padded(ctx, a, wide, rank - 1, origin)
    return wide, prod(a.lens[:-1]), wide.lens[-1]


def vnni_convolution(
    ctx: LoweringContext,
    source: View,
    weights: np.ndarray,
    key: tuple,
    attributes: Mapping[str, Any],
    epilogue: Epilogue,
    label: str,
    origin: str,
) -> None:
    """`source` {N, C, spatial...} with constant weights {OC, IC / g, spatial...}; groups fill lanes."""
    group = attributes["group"]
    source = channels_last(ctx, source, origin)
    n, c, *spatial = source.lens
    each = 4 // source.itemsize
    if c % each or source.strides[-1] % each:
        wide = image(ctx, source.type, (n, -(-c // each) * each, *spatial))
        _copy_padded(ctx, source, wide, 1, origin)
        source = wide
    steps = (attributes["stride"], attributes["dilation"], attributes["padding"])
    window = Window.of(spatial, epilogue.write.lens[2:], weights.shape[2:], *steps)
    params, features = conv_of(source, window, group, epilogue, each), features_of(ctx)
    if features.pairs and source.itemsize == 1 and params.fits_winograd_of_words:
        ways = ("winograd", "direct") if params.suits_winograd_of_words else ("direct", "winograd")
        if pick(ctx, "convolution", ways) == "winograd":
            packed = ctx.packed((*key, "word winograd"), lambda: pack_winograd_words(weights, features.panel))
            ctx.call(vnni_winograd_call(source, packed, params, epilogue, label, origin))
            return
    packed = ctx.packed((*key, "word convolution", group), lambda: pack_vnni_conv(weights, group, features.panel))
    ctx.call(vnni_conv_call(source, packed, params, epilogue, label, origin))


def groups_fill_lanes(weights: np.ndarray, group: int) -> bool:
    """Whether each group of a convolution's weights is a whole number of 32-bit lanes."""
    return group == 1 or weights.shape[1] * weights.itemsize % 4 == 0


def _copy_padded(ctx: LoweringContext, view: View, wide: View, axis: int, origin: str) -> None:
    """Copy into wider memory. The padding is multiplied by zeros, which hide any integer, but no NaN."""
    length = view.lens[axis]
    if view.type == "bf16" and length < wide.lens[axis]:
        fill(ctx, wide.sliced(axis, length, wide.lens[axis]), 0, origin)
    ctx.copy(view, wide.sliced(axis, 0, length), origin)
