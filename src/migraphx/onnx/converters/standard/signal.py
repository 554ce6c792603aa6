"""Fourier transforms and what goes with them."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter

Value = Instruction


@converter("DFT", since=17)
def dft_17(b: OnnxBuilder, x: Value, length: Value | None = None, *, axis: int, inverse: int, onesided: int) -> Value:
    return transformed(b, x, length, axis, bool(inverse), bool(onesided))


@converter("DFT", since=20)
def dft(
    b: OnnxBuilder,
    x: Value,
    length: Value | None = None,
    axis: Value | None = None,
    *,
    inverse: int,
    onesided: int,
) -> Value:
    place = -2 if axis is None else int(b.number(axis, "axis"))
    return transformed(b, x, length, place, bool(inverse), bool(onesided))


def transformed(b: OnnxBuilder, x: Value, length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    axis = axis_in(axis, x.shape.ndim)
    if axis == x.shape.ndim - 1:
        raise OnnxError("axis must not be the last one, which holds real and imaginary parts")
    parts = 2 if inverse else 1
    if onesided and x.shape.lens[-1] != parts:
        raise OnnxError(f"onesided needs a last dimension of {parts} here, got lens {x.shape.lens}")
    count = None if length is None else int(b.number(length, "dft_length"))
    return b.dft(x, axis=axis, length=count, inverse=inverse, onesided=onesided)


@converter("STFT")
def stft(
    b: OnnxBuilder,
    x: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
    *,
    onesided: int,
) -> Value:
    """Transforms of windows of the signal {N, L, 1 or 2}, `step` apart: {N, windows, length, 2}."""
    expect(x, "signal", None, None, *(None,) * (x.shape.ndim == 3))
    if x.shape.ndim == 2:
        b.deviates("its signal has two dimensions, must have a third of 1")
        x = b.unsqueeze(x, axes=(2,))
    if x.shape.lens[2] not in (1, 2):
        raise OnnxError(f"its signal must end in 1 (real) or 2 (real, imaginary), has lens {x.shape.lens}")
    hop = int(b.number(step, "frame_step"))
    size = x.shape.lens[1] if window is None else window.shape.lens[0]
    size = size if length is None else int(b.number(length, "frame_length"))
    if hop < 1 or not 1 <= size <= x.shape.lens[1]:
        raise OnnxError(f"frames of {size}, {hop} apart, do not fit a signal of {x.shape.lens[1]}")
    starts = b.counted((x.shape.lens[1] - size) // hop + 1, "int64")
    starts = b.unsqueeze(b.mul(starts, b.full(hop, starts)), axes=(1,))
    frames = b.gather(x, b.add(*b.common(starts, b.literal(np.arange(int(size))))), axis=1)
    if window is not None:
        frames = b.mul(*b.common(frames, b.unsqueeze(window, axes=(1,))))
    return b.dft(frames, axis=2, onesided=bool(onesided))


@converter("MelWeightMatrix")
def mel_weight_matrix(
    b: OnnxBuilder,
    bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower: Value,
    upper: Value,
    *,
    output_datatype: int,
) -> Value:
    """Triangles, evenly spaced on the mel scale, over a spectrum: {dft_length // 2 + 1, bins}."""
    count, size, rate = (int(b.number(v, n)) for v, n in zip((bins, dft_length, sample_rate), "ndr", strict=True))
    low, high = (2595 * np.log10(1 + b.number(v, "edge") / 700) for v in (lower, upper))
    mels = low + (high - low) / (count + 2) * np.arange(count + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    left, centre, right = (((size + 1) * hertz) // rate).astype(np.int64)[np.arange(3)[:, None] + np.arange(count)]
    row = np.arange(size // 2 + 1)[:, None]
    rising = (row - left) / np.maximum(centre - left, 1)
    falling = (right - row) / np.maximum(right - centre, 1)
    weights = np.where((row >= left) & (row <= centre) & (centre > left), rising, 0.0)
    weights = np.where((row >= centre) & (row < right), falling, weights)
    weights = np.where((row == centre) & (centre == left) & (right == centre), 1.0, weights)
    return b.literal(weights, element_type(output_datatype))
