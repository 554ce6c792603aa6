"""Sampling an image at given positions, written in primitive operators.

All that is computed of the positions has them innermost, {taps, N, positions}: kernels compute on whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction
from migraphx.ir.shape import standard_strides
from migraphx.ir.size import bounds_of

Value = Instruction
CUBIC_A = -0.75
FAR = (CUBIC_A, -5 * CUBIC_A, 8 * CUBIC_A, -4 * CUBIC_A)  # Keys, 1981
NEAR = (CUBIC_A + 2, -CUBIC_A - 3, 0.0, 1.0)


def at(b: Builder, x: Value, word: str, number: float) -> Value:
    """`word`(x, number)"""
    return getattr(b, word)(x, b.full(number, x))


def reflected(b: Builder, v: Value, low: float, high: float) -> Value:
    """v mirrored at both bounds until it lies between them."""
    length = high - low
    if length == 0:
        return b.full(low, v)
    away = at(b, b.abs(at(b, v, "sub", low)), "mod", 2 * length)
    inside = b.min(away, b.sub(b.full(2 * length, away), away))
    return at(b, inside, "add", low)


def column(b: Builder, numbers: Sequence[float], like: Value) -> Value:
    """One number for each tap of `like`."""
    values = np.array(numbers, dtypes.to_numpy(like.shape.type)).reshape(-1, 1, 1)
    return b.broadcast_to(b.literal(values), like.shape.lens)


def taps(b: Builder, v: Value, mode: str) -> tuple[Value, Value | None]:
    """Whole positions {taps, N, positions} near v {N, positions}, and their weights; None: 1."""
    if mode == "nearest":
        return b.unsqueeze(b.nearbyint(v), axes=(0,)), None
    lens = (2 if mode == "linear" else 4, *v.shape.lens)
    low, within = (b.broadcast_to(b.unsqueeze(x, axes=(0,)), lens) for x in (b.floor(v), b.sub(v, b.floor(v))))
    if mode == "linear":
        weight = b.add(column(b, (1, 0), within), b.mul(column(b, (-1, 1), within), within))
        return b.add(low, column(b, (0, 1), low)), weight
    away = b.add(column(b, (1, 0, 1, 2), within), b.mul(column(b, (1, 1, -1, -1), within), within))
    first, *others = (column(b, numbers, away) for numbers in zip(FAR, NEAR, NEAR, FAR, strict=True))
    weight = reduce(lambda made, number: b.add(b.mul(made, away), number), others, first)
    return b.add(low, column(b, (-1, 0, 1, 2), low)), weight


def inside(b: Builder, v: Value, n: int, mode: str, align: bool) -> Value:
    """Places on a dimension of length n, brought inside it as `padding_mode` says."""
    if mode == "reflection":
        v = reflected(b, v, *((0.0, n - 1.0) if align else (-0.5, n - 0.5)))
    return b.clamp(v, 0.0, n - 1.0)


@composite
def grid_sample(
    b: Builder, x: Value, grid: Value, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Value:
    """x {N, C, spatial...} at the positions of grid {N, out..., rank}, in [-1, 1], innermost dimension first.

    ONNX GridSample, aten::grid_sampler. ValueError for modes that it does not have.
    """
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: mode {mode!r} or padding_mode {padding_mode!r} is not known")
    lens, rank = x.shape.lens[2:], x.shape.ndim - 2
    if mode == "cubic" and rank != 2:
        raise ValueError("grid_sample: cubic takes images of two dimensions")
    positions: list[Value] = []
    for d, n in enumerate(lens):
        v = b.slice(grid, axes=(rank + 1,), starts=(rank - 1 - d,), ends=(rank - d,))
        v = b.reshape(v, dims=(grid.shape.lens[0], -1))
        scaled = at(b, at(b, v, "add", 1), "mul", (n - 1) / 2 if align_corners else n / 2)
        v = scaled if align_corners else at(b, scaled, "sub", 0.5)
        outside = padding_mode == "zeros" or mode == "cubic"
        positions.append(v if outside else inside(b, v, n, padding_mode, align_corners))
    made = sampled(b, x, positions, mode, padding_mode, align_corners)
    made = b.reshape(made, dims=(x.shape.lens[0], *grid.shape.lens[1:-1], x.shape.lens[1]))
    return b.transpose(made, permutation=(0, rank + 1, *range(1, rank + 1)))


def sampled(
    b: Builder, x: Value, positions: Sequence[Value], mode: str, padding_mode: str, align: bool = False
) -> Value:
    """The pixels of x {N, C, spatial...} at positions {N, P} for each dimension, in pixels: {N, P, C}.

    mode: `nearest`, `linear` or `cubic`; padding_mode says what is outside, where an element may lie, too: `zeros`,
    `border` or `reflection`, with `align` at the centres of the outer pixels. ValueError for integers between pixels.
    """
    if mode != "nearest" and x.shape.type not in dtypes.FLOATS:
        raise ValueError(f"{mode} sampling takes floats, not {x.shape.type}")
    lens, rank = x.shape.lens[2:], len(positions)
    whole = "int32" if math.prod(bounds_of(n)[1] for n in lens) < 2**31 else "int64"
    rows: list[Value] = []
    factors: list[Value] = []
    for d, (v, n, step) in enumerate(zip(positions, lens, standard_strides(lens), strict=True)):
        places, weight = taps(b, v, mode)
        if padding_mode == "zeros":
            known = b.logical_and(at(b, places, "greater_or_equal", 0.0), at(b, places, "less_or_equal", n - 1.0))
            factors.append(along(b, b.cast(known, x.shape.type), d, rank))
        factors += [] if weight is None else [along(b, b.cast(weight, x.shape.type), d, rank)]
        row = b.cast(inside(b, places, n, padding_mode, align), whole)
        rows.append(along(b, at(b, row, "mul", step), d, rank))
    return weighted(b, x, combined(b, rows, "add"), combined(b, factors, "mul") if factors else None)


def along(b: Builder, v: Value, axis: int, rank: int) -> Value:
    """{taps, N, positions} with taps along the one of `rank` axes."""
    return b.unsqueeze(v, axes=tuple(d for d in range(rank) if d != axis))


def combined(b: Builder, parts: Sequence[Value], word: str) -> Value:
    """{N, positions, taps} of what each dimension has {taps of dimensions..., N, positions}."""
    counts = zip(*(part.shape.lens[:-2] for part in parts), strict=True)
    lens = (*map(max, counts), *parts[0].shape.lens[-2:])
    every = reduce(getattr(b, word), (b.broadcast_to(part, lens) for part in parts))
    return b.transpose(b.reshape(every, dims=(-1, *lens[-2:])), permutation=(1, 2, 0))


def weighted(b: Builder, x: Value, index: Value, weight: Value | None) -> Value:
    """The pixels of x {N, C, spatial...} at index {N, positions, taps}, {N, positions, C}; None: of one tap each."""
    channels, rank = x.shape.lens[1], x.shape.ndim
    pixels = b.reshape(b.transpose(x, permutation=(0, *range(2, rank), 1)), dims=(x.shape.lens[0], -1, channels))
    if weight is not None and x.shape.type in dtypes.FLOATS:
        return b.embedding_bag(pixels, index, weight)
    picked = b.gathernd(pixels, index, batch_dims=1)
    return picked if weight is None else b.mul(picked, b.broadcast_to(weight, picked.shape.lens))
