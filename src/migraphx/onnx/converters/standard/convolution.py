"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.standard.geometry import Window, windowed
from migraphx.onnx.converters.standard.movement import padded
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter
from migraphx.passes.constants import is_constant, value_of
from migraphx.passes.integer_products import fits, integer_product

Value = Instruction
Lens = Sequence[int]


def with_bias(b: OnnxBuilder, y: Value, bias: Value | None) -> Value:
    """y {N, C, ...} plus bias {C}."""
    if bias is None:
        return y
    expect(bias, "bias", y.shape.lens[1])
    return b.add(y, b.broadcast(bias, axis=1, out_lens=y.shape.lens))


@converter("Conv")
@windowed()
def conv(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    window: Window,
    group: int,
) -> Value:
    geometry = window.on(x.shape.lens[2:], w.shape.lens[2:])
    x, padding = unpadded(b, x, geometry.padding)
    y = b.convolution(x, w, padding=padding, stride=geometry.stride, dilation=geometry.dilation, group=group)
    return with_bias(b, y, bias)


def unpadded(b: OnnxBuilder, x: Value, padding: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
    """Negative padding cut off x; the padding that is left."""
    if min(padding, default=0) >= 0:
        return x, padding
    n = len(padding) // 2
    return padded(b, x, [0, 0, *padding[:n], 0, 0, *padding[n:]], "constant", 0.0), (0,) * 2 * n


@converter("ConvInteger")
@windowed()
def conv_integer(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
    *,
    window: Window,
    group: int,
) -> Value:
    """(x - x_zero) convolved with (w - w_zero), in int32; through double, which is exact, where w is not constant."""
    found = window.on(x.shape.lens[2:], w.shape.lens[2:])
    geometry = {"padding": found.padding, "stride": found.stride, "dilation": found.dilation, "group": group}
    if is_constant(w) and (w_zero is None or is_constant(w_zero)):
        weights, rank = value_of(w), w.shape.ndim
        zeros = np.zeros(1, weights.dtype) if w_zero is None else value_of(w_zero)
        zeros = zeros.reshape(-1, *(1,) * (rank - 1))
        if group == 1 or fits(weights, zeros):
            point = 0 if x_zero is None else x_zero
            return integer_product(b, "quant_convolution", x, point, weights, zeros, w.shape.lens, **geometry)
    wide = [b.cast(v, "double") for v in (x, w)]
    for k, zero in enumerate((x_zero, w_zero)):
        if zero is not None:
            lens = (zero.shape.elements, *(1,) * (x.shape.ndim - 1)) if zero.shape.elements > 1 else (1,)
            term = b.reshape(b.cast(zero, "double"), dims=lens)
            wide[k] = b.sub(wide[k], b.broadcast_to(term, wide[k].shape.lens))
    return b.cast(b.convolution(*wide, **geometry), "int32")


@converter("ConvTranspose")
@windowed()
def conv_transpose(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    window: Window,
    group: int,
    output_padding: Lens | None = None,
    output_shape: Lens | None = None,
) -> Value:
    lens, kernel = x.shape.lens[2:], w.shape.lens[2:]
    n = len(lens)
    stride, dilation = window.steps(kernel)
    for what, given in (("output_padding", output_padding), ("output_shape", output_shape)):
        if given is not None and len(given) not in (n, n + 2 * (what == "output_shape")):
            raise OnnxError(f"{what} {tuple(given)}: not {n} spatial dimensions")
    extra = np.array(output_padding or (0,) * n)
    dims = zip(lens, kernel, stride, dilation, strict=True)
    full = np.array([(m - 1) * s + d * (k - 1) + 1 for m, k, s, d in dims])
    if window.auto_pad in ("SAME_UPPER", "SAME_LOWER") and output_shape is None:
        output_shape = [m * s for m, s in zip(lens, stride, strict=True)]
    if output_shape is not None:
        total = full + extra - np.array(output_shape[-n:])
        cut = np.maximum(total, 0)
        before = cut // 2 if window.auto_pad == "SAME_UPPER" else cut - cut // 2
        behind = total - before
    else:
        both = np.array((0,) * 2 * n if window.auto_pad == "VALID" else window.pads or (0,) * 2 * n)
        before, behind = both[:n], both[n:]
    behind = behind - extra  # negative: zeros behind the full output
    cuts = tuple(np.maximum(np.concatenate([before, behind]), 0).tolist())
    y = b.convolution_backwards(x, w, padding=cuts, stride=stride, dilation=dilation, group=group)
    more = np.maximum(np.concatenate([-before, -behind]), 0).tolist()
    return with_bias(b, padded(b, y, [0, 0, *more[:n], 0, 0, *more[n:]], "constant", 0.0), bias)
