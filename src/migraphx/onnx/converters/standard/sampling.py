"""Sampling an image at given positions, and such positions."""

from __future__ import annotations

import math

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import LARGEST, OnnxBuilder, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter

Value = Instruction


@converter("GridSample", since=16)
def grid_sample(b: OnnxBuilder, x: Value, grid: Value, *, align_corners: int, mode: str, padding_mode: str) -> Value:
    rank = x.shape.ndim - 2
    if rank < 1:
        raise OnnxError(f"takes an input of three dimensions or more, got lens {x.shape.lens}")
    expect(grid, "grid", x.shape.lens[0], *(None,) * rank, rank)
    return b.grid_sample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners))


@converter("AffineGrid", since=20)
def affine_grid(b: OnnxBuilder, theta: Value, size: Value, *, align_corners: int) -> Value:
    """Where theta {N, rank, rank + 1} moves the points of a grid of `size` (N, C, spatial...) in [-1, 1].

    The result is {N, spatial..., rank}, innermost dimension first. (The standard's function does not take N = 1.)
    """
    batch, _, *lens = b.ints(size, "size") or (0, 0)
    rank = len(lens)
    if theta.shape.lens != (batch, rank, rank + 1):
        raise OnnxError(f"theta {theta.shape.lens} for a size of {rank} dimensions and a batch of {batch}")
    if batch * math.prod(lens) > LARGEST:
        raise OnnxError(f"a grid of {lens} is too large")
    axes = []
    for n in lens:
        edge = 1.0 if align_corners else 1 - 1 / max(n, 1)
        axes.append(np.linspace(-edge, edge, n) if n != 1 or not align_corners else np.full(1, -1.0))
    points = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(lens)], axis=-1).reshape(-1, rank + 1)
    made = b.matmul(b.literal(points, theta.shape.type), b.transpose(theta, permutation=(0, 2, 1)))
    return b.reshape(made, dims=(batch, *lens, rank))
