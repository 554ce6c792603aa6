"""Sampling an image at given places."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.registry import converter

Value = Instruction


@converter("GridSample", since=16)
def grid_sample(
    b: OnnxBuilder, x: Value, grid: Value, *, align_corners: int, mode: str, padding_mode: str
) -> Value:
    return b.grid_sample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners))
