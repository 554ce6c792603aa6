"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.converters.standard.convolution import windows
from migraphx.onnx.converters.standard.windows import argmax_places
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, register

Value = Instruction
Lens = Sequence[int]


@converter("MaxPool")
def max_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    auto_pad: str,
    kernel_shape: Lens,
    ceil_mode: int = 0,
    storage_order: int = 0,
    dilations: Lens | None = None,
    pads: Lens | None = None,
    strides: Lens | None = None,
) -> Value | tuple[Value, Value]:
    """With the positions of the maxima, where they are asked for; `storage_order` 1 counts these column-major."""
    padding, stride, dilation = windows(x.shape.lens[2:], kernel_shape, strides, dilations, pads, auto_pad)
    y = b.pooling(
        x,
        mode="max",
        lengths=tuple(kernel_shape),
        padding=padding,
        stride=stride,
        dilations=dilation,
        ceil_mode=bool(ceil_mode),
    )
    if not b.wants(1):
        return y
    window = (padding, stride, dilation)
    return y, argmax_places(b, x, y.shape.lens[2:], kernel_shape, window, bool(storage_order))


@converter("AveragePool")
def average_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    auto_pad: str,
    kernel_shape: Lens,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Lens | None = None,
    pads: Lens | None = None,
    strides: Lens | None = None,
) -> Value:
    padding, stride, dilation = windows(x.shape.lens[2:], kernel_shape, strides, dilations, pads, auto_pad)
    return b.pooling(
        x,
        mode="average",
        lengths=tuple(kernel_shape),
        padding=padding,
        stride=stride,
        dilations=dilation,
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
    )


@converter("LpPool")
def lp_pool(
    b: OnnxBuilder,
    x: Value,
    *,
    auto_pad: str,
    kernel_shape: Lens,
    p: int | float,
    ceil_mode: int = 0,
    dilations: Lens | None = None,
    pads: Lens | None = None,
    strides: Lens | None = None,
) -> Value:
    padding, stride, dilation = windows(x.shape.lens[2:], kernel_shape, strides, dilations, pads, auto_pad)
    return b.pooling(
        x,
        mode="lpnorm",
        lengths=tuple(kernel_shape),
        padding=padding,
        stride=stride,
        dilations=dilation,
        ceil_mode=bool(ceil_mode),
        lp_order=order(p),
    )


def order(p: float) -> int:
    if p != int(p):
        raise OnnxError(f"p must be a whole number, is {p}")
    return int(p)


def global_pool(mode: str) -> Callable[..., Value]:
    def convert(b: OnnxBuilder, x: Value, *, p: int | float = 2) -> Value:
        axes = tuple(range(2, x.shape.ndim))
        if mode == "average":
            return b.reduce_mean(x, axes=axes)
        return b.reduce_max(x, axes=axes) if mode == "max" else b.norm(x, p=float(p), axes=axes, keepdims=True)

    return convert


register("GlobalAveragePool", global_pool("average"))
register("GlobalMaxPool", global_pool("max"))
register("GlobalLpPool", global_pool("lpnorm"))
