"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.standard.geometry import Geometry, Window, windowed
from migraphx.onnx.converters.standard.windows import argmax_places
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, register

Value = Instruction


def pooled(b: OnnxBuilder, x: Value, mode: str, geometry: Geometry, ceil_mode: int, **more: Any) -> Value:
    return b.pooling(
        x,
        mode=mode,
        lengths=geometry.kernel,
        padding=geometry.padding,
        stride=geometry.stride,
        dilations=geometry.dilation,
        ceil_mode=bool(ceil_mode),
        **more,
    )


@converter("MaxPool")
@windowed()
def max_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    window: Window,
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> Value | tuple[Value, Value]:
    """With the places of the maxima, where they are asked for; `storage_order` 1 counts these column-major."""
    geometry = window.on(x.shape.lens[2:])
    y = pooled(b, x, "max", geometry, ceil_mode)
    return (y, argmax_places(b, x, y.shape.lens[2:], geometry, bool(storage_order))) if b.wants(1) else y


@converter("AveragePool")
@windowed()
def average_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    window: Window,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Value:
    return pooled(b, x, "average", window.on(x.shape.lens[2:]), ceil_mode, count_include_pad=bool(count_include_pad))


@converter("LpPool")
@windowed()
def lp_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    window: Window,
    p: int | float,
    ceil_mode: int = 0,
) -> Value:
    return pooled(b, x, "lpnorm", window.on(x.shape.lens[2:]), ceil_mode, lp_order=order(p))


def order(p: float) -> int:
    if p != int(p):
        raise OnnxError(f"p must be a whole number, is {p}")
    return int(p)


def global_pool(mode: str) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, x: Value, *, p: int | float = 2) -> Value:
        if x.shape.ndim < 3:
            raise OnnxError(f"takes an input of three dimensions or more, got lens {x.shape.lens}")
        axes = tuple(range(2, x.shape.ndim))
        if mode == "average":
            return b.reduce_mean(x, axes=axes)
        return b.reduce_max(x, axes=axes) if mode == "max" else b.norm(x, p=float(p), axes=axes, keepdims=True)

    return convert


register("GlobalAveragePool", global_pool("average"))
register("GlobalMaxPool", global_pool("max"))
register("GlobalLpPool", global_pool("lpnorm"))
