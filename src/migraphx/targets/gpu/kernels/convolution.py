"""Convolutions of channels-last images: the sums of a tile of pixels x channels, for generated shells to finish.

An image is {N, size0, size1, size2, C}; pixels are `pixel` elements apart, channels follow each other. Rows of the
matrix are output pixels, columns output channels. Window numbers are (size, out, stride, dilation, pad) of each axis;
`image`, `at0`, `at1` and `at2` are what `corner` says of the rows.
"""

import triton
import triton.language as tl

from migraphx.targets.gpu.kernels.product import accumulate, zeros


@triton.jit
def quotient(a, b):
    """a // b of numbers that are not negative; as unsigned ones, which takes two thirds of the instructions."""
    if a.dtype == tl.int64:
        return a // b
    else:
        return (a.to(tl.uint32) // tl.full([], b, tl.uint32)).to(tl.int32)


@triton.jit
def corner(row, size0, size1, size2, out0, out1, out2, stride0, stride1, stride2, pad0, pad1, pad2):
    """Of output pixels: the first pixel of their image, and where their windows begin along each axis."""
    line = quotient(row, out2)
    plane = quotient(line, out1)
    image = quotient(plane, out0)
    at0 = (plane - image * out0) * stride0 - pad0
    at1 = (line - plane * out1) * stride1 - pad1
    at2 = (row - line * out2) * stride2 - pad2
    return image * size0 * size1 * size2, at0, at1, at2


@triton.jit
def phase_row(row, out2, phase, S1: tl.constexpr, S2: tl.constexpr):
    """The row of one of the S1 x S2 pixels that each pixel `row` of images with lines of `out2` becomes."""
    line = quotient(row, out2)
    return (line * S1 + phase // S2) * (out2 * S2) + (row - line * out2) * S2 + phase % S2


@triton.jit
def box_rows(image, at1, at2, images, out1, out2, BI: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr):
    """The pixels of BI images' boxes of BH x BW that begin at `at1`, `at2`: their numbers, and whether they exist."""
    at = tl.arange(0, BI * BH * BW)
    image, at1, at2 = image + at // (BH * BW), at1 + at // BW % BH, at2 + at % BW
    return (image * out1 + at1) * out2 + at2, (image < images) & (at1 < out1) & (at2 < out2)


@triton.jit
def pixel_of(at0, at1, at2, size0, size1, size2):
    """The number of a pixel in its image, and whether it exists."""
    inside = (at0 >= 0) & (at0 < size0) & (at1 >= 0) & (at1 < size1) & (at2 >= 0) & (at2 < size2)
    return (at0 * size1 + at1) * size2 + at2, inside


@triton.jit
def convolution_sums(
    x, w, row, col, rows, cols, begin, end, pixel, w_col, channels, w_tap,
    image, at0, at1, at2, size0, size1, size2, dilation0, dilation1, dilation2,
    K1: tl.constexpr, K2: tl.constexpr, KIND: tl.constexpr, EVEN: tl.constexpr, INSIDE: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sums over the steps from `begin` to `end`: BK channels of one tap each, tap after tap.

    Weights are {cols, taps, w_tap}, a row for each output channel. EVEN: `channels` is a multiple of BK. INSIDE: no
    window leaves its image, so that a step is as far from the first for all pixels.
    """
    depth = tl.arange(0, BK)
    there = row < rows
    blocks = tl.cdiv(channels, BK)
    pw = w + tl.minimum(col, cols - 1)[None, :] * w_col + depth[:, None]
    corners = x + ((image + (at0 * size1 + at1) * size2 + at2) * pixel)[:, None] + depth[None, :]
    acc = zeros(row.shape[0], col.shape[0], x, KIND)
    tap, first = begin // blocks, begin % blocks * BK
    for _ in range(begin, end):
        i0, i1, i2 = tap // (K1 * K2) * dilation0, tap // K2 % K1 * dilation1, tap % K2 * dilation2
        deep = first + depth < channels
        if INSIDE:
            px, inside = corners + (((i0 * size1 + i1) * size2 + i2) * pixel + first), there
        else:
            number, inside = pixel_of(at0 + i0, at1 + i1, at2 + i2, size0, size1, size2)
            px = x + ((image + number) * pixel + first)[:, None] + depth[None, :]
        if EVEN:
            tile = tl.load(px, (inside & there)[:, None], 0)
            weights = tl.load(pw + (tap * w_tap + first))
        else:
            tile = tl.load(px, (inside & there)[:, None] & deep[None, :], 0)
            weights = tl.load(pw + (tap * w_tap + first), deep[:, None], 0)
        acc = accumulate(acc, tile, weights, deep, KIND)
        first += BK
        tap += (first >= channels).to(tl.int32)
        first = tl.where(first >= channels, 0, first)
    return acc


@triton.jit
def described_convolution_sums(
    images, columns, x, col, image, at1, at2, begin, end, channels, w_tap, dilation1, dilation2,
    K2: tl.constexpr, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """As convolution_sums, of boxes of pixels that a tensor descriptor describes: what is outside of `images` is zero.

    `images` {N, size1, size2, channels}, whose box begins at the scalars `image`, `at1`, `at2`; `columns` {cols, taps x
    w_tap}, from `col` on. BK divides the channels. The pixels are the second operand: as the first, a box of several
    dimensions would go through registers.
    """
    acc = zeros(BN, BM, x, KIND)
    blocks = channels // BK
    for step in range(begin, end):
        tap, first = step // blocks, step % blocks * BK
        pixels = images.load([image, at1 + tap // K2 * dilation1, at2 + tap % K2 * dilation2, first])
        weights = columns.load([col, tap * w_tap + first])
        acc = accumulate(acc, weights, tl.reshape(pixels, (BM, BK)).T, tl.full((BK,), True, tl.int1), KIND)
    return acc.T


@triton.jit
def flat_convolution_sums(
    x, w, row, col, rows, cols, begin, end, pixel, w_col, planes, channel_step,
    image, at0, at1, at2, size0, size1, size2, dilation0, dilation1, dilation2,
    C: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, KIND: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same for few channels C: a step is BK of all taps' channels. Weights are {cols, taps, C}.

    Channels are `channel_step` apart, images as many pixels as they have, times `planes`.
    """
    there = (row < rows)[:, None]
    pw = w + tl.minimum(col, cols - 1)[None, :] * w_col
    acc = zeros(row.shape[0], col.shape[0], x, KIND)
    for step in range(begin, end):
        depth = step * BK + tl.arange(0, BK)
        tap, channel = depth // C, depth % C
        i0, i1, i2 = tap // (K1 * K2) * dilation0, tap // K2 % K1 * dilation1, tap % K2 * dilation2
        number, inside = pixel_of(
            at0[:, None] + i0[None, :], at1[:, None] + i1[None, :], at2[:, None] + i2[None, :], size0, size1, size2
        )
        deep = depth < K0 * K1 * K2 * C
        at = ((image * planes)[:, None] + number) * pixel + (channel * channel_step)[None, :]
        tile = tl.load(x + at, inside & there & deep[None, :], 0)
        weights = tl.load(pw + depth[:, None], deep[:, None], 0)
        acc = accumulate(acc, tile, weights, deep, KIND)
    return acc


@triton.jit
def row_convolution_sums(
    x, w, row, col, rows, cols, begin, end, pixel, w_col,
    image, at0, at1, at2, size0, size1, size2, dilation0, dilation1, dilation2,
    C: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, KIND: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same where pixels follow each other: a step is one row of the window, whose K2 * C <= BK numbers do, too."""
    depth = tl.arange(0, BK)
    deep = depth < K2 * C
    there = row < rows
    at = (at2 * C)[:, None] + depth[None, :]
    in_line = (at >= 0) & (at < size2 * C) & deep[None, :]
    pw = w + tl.minimum(col, cols - 1)[None, :] * w_col + depth[:, None]
    acc = zeros(row.shape[0], col.shape[0], x, KIND)
    for step in range(begin, end):
        i0, i1 = at0 + step // K1 * dilation0, at1 + step % K1 * dilation1
        line, inside = pixel_of(i0, i1, tl.zeros_like(i1), size0, size1, size2)
        tile = tl.load(x + ((image + line) * pixel)[:, None] + at, in_line & (inside & there)[:, None], 0)
        weights = tl.load(pw + step * (K2 * C), deep[:, None], 0)
        acc = accumulate(acc, tile, weights, deep, KIND)
    return acc


@triton.jit
def lined_convolution_sums(
    x, w, row, col, rows, cols, begin, end, pixel, w_col, channels, w_tap, line,
    image, at0, at1, at2, size0, size1, size2, dilation0, dilation1, dilation2,
    KIND: tl.constexpr, EVEN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same of windows that never leave their images, one pixel wide: a step is one row of them, `line` elements on.

    It has at most BK channels. Weights are {cols, rows of the window, w_tap}, zeros behind the channels.
    """
    depth = tl.arange(0, BK)
    deep = depth < channels
    px = x + ((image + at1 * size2 + at2) * pixel + begin * line)[:, None] + depth[None, :]
    pw = w + tl.minimum(col, cols - 1)[None, :] * w_col + depth[:, None] + begin * w_tap
    acc = zeros(row.shape[0], col.shape[0], x, KIND)
    for _ in range(begin, end):
        if EVEN:
            tile = tl.load(px)
        else:
            tile = tl.load(px, deep[None, :], 0)
        acc = accumulate(acc, tile, tl.load(pw), deep, KIND)
        px += line
        pw += w_tap
    return acc


@triton.jit
def depthwise_sums(
    x, w, row, col, rows, cols, pixel, w_tap,
    image, at0, at1, at2, size0, size1, size2, dilation0, dilation1, dilation2,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, KIND: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    """Sums of windows, each channel with its own filter. Weights are {taps, w_tap}, channels within a tap."""
    there, channels = (row < rows)[:, None], (col < cols)[None, :]
    acc = zeros(row.shape[0], col.shape[0], x, KIND)
    if UNROLLED:
        for tap in tl.static_range(K0 * K1 * K2):
            i0, i1, i2 = tap // (K1 * K2) * dilation0, tap // K2 % K1 * dilation1, tap % K2 * dilation2
            number, inside = pixel_of(at0 + i0, at1 + i1, at2 + i2, size0, size1, size2)
            tile = tl.load(
                x + ((image + number) * pixel)[:, None] + col[None, :], inside[:, None] & there & channels, 0
            )
            weights = tl.load(w + tap * w_tap + col[None, :], channels, 0)
            acc += tile.to(acc.dtype) * weights.to(acc.dtype)
    else:
        for tap in range(K0 * K1 * K2):
            i0, i1, i2 = tap // (K1 * K2) * dilation0, tap // K2 % K1 * dilation1, tap % K2 * dilation2
            number, inside = pixel_of(at0 + i0, at1 + i1, at2 + i2, size0, size1, size2)
            tile = tl.load(
                x + ((image + number) * pixel)[:, None] + col[None, :], inside[:, None] & there & channels, 0
            )
            weights = tl.load(w + tap * w_tap + col[None, :], channels, 0)
            acc += tile.to(acc.dtype) * weights.to(acc.dtype)
    return acc
