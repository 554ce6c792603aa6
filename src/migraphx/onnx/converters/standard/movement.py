"""Operators that move elements and change none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.shape import broadcast_lens
from migraphx.ir.size import ones_matter, whole
from migraphx.onnx.builder import OnnxBuilder, axes_in, axis_in, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.moving import moves
from migraphx.onnx.registry import converter
from migraphx.ops.movement import Span

Value = Instruction


@converter("Transpose")
@moves
def transpose(b: OnnxBuilder, x: Value, *, perm: Sequence[int] = ()) -> Value:
    return b.transpose(x, permutation=tuple(perm) or tuple(reversed(range(x.shape.ndim))))


@converter("Reshape")
@moves
def reshape(b: OnnxBuilder, x: Value, shape: Any = None, *, allowzero: int = 0) -> Value:
    """0 copies a length, unless `allowzero`; one -1 is inferred."""
    dims = b.ints(shape, "shape") or ()
    if not allowzero:
        if any(n == 0 and d >= x.shape.ndim for d, n in enumerate(dims)):
            raise OnnxError(f"the 0 in shape {dims} copies a dimension that the input does not have")
        dims = tuple(x.shape.lens[d] if n == 0 else n for d, n in enumerate(dims))
    if -1 in dims:
        known = math.prod(n for n in dims if n != -1)
        if dims.count(-1) > 1 or not known or x.shape.elements % known:
            raise OnnxError(f"{x.shape.elements} elements do not fit shape {dims}")
        dims = tuple(x.shape.elements // known if n == -1 else n for n in dims)
    if math.prod(dims) != x.shape.elements:
        raise OnnxError(f"{x.shape.elements} elements do not fit shape {dims}")
    with ones_matter(False):  # a reshape to other lens holds where these are 1, too
        already = dims == x.shape.lens
    return x if already else b.reshape(x, dims=dims)


@converter("Flatten")
@moves
def flatten(b: OnnxBuilder, x: Value, *, axis: int) -> Value:
    return b.flatten(x, axis=axis)


@converter("Squeeze")
@moves
def squeeze(b: OnnxBuilder, x: Value, axes: Any = None) -> Value:
    dims = b.ints(axes, "axes")
    if dims is None:
        dims = tuple(d for d, n in enumerate(x.shape.lens) if n == 1)
    return b.squeeze(x, axes=dims) if dims else x


@converter("Unsqueeze")
@moves
def unsqueeze(b: OnnxBuilder, x: Value, axes: Any) -> Value:
    if isinstance(axes, Instruction) and axes.shape.ndim == 0:
        axes = b.reshape(axes, dims=(1,))
    dims = b.ints(axes, "axes")
    return b.unsqueeze(x, axes=axes_in(dims, x.shape.ndim + len(dims))) if dims else x


@converter("Expand")
@moves
def expand(b: OnnxBuilder, x: Value, shape: Value) -> Value:
    return b.broadcast_to(x, broadcast_lens(x.shape.lens, b.ints(shape, "shape") or ()))


@converter("Tile", promotes=True, also=frozenset({"int32", "int64"}))
@moves
def tile_1(b: OnnxBuilder, x: Value, tiles: Value, axis: Value) -> Value:
    """`tiles` and `axis` have the input's type, says the standard; files hold integers, too."""
    repeats = [1] * x.shape.ndim
    repeats[axis_in(whole(b.number(axis, "axis")), x.shape.ndim)] = whole(b.number(tiles, "tiles"))
    return b.tile(x, repeats=repeats)


@converter("Tile", since=6)
@moves
def tile(b: OnnxBuilder, x: Value, repeats: Value) -> Value:
    expect(repeats, "repeats", x.shape.ndim)
    return b.tile(x, repeats=b.ints(repeats, "repeats") or ())


@converter("Concat")
@moves
def concat(b: OnnxBuilder, *inputs: Value, axis: int = 1) -> Value:
    first, *rest = inputs
    return b.concat(*inputs, axis=axis_in(axis, max(first.shape.ndim, 1))) if rest else first


@converter("Split")
@moves
def split(
    b: OnnxBuilder,
    x: Value,
    sizes: Value | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    split: Sequence[int] | None = None,
) -> tuple[Value, ...]:
    """Into pieces of given sizes (an attribute before opset 13), or equal ones; the last may be less."""
    lengths = b.ints(split if sizes is None else sizes, "split")
    if lengths is not None and num_outputs is not None:
        raise OnnxError(f"split {lengths} and num_outputs {num_outputs} exclude each other")
    if lengths is None:
        count = len(b.node.outputs if b.node else ())
        if num_outputs not in (None, count):
            raise OnnxError(f"num_outputs is {num_outputs}, the node has {count} outputs")
        total = x.shape.lens[axis_in(axis, x.shape.ndim)]
        if b.version < 18 and total % count:
            raise OnnxError(f"{total} elements do not split into {count} equal pieces")
        step = -(-total // count)
        lengths = (step,) * (count - 1) + (total - (count - 1) * step,)
    if any(n < 0 for n in lengths) or (b.node and len(lengths) != len(b.node.outputs)):
        raise OnnxError(f"splits into pieces of {lengths}, for {len(b.node.outputs) if b.node else 0} outputs")
    return tuple(pieces(b, x, lengths, axis))


def pieces(b: OnnxBuilder, x: Value, lengths: Sequence[int], axis: int) -> list[Value]:
    """Consecutive pieces along `axis`."""
    made: Any = b.split(x, sizes=lengths, axis=axis_in(axis, x.shape.ndim))
    return made


@converter("Slice")
@moves
def slice_(
    b: OnnxBuilder, x: Value, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Value:
    """Bounds are attributes before opset 10. Negative steps go backwards."""
    first, last = b.ints(starts, "starts") or (), b.ints(ends, "ends") or ()
    dims = b.ints(axes, "axes")
    dims = axes_in(range(len(first)) if dims is None else dims, x.shape.ndim)
    strides = b.ints(steps, "steps") or (1,) * len(first)
    if not len(first) == len(last) == len(dims) == len(strides) or 0 in strides:
        raise OnnxError(f"starts {first}, ends {last}, axes {dims} and steps {strides} do not fit together")
    if all(step == 1 for step in strides):
        spans = {a: Span(0, x.shape.lens[a]).cut(s, e) for a, s, e in zip(dims, first, last, strict=True)}
        cut = {a: s for a, s in spans.items() if s.length != x.shape.lens[a]}
        starts, ends = (tuple(s[k] for s in cut.values()) for k in (0, 1))
        return b.slice(x, axes=tuple(cut), starts=starts, ends=ends) if cut else x
    kept = {}
    for axis, start, end, step in zip(dims, first, last, strides, strict=True):
        kept[axis] = range(x.shape.lens[axis])[slice(start, end, step)]
    forward = {a: r if r.step > 0 else r[::-1] for a, r in kept.items()}
    cut = {a: r for a, r in forward.items() if len(r) != x.shape.lens[a]}
    if cut:
        bounds = [(r[0], r[-1] + 1) if r else (0, 0) for r in cut.values()]
        x = b.slice(x, axes=tuple(cut), starts=tuple(s for s, _ in bounds), ends=tuple(e for _, e in bounds))
    stepped = {a: r.step for a, r in cut.items() if r.step > 1 and len(r) > 1}
    if stepped:
        x = b.step(x, axes=tuple(stepped), steps=tuple(stepped.values()))
    backwards = tuple(a for a, r in kept.items() if r.step < 0)
    return b.reverse(x, axes=backwards) if backwards else x


@converter("Pad", promotes=True)
def pad(
    b: OnnxBuilder,
    x: Value,
    pads: Any = None,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str,
    value: float = 0.0,
    paddings: Sequence[int] | None = None,
) -> Value:
    """Negative pads cut. `pads` and `value` are attributes before opset 11 (`paddings` in opset 1)."""
    if axes is None and mode != "constant" and constant_value is not None and constant_value.shape.ndim == 1:
        b.deviates("its axes stand where a constant would")
        axes, constant_value = constant_value, None
    widths = b.ints(paddings if paddings is not None else pads, "pads") or ()
    fill = b.number(constant_value, "constant_value") if constant_value is not None else value
    dims = b.ints(axes, "axes")
    ndim = x.shape.ndim
    dims = tuple(range(ndim)) if dims is None else axes_in(dims, ndim)
    if len(widths) != 2 * len(dims):
        raise OnnxError(f"pads {widths} must be two for each of the axes {dims}")
    both = [0] * (2 * ndim)
    for k, axis in enumerate(dims):
        both[axis], both[ndim + axis] = widths[k], widths[len(dims) + k]
    return padded(b, x, both, mode, fill)


def padded(b: OnnxBuilder, x: Value, pads: Sequence[int], mode: str, fill: float) -> Value:
    """x with pads[d] before and pads[rank + d] behind dimension d; negative ones cut."""
    ndim = x.shape.ndim
    cut = [d for d in range(ndim) if min(pads[d], pads[ndim + d]) < 0]
    if cut:
        ends = [x.shape.lens[d] + min(pads[ndim + d], 0) for d in cut]
        if any(x.shape.lens[d] + pads[d] + pads[ndim + d] < 0 for d in cut):
            raise OnnxError(f"pads {tuple(pads)} cut more than there is of lens {x.shape.lens}")
        x = b.slice(x, axes=tuple(cut), starts=tuple(max(-pads[d], 0) for d in cut), ends=tuple(ends))
    pads = [max(p, 0) for p in pads]
    if not any(pads):
        return x
    sides = [(pads[d], pads[ndim + d]) for d in range(ndim)]
    if mode == "wrap" or (mode == "reflect" and any(max(s) >= n for s, n in zip(sides, x.shape.lens, strict=True))):
        for d, widths in enumerate(sides):
            if any(widths):
                index = np.pad(np.arange(x.shape.lens[d], dtype=np.int64), widths, mode=mode)
                x = b.gather(x, b.literal(index), axis=d)
        return x
    if mode not in ("constant", "edge", "reflect"):
        raise OnnxError(f"mode must be constant, edge, reflect or wrap, is {mode!r}")
    return b.pad(x, pads=tuple(pads), mode=mode, value=float(fill) if mode == "constant" else 0.0)


@converter("DepthToSpace")
def depth_to_space(b: OnnxBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape.lens
    depth = c // blocksize**2
    if mode not in ("DCR", "CRD"):
        raise OnnxError(f"mode {mode!r} is not known")
    if mode == "DCR":
        lens, order = (n, blocksize, blocksize, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        lens, order = (n, depth, blocksize, blocksize, h, w), (0, 1, 4, 2, 5, 3)
    y = b.transpose(b.reshape(x, dims=lens), permutation=order)
    return b.reshape(y, dims=(n, depth, h * blocksize, w * blocksize))


@converter("SpaceToDepth")
def space_to_depth(b: OnnxBuilder, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    n, c, h, w = x.shape.lens
    y = b.reshape(x, dims=(n, c, h // blocksize, blocksize, w // blocksize, blocksize))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return b.reshape(b.transpose(y, permutation=order), dims=(n, c * blocksize**2, h // blocksize, w // blocksize))


@converter("Trilu")
def trilu(b: OnnxBuilder, x: Value, k: Value | None = None, *, upper: int) -> Value:
    """The upper or lower triangle of the last two dimensions; 0 elsewhere."""
    shift = 0 if k is None else b.number(k, "k")
    rows, columns = x.shape.lens[-2:]
    lower = b.triangle(rows, columns, shift - 1 if upper else shift)
    mask, zero = b.broadcast_to(lower, x.shape.lens), b.full(0, x)
    return b.where(mask, zero, x) if upper else b.where(mask, x, zero)


@converter("CenterCropPad")
def center_crop_pad(b: OnnxBuilder, x: Value, shape: Value, *, axes: Sequence[int] | None = None) -> Value:
    wanted = b.ints(shape, "shape") or ()
    ndim = x.shape.ndim
    dims = tuple(range(ndim)) if axes is None else axes_in(axes, ndim)
    pads = [0] * (2 * ndim)
    for axis, length in zip(dims, wanted, strict=True):
        more = length - x.shape.lens[axis]
        before = more // 2 if more >= 0 else -(-more // 2)
        pads[axis], pads[ndim + axis] = before, more - before
    return padded(b, x, pads, "constant", 0.0)


@converter("ReverseSequence")
def reverse_sequence(b: OnnxBuilder, x: Value, sequence_lens: Any, *, batch_axis: int, time_axis: int) -> Value:
    """The first sequence_lens[n] elements of item n along `time_axis` in opposite order."""
    lengths = sequence_lens if isinstance(sequence_lens, Instruction) else b.literal(np.array(sequence_lens, np.int64))
    if x.shape.ndim < 2:
        raise OnnxError(f"takes an input of two dimensions or more, got lens {x.shape.lens}")
    if {batch_axis, time_axis} != {0, 1}:
        raise OnnxError(f"batch_axis {batch_axis} and time_axis {time_axis} must be 0 and 1")
    items, steps = x.shape.lens[batch_axis], x.shape.lens[time_axis]
    expect(lengths, "sequence_lens", items)
    known = b.constant(lengths)
    if known is not None and known.size and not 0 <= known.min() <= known.max() <= steps:
        raise OnnxError(f"sequence_lens {known.tolist()} do not fit {steps} steps")
    at = np.arange(steps, dtype=np.int64)
    place = b.multibroadcast(b.literal(at), out_lens=(items, steps))
    lens = b.broadcast_to(b.unsqueeze(b.cast(lengths, "int64"), axes=(1,)), (items, steps))
    mirrored = b.sub(b.sub(lens, b.full(1, lens)), place)
    index = b.where(b.less(place, lens), mirrored, place)
    index = index if batch_axis == 0 else b.transpose(index, permutation=(1, 0))
    rest = tuple(range(2, x.shape.ndim))
    index = b.broadcast_to(b.unsqueeze(index, axes=rest) if rest else index, x.shape.lens)
    return b.gather_elements(x, index, axis=time_axis)
