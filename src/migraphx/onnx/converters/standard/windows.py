"""Windows taken apart and put together: col2im, unpooling, the positions of maxima, deformable convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.standard.convolution import with_bias
from migraphx.onnx.converters.standard.geometry import Geometry, Window, windowed
from migraphx.onnx.converters.standard.movement import padded
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter
from migraphx.ops.composites.products import bound
from migraphx.ops.composites.sampling import sampled

Value = Instruction
Lens = Sequence[int]


def tap_positions(out: Lens, geometry: Geometry, before: Lens) -> list[np.ndarray]:
    """By dimension: where each tap of each window lies on the input, {taps, windows}; outside it too."""
    taps_at = np.indices(geometry.kernel).reshape(len(geometry.kernel), -1)
    windows_at = np.indices(tuple(out)).reshape(len(out), -1)
    dims = zip(taps_at, windows_at, geometry.stride, geometry.dilation, before, strict=True)
    return [t[:, None] * d + w * s - p for t, w, s, d, p in dims]


@converter("Col2Im", since=18)
@windowed("pads", "strides", "dilations")
def col2im(
    b: OnnxBuilder,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    window: Window,
) -> Value:
    """x {N, C * taps, windows} added where the windows lie on an image {N, C, image_shape...}."""
    image, block = b.ints(image_shape, "image_shape") or (), b.ints(block_shape, "block_shape") or ()
    expect(x, "input", None, None, None)
    geometry, rank = window.on(image, block), len(image)
    whole = [n + p + q for n, p, q in zip(image, geometry.before, geometry.behind, strict=True)]
    dims = zip(whole, block, geometry.stride, geometry.dilation, strict=True)
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in dims]
    count, taps_count = math.prod(out), math.prod(block)
    if any(n < 1 for n in out) or x.shape.lens[2] != count or x.shape.lens[1] % taps_count:
        raise OnnxError(f"blocks {block} on an image {image} make {taps_count} taps, {count} windows")
    at = tap_positions(out, geometry, (0,) * rank)
    index = np.ravel_multi_index(at, whole).reshape(-1)
    lens = (x.shape.lens[0], x.shape.lens[1] // taps_count)
    empty = b.multibroadcast(b.literal(np.zeros(1), x.shape.type), out_lens=(*lens, math.prod(whole)))
    wide = b.multibroadcast(b.literal(index.astype(np.int64)), out_lens=(*lens, len(index)))
    summed = b.scatter_add(empty, wide, b.reshape(x, dims=(*lens, len(index))), axis=2)
    cut = [0, 0, *(-p for p in geometry.before), 0, 0, *(-p for p in geometry.behind)]
    return padded(b, b.reshape(summed, dims=(*lens, *whole)), cut, "constant", 0.0)


@converter("MaxUnpool")
@windowed("kernel_shape", "pads", "strides")
def max_unpool(
    b: OnnxBuilder,
    x: Value,
    indices: Value,
    output_shape: Value | None = None,
    *,
    window: Window,
) -> Value:
    """x at the places that MaxPool found them, 0 elsewhere. `output_shape` may add zeros behind."""
    expect(indices, "indices", *x.shape.lens)
    g = window.on(x.shape.lens[2:])
    dims = zip(x.shape.lens[2:], g.kernel, g.stride, g.before, g.behind, strict=True)
    lens = (*x.shape.lens[:2], *((n - 1) * s - before - behind + k for n, k, s, before, behind in dims))
    empty = b.multibroadcast(b.literal(np.zeros(1), x.shape.type), out_lens=(math.prod(lens),))
    flat = (b.reshape(v, dims=(-1,)) for v in (indices, x))
    y = b.reshape(b.scatter_none(empty, *flat, axis=0), dims=lens)
    wanted = b.ints(output_shape, "output_shape") or lens
    more = [w - n for w, n in zip(wanted, lens, strict=True)]
    return padded(b, y, [0] * len(lens) + more, "constant", 0.0)


def argmax_places(b: OnnxBuilder, x: Value, out: Lens, geometry: Geometry, column_major: bool) -> Value:
    """Where each window of x {N, C, spatial...} has its maximum, as a place in all of x: int64 {N, C, out...}."""
    n, c, *lens = x.shape.lens
    at = np.stack(tap_positions(out, geometry, geometry.before))  # {rank, taps, windows}
    bounds = np.array(lens).reshape(-1, 1, 1)
    inside = ((at >= 0) & (at < bounds)).all(0)
    size = math.prod(lens)
    clipped = np.clip(at, 0, bounds - 1)
    source = np.where(inside, np.ravel_multi_index(list(clipped), lens), size)
    order = "F" if column_major else "C"
    found = np.ravel_multi_index(list(clipped), lens, order=order)
    flat = b.reshape(x, dims=(n, c, size))
    outside = b.literal(np.array([bound(x.shape.type, -1)]), x.shape.type)
    flat = b.concat(flat, b.multibroadcast(outside, out_lens=(n, c, 1)), axis=2)
    values = b.gather(flat, b.literal(source.T.astype(np.int64)), axis=2)
    best = b.reshape(b.argmax(values, axis=3), dims=(n, c, -1))
    rows = np.arange(source.shape[1], dtype=np.int64) * source.shape[0]
    row = b.add(best, b.multibroadcast(b.literal(rows), out_lens=best.shape.lens))
    spot = b.gather(b.literal(found.T.reshape(-1).astype(np.int64)), row, axis=0)
    base = b.literal((np.arange(n * c, dtype=np.int64) * size).reshape(n, c, 1))
    return b.reshape(b.add(spot, b.multibroadcast(base, out_lens=spot.shape.lens)), dims=(n, c, *out))


@converter("DeformConv")
@windowed("kernel_shape", "pads", "strides", "dilations")
def deform_conv(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    group: int,
    offset_group: int,
    window: Window,
) -> Value:
    """A convolution each of whose taps is moved by an offset, between elements too (1703.06211, 1811.11168).

    offset {N, offset_group * taps * rank, out...}; mask {N, offset_group * taps, out...} multiplies the taps.
    """
    n, c, *lens = x.shape.lens
    kernel, out, rank = w.shape.lens[2:], offset.shape.lens[2:], len(lens)
    geometry = window.on(lens, kernel)
    count, size = math.prod(kernel), math.prod(out)
    dims = zip(lens, kernel, geometry.before, geometry.behind, geometry.stride, geometry.dilation, strict=True)
    made = [(m + p + q - d * (k - 1) - 1) // s + 1 for m, k, p, q, s, d in dims]
    expect(offset, "offset", n, None, *made)
    expect(bias, "bias", w.shape.lens[0])
    expect(mask, "mask", n, offset_group * math.prod(kernel), *made)
    if offset.shape.lens[1] != offset_group * count * rank or c % offset_group:
        raise OnnxError(f"offset must have {offset_group} * {count * rank} channels, has {offset.shape.lens[1]}")
    moves = b.reshape(offset, dims=(n * offset_group, count, rank, size))
    positions: list[Value] = []
    for d, base in enumerate(tap_positions(out, geometry, geometry.before)):
        move = b.reshape(b.slice(moves, axes=(2,), starts=(d,), ends=(d + 1,)), dims=(n * offset_group, count, size))
        at = b.add(move, b.broadcast_to(b.literal(base, x.shape.type), move.shape.lens))
        positions.append(b.reshape(at, dims=(n * offset_group, -1)))
    parts = b.reshape(x, dims=(n * offset_group, c // offset_group, *lens))
    values = b.transpose(sampled(b, parts, positions, "linear", "zeros"), permutation=(0, 2, 1))
    if mask is not None:
        factor = b.reshape(mask, dims=(n * offset_group, 1, count * size))
        values = b.mul(values, b.broadcast_to(factor, values.shape.lens))
    rows = b.reshape(values, dims=(n, group, c // group * count, size))
    weights = b.reshape(w, dims=(group, w.shape.lens[0] // group, -1))
    y = b.dot(b.multibroadcast(weights, out_lens=(n, *weights.shape.lens)), rows)
    return with_bias(b, b.reshape(y, dims=(n, w.shape.lens[0], *out)), bias)
