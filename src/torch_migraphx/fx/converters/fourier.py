"""Fourier transforms of pairs of real numbers."""

from __future__ import annotations

from torch_migraphx.fx.builder import Builder, Value
from torch_migraphx.fx.converter_registry import converter, named
from torch_migraphx.fx.fourier import DFT


@converter(named(DFT, x="input"))
def dft(b: Builder, input: Value, axis: int, length: int | None, inverse: bool, onesided: bool) -> Value:
    return b.dft(input, axis=axis, length=length, inverse=inverse, onesided=onesided)
