"""Pooling of channels-last images: maximum, average or norm of a tile of windows x channels.

Geometry is that of kernels/convolution.py; TYPE is the elements' type. MODE: `max`, `average`, `lpnorm` of order ORDER.
"""

import triton
import triton.language as tl

from migraphx.targets.gpu.kernels.convolution import pixel_of
from migraphx.targets.gpu.kernels.functions import scalar_sqrt
from migraphx.targets.gpu.kernels.narrow import widen
from migraphx.targets.gpu.kernels.scalar import scalar_abs, scalar_max, scalar_pow


@triton.jit
def empty_window(BM: tl.constexpr, BN: tl.constexpr, of, MODE: tl.constexpr, LOWEST: tl.constexpr):
    """What is joined with the first element, in the type of `of`. LOWEST: the lowest number of the type."""
    return tl.full((BM, BN), LOWEST, of.dtype) if MODE == "max" else tl.zeros((BM, BN), of.dtype)


@triton.jit
def join_window(acc, x, MODE: tl.constexpr, ORDER: tl.constexpr):
    if MODE == "max":
        acc = scalar_max(acc, x)
    elif MODE == "average" or ORDER == 1:
        acc += x if MODE == "average" else scalar_abs(x)
    elif ORDER == 2:
        acc += x * x
    else:
        acc += scalar_pow(scalar_abs(x), tl.full(x.shape, ORDER * 1.0, x.dtype))
    return acc


@triton.jit
def finish_window(acc, count, MODE: tl.constexpr, ORDER: tl.constexpr):
    """The answer; `count`: the elements that an average counts, {BM, 1}."""
    if MODE == "average":
        acc = acc / tl.maximum(count, 1).to(acc.dtype)
    elif MODE == "lpnorm" and ORDER == 2:
        acc = scalar_sqrt(acc)
    elif MODE == "lpnorm" and ORDER != 1:
        acc = scalar_pow(acc, tl.full(acc.shape, 1.0 / ORDER, acc.dtype))
    return acc


@triton.jit
def pool_tap(
    x, col, tap, image, at0, at1, at2, there, pixel, size0, size1, size2, end0, end1, end2,
    dilation0, dilation1, dilation2, K1: tl.constexpr, K2: tl.constexpr, TYPE: tl.constexpr, OUTSIDE: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """The elements of one place of the windows, OUTSIDE where there is no image, and whether an average counts them."""
    j0 = at0 + tap // (K1 * K2) * dilation0
    j1 = at1 + tap // K2 % K1 * dilation1
    j2 = at2 + tap % K2 * dilation2
    number, inside = pixel_of(j0, j1, j2, size0, size1, size2)
    at = x + ((image + number) * pixel)[:, None] + col[None, :]
    if PLAIN:
        value = widen(tl.load(at, inside[:, None] & there, OUTSIDE), TYPE)
    else:
        value = widen(tl.load(at, inside[:, None] & there, 0), TYPE)
        value = tl.where(inside[:, None], value, tl.full([], OUTSIDE, value.dtype))
    return value, ((j0 < size0 + end0) & (j1 < size1 + end1) & (j2 < size2 + end2)), inside


@triton.jit
def pooling_sums(
    x, line, place, col, cols, pixel, end0, end1, end2,
    size0, size1, size2, out0, out1, out2, stride0, stride1, stride2,
    dilation0, dilation1, dilation2, pad0, pad1, pad2,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, TYPE: tl.constexpr, MODE: tl.constexpr,
    ORDER: tl.constexpr, LOWEST: tl.constexpr, COUNT_PAD: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """Windows at places `place` of the output's line `line`, and channels `col`.

    `end`: padding behind, which averages count with COUNT_PAD. PLAIN: the type is stored as it is computed, or wider.
    """
    at2 = place * stride2 - pad2
    at1 = line % out1 * stride1 - pad1
    at0 = line // out1 % out0 * stride0 - pad0
    image = line // (out1 * out0) * size0 * size1 * size2
    there = (place < out2)[:, None] & (col < cols)[None, :]
    start: tl.constexpr = LOWEST if MODE == "max" else 0
    acc = empty_window(place.shape[0], col.shape[0], widen(tl.load(x), TYPE), MODE, LOWEST)
    count = tl.zeros((place.shape[0],), tl.int32)
    if K0 * K1 * K2 <= 16:  # all loads at once
        for tap in tl.static_range(K0 * K1 * K2):
            value, padded, inside = pool_tap(
                x, col, tap, image, at0, at1, at2, there, pixel, size0, size1, size2, end0, end1, end2,
                dilation0, dilation1, dilation2, K1, K2, TYPE, start, PLAIN,
            )  # fmt: skip
            acc = join_window(acc, value, MODE, ORDER)
            count += (padded if COUNT_PAD else inside).to(tl.int32)
    else:
        for tap in range(K0 * K1 * K2):
            value, padded, inside = pool_tap(
                x, col, tap, image, at0, at1, at2, there, pixel, size0, size1, size2, end0, end1, end2,
                dilation0, dilation1, dilation2, K1, K2, TYPE, start, PLAIN,
            )  # fmt: skip
            acc = join_window(acc, value, MODE, ORDER)
            count += (padded if COUNT_PAD else inside).to(tl.int32)
    return finish_window(acc, count[:, None], MODE, ORDER)


@triton.jit
def global_pooling_sums(
    x, image, col, cols, pixels, pixel,
    TYPE: tl.constexpr, MODE: tl.constexpr, ORDER: tl.constexpr, LOWEST: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The window that is a whole image, of channels `col`, BT pixels at a time; {1, channels}."""
    there = (col < cols)[None, :]
    start: tl.constexpr = LOWEST if MODE == "max" else 0
    acc = empty_window(BT, col.shape[0], widen(tl.load(x), TYPE), MODE, LOWEST)
    for first in range(0, pixels, BT):
        at = first + tl.arange(0, BT)
        inside = (at < pixels)[:, None]
        value = widen(tl.load(x + ((image * pixels + at) * pixel)[:, None] + col[None, :], inside & there, 0), TYPE)
        acc = join_window(acc, tl.where(inside, value, tl.full([], start, value.dtype)), MODE, ORDER)
    acc = tl.reduce(acc, 0, scalar_max) if MODE == "max" else tl.sum(acc, 0)
    return finish_window(acc[None, :], pixels, MODE, ORDER)
