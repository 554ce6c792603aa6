"""Fourier transforms of pairs of real numbers."""

from __future__ import annotations

from torch_migraphx.fx.builder import Builder, Value, lens
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.fourier import DFT

MOST = 4096
"""Points of one step, whose matrix has eight times as many bytes squared; more steps divide them."""


def largest_prime(n: int) -> int:
    """The largest prime factor of n; 1 of 1."""
    found, factor = 1, 2
    while n > 1:
        if factor * factor > n:
            return n
        if n % factor:
            factor += 1
        else:
            found, n = factor, n // factor
    return found


@converter(named(DFT, x="input"))
def dft(b: Builder, input: Value, axis: int, length: int | None, inverse: bool, onesided: bool) -> Value:
    size = length or (2 * (lens(input)[axis] - 1) if inverse and onesided else lens(input)[axis])
    if (prime := largest_prime(size)) > MOST:
        raise UnsupportedError(f"a Fourier transform of {size} points, which has {prime} in one step")
    return b.dft(input, axis=axis, length=length, inverse=inverse, onesided=onesided)
