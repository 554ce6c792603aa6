"""Sampling an image at given positions, written in primitive operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

import numpy as np

from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction
from migraphx.ir.shape import standard_strides

Value = Instruction
Tap = tuple[Value, Value | None]
Taps = list[Tap]
CUBIC_A = -0.75


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


def taps(b: Builder, v: Value, mode: str) -> Taps:
    """Whole positions near v and their weights; None: 1."""
    if mode == "nearest":
        return [(b.nearbyint(v), None)]
    low = b.floor(v)
    t = b.sub(v, low)
    rest = b.sub(b.full(1, t), t)
    if mode == "linear":
        return [(low, rest), (at(b, low, "add", 1), t)]

    def polynomial(d: Value, *factors: float) -> Value:
        made = b.full(factors[0], d)
        for factor in factors[1:]:
            made = at(b, b.mul(made, d), "add", factor)
        return made

    a = CUBIC_A
    far, near = (a, -5 * a, 8 * a, -4 * a), (a + 2, -a - 3, 0.0, 1.0)  # Keys, 1981
    weights = [
        polynomial(at(b, t, "add", 1), *far),
        polynomial(t, *near),
        polynomial(rest, *near),
        polynomial(at(b, rest, "add", 1), *far),
    ]
    return [(at(b, low, "add", k - 1), w) for k, w in enumerate(weights)]


def padder(b: Builder, mode: str, n: int, align: bool) -> Callable[[Value], Value]:
    """What brings a place on a dimension of length n inside it."""
    low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
    if mode == "reflection":
        return lambda v: reflected(b, v, low, high)
    return lambda v: b.clamp(v, 0.0, n - 1.0)


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
    last = grid.shape.ndim - 1
    columns: list[Taps] = []
    for d, n in enumerate(lens):
        v = b.slice(grid, axes=(last,), starts=(rank - 1 - d,), ends=(rank - d,))
        v = b.reshape(v, dims=(grid.shape.lens[0], -1))
        scaled = at(b, at(b, v, "add", 1), "mul", (n - 1) / 2 if align_corners else n / 2)
        position = scaled if align_corners else at(b, scaled, "sub", 0.5)
        if padding_mode != "zeros" and mode != "cubic":
            position = padder(b, padding_mode, n, bool(align_corners))(position)
        columns.append(taps(b, position, mode))
    total = None
    for corner in product(*columns):
        part = picked(b, x, corner, padding_mode, bool(align_corners))
        total = part if total is None else b.add(total, part)
    assert total is not None
    return b.reshape(total, dims=(*x.shape.lens[:2], *grid.shape.lens[1:-1]))


def picked(b: Builder, x: Value, corner: Sequence[Tap], padding_mode: str, align: bool) -> Value:
    """x {N, C, ...} at one whole position a dimension, {N, C, positions}, times the weights."""
    n, c, *lens = x.shape.lens
    steps = standard_strides(lens)
    rows: list[Value] = []
    factors: list[Value] = []
    for (position, weight), length, step in zip(corner, lens, steps, strict=True):
        if padding_mode == "zeros":
            inside = b.logical_and(
                at(b, position, "greater_or_equal", 0.0), at(b, position, "less_or_equal", length - 1.0)
            )
            factors.append(b.cast(inside, x.shape.type))
        elif padding_mode == "reflection":
            position = padder(b, padding_mode, length, align)(position)
        whole = b.cast(b.clamp(position, 0.0, length - 1.0), "int64")
        rows.append(at(b, whole, "mul", step))
        factors += [] if weight is None else [b.cast(weight, x.shape.type)]
    index = reduce(b.add, rows)
    wide = b.broadcast_to(b.unsqueeze(index, axes=(1,)), (n, c, index.shape.lens[1]))
    values = b.gather_elements(b.reshape(x, dims=(n, c, int(np.prod(lens)))), wide, axis=2)
    if not factors:
        return values
    factor = b.unsqueeze(reduce(b.mul, factors), axes=(1,))
    return b.mul(values, b.broadcast_to(factor, values.shape.lens))
