"""ONNX Runtime's operators that move, pick and compare elements (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS, FLOATS16, MICROSOFT, biased
from migraphx.onnx.converters.standard import constants, indexing, movement, sampling
from migraphx.onnx.converters.standard.random import dropout
from migraphx.onnx.converters.standard.vision import rounded
from migraphx.onnx.graph import OnnxError, Strings
from migraphx.onnx.moving import moves
from migraphx.onnx.registry import converter, register, same

Value = Instruction
SINGLE = ("float", "half", "double")
INDICES = same(("int32", "int64"), "indices")

register("GatherND", indexing.gather_nd, domain=MICROSOFT, takes=[INDICES])


@converter("ExpandDims", domain=MICROSOFT, takes=[same(("int32",), "axis")])
@moves
def expand_dims(b: OnnxBuilder, x: Value, axis: Value) -> Value:
    return b.unsqueeze(x, axes=(axis_in(b.number(axis, "axis"), x.shape.ndim + 1),))


@converter("UnfoldTensor", domain=MICROSOFT)
@moves
def unfold(b: OnnxBuilder, x: Value, *, size: int, dim: int = -1, step: int = 1) -> Value:
    """Windows of `size` elements along `dim`, `step` apart; their elements are a new last dimension."""
    axis = axis_in(dim, x.shape.ndim)
    length = x.shape.lens[axis]
    if not 1 <= size <= length or step < 1:
        raise OnnxError(f"windows of {size}, {step} apart, do not fit {length} elements")
    starts = np.arange(0, length - size + 1, step, dtype=np.int64)
    windows = b.gather(x, b.literal(starts[:, None] + np.arange(size)), axis=axis)
    order = [d for d in range(x.shape.ndim + 1) if d != axis + 1]
    return b.transpose(windows, permutation=(*order, axis + 1))


@converter("Pad", domain=MICROSOFT, takes=[same(SINGLE, "x", "value"), same(("int64",), "pads")])
def pad(b: OnnxBuilder, x: Value, pads: Value, value: Value | None = None, *, mode: str = "constant") -> Value:
    """As the standard's; `pads` may be a matrix of one row."""
    if pads.shape.ndim == 2:
        expect(pads, "pads", 1, 2 * x.shape.ndim)
        pads = b.squeeze(pads, axes=(0,))
    return movement.pad(b, x, pads, value, mode=mode)


@converter(
    "Range", domain=MICROSOFT, takes=[same(("float", "double", "int16", "int32", "int64"), "start", "limit", "delta")]
)
def range_(b: OnnxBuilder, start: Value, limit: Value, delta: Value | None = None) -> Value:
    """As the standard's; `delta` is 1 where it is left out."""
    step = b.literal(np.ones((), np.int64), start.shape.type) if delta is None else delta
    return constants.range_(b, start, limit, step)


@converter("Unique", domain=MICROSOFT)
def unique(b: OnnxBuilder, x: Value) -> tuple[Value, ...]:
    """The values in the order in which they come; which one each element is; how often each is."""
    expect(x, "input", None)
    values, _, each, counts = indexing.unique(b, x, sorted=0)
    return values, each, counts


@converter("GridSample", domain=MICROSOFT, takes=[same(SINGLE, "x", "grid")])
def grid_sample(
    b: OnnxBuilder,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    return sampling.grid_sample(b, x, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)


@converter("CropAndResize", domain=MICROSOFT, takes=[same(SINGLE, "x", "rois"), same(("int32",), "images", "size")])
def crop_and_resize(
    b: OnnxBuilder,
    x: Value,
    rois: Value,
    images: Value,
    size: Value,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Value:
    """Samples of regions of x {N, C, H, W}: {R, C, *size}, the first and last at a region's edges.

    rois {R, 4}: top, left, bottom and right, where 0 and 1 are the image's first and last element.
    """
    expect(x, "input", None, None, None, None)
    expect(rois, "rois", None, 4)
    expect(images, "batch_indices", rois.shape.lens[0])
    counts = b.ints(size, "crop_size") or ()
    if len(counts) != 2 or min(counts) < 1:
        raise OnnxError(f"crop_size must be two lengths above 0, is {counts}")
    if mode not in ("bilinear", "nearest"):
        raise OnnxError(f"mode must be bilinear or nearest, is {mode!r}")
    y, inside = b.gather(x, images, axis=0), []
    for d, count in enumerate(counts):
        length = x.shape.lens[2 + d]
        first, last = (b.slice(rois, axes=(1,), starts=(k,), ends=(k + 1,)) for k in (d, d + 2))
        share = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
        part = b.literal(share[None] * (length - 1), rois.shape.type)
        rest = b.literal((1 - share)[None] * (length - 1), rois.shape.type)
        at = b.add(b.mul(*b.common(last, part)), b.mul(*b.common(first, rest)))
        not_before = b.greater_or_equal(at, b.full(0.0, at))
        inside.append(b.logical_and(not_before, b.less_or_equal(at, b.full(length - 1, at))))
        y = between(b, y, at, 2 + d, mode)
    seen = b.logical_and(*b.common(b.unsqueeze(inside[0], axes=(1, 3)), b.unsqueeze(inside[1], axes=(1, 2))))
    return b.where(b.broadcast_to(seen, y.shape.lens), y, b.full(extrapolation_value, y))


def between(b: OnnxBuilder, x: Value, at: Value, axis: int, mode: str) -> Value:
    """x {R, ...} along `axis` at positions {R, n}: a mixture of the two elements next to each, or the nearest."""
    last = x.shape.lens[axis] - 1
    front = (0, axis, *(d for d in range(1, x.shape.ndim) if d != axis))
    back = tuple(front.index(d) for d in range(x.shape.ndim))
    rows = b.transpose(x, permutation=front)

    def picked(place: Value) -> Value:
        index = b.clamp(b.cast(place, "int64"), 0, last)
        return b.gathernd(rows, b.unsqueeze(index, axes=(2,)), batch_dims=1)

    if mode == "nearest":
        return b.transpose(picked(rounded(b, at)), permutation=back)
    low = picked(b.floor(at))
    share = b.unsqueeze(b.sub(at, b.floor(at)), axes=tuple(range(2, x.shape.ndim)))
    step = b.mul(*b.common(b.sub(picked(b.ceil(at)), low), share))
    return b.transpose(b.add(low, step), permutation=back)


@converter("CDist", domain=MICROSOFT, takes=[same(("float", "double"), "x", "y")])
def cdist(b: OnnxBuilder, x: Value, y: Value, *, metric: str = "sqeuclidean") -> Value:
    """Distances of all rows of x {M, D} from all of y {K, D}: {M, K}."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise OnnxError(f"metric {metric!r} is not supported; there are euclidean and sqeuclidean")
    expect(x, "A", None, None)
    expect(y, "B", None, x.shape.lens[1])
    squares = b.sqdiff(*b.common(b.unsqueeze(x, axes=(1,)), b.unsqueeze(y, axes=(0,))))
    total = b.squeeze(b.reduce_sum(squares, axes=(2,)), axes=(2,))
    return total if metric == "sqeuclidean" else b.sqrt(total)


@converter("NGramRepeatBlock", domain=MICROSOFT, takes=[same(("int64",), "ids"), same(("float",), "scores")])
def ngram_repeat_block(b: OnnxBuilder, ids: Value, scores: Value, *, ngram_size: int) -> Value:
    """scores {B, V}, -inf for a token that would repeat `ngram_size` tokens which ids {B, S} hold already."""
    expect(ids, "input_ids", None, None)
    batch, length = ids.shape.lens
    expect(scores, "scores", batch, None)
    if ngram_size < 1:
        raise OnnxError(f"ngram_size must be above 0, is {ngram_size}")
    if length < ngram_size:
        return scores
    places = np.arange(length - ngram_size + 1, dtype=np.int64)[:, None] + np.arange(ngram_size)
    windows = b.gather(ids, b.literal(places), axis=1)
    tokens = b.squeeze(b.slice(windows, axes=(2,), starts=(ngram_size - 1,), ends=(ngram_size,)), axes=(2,))
    free = b.full(np.inf, b.cast(tokens, scores.shape.type))
    banned = b.full(-np.inf, free)
    if ngram_size > 1:
        begun = b.slice(windows, axes=(2,), starts=(0,), ends=(ngram_size - 1,))
        recent = b.slice(ids, axes=(1,), starts=(length - ngram_size + 1,), ends=(length,))
        alike = b.reduce_all(b.equal(*b.common(begun, b.unsqueeze(recent, axes=(1,)))), axes=(2,))
        banned = b.where(b.squeeze(alike, axes=(2,)), banned, free)
    return b.scatter_min(scores, tokens, banned, axis=1)


# ---- elementwise ----


def complex_product(b: OnnxBuilder, x: Value, y: Value, sign: int) -> Value:
    """x * y, or x * conj(y) where `sign` is -1, of pairs {..., 2}."""
    for what, value in (("A", x), ("B", y)):
        if not value.shape.ndim or value.shape.lens[-1] != 2:
            raise OnnxError(f"its {what} has lens {value.shape.lens}, must end in 2 (real, imaginary)")
    x, y = b.common(x, y)
    axis = x.shape.ndim - 1
    (a, c), (d, e) = ([b.slice(v, axes=(axis,), starts=(k,), ends=(k + 1,)) for k in (0, 1)] for v in (x, y))
    e = e if sign > 0 else b.neg(e)
    real = b.sub(b.mul(a, d), b.mul(c, e))
    return b.concat(real, b.add(b.mul(a, e), b.mul(c, d)), axis=axis)


@converter("ComplexMul", domain=MICROSOFT, takes=[same(SINGLE, "x", "y")])
def complex_mul(b: OnnxBuilder, x: Value, y: Value) -> Value:
    return complex_product(b, x, y, 1)


@converter("ComplexMulConj", domain=MICROSOFT, takes=[same(SINGLE, "x", "y")])
def complex_mul_conj(b: OnnxBuilder, x: Value, y: Value) -> Value:
    return complex_product(b, x, y, -1)


@converter("IsAllFinite", domain=MICROSOFT, takes=[same(FLOATS, "inputs")])
def is_all_finite(b: OnnxBuilder, *inputs: Value, isinf_only: int = 0, isnan_only: int = 0) -> Value:
    """Whether no element of any input is NaN or infinite."""
    if isinf_only and isnan_only:
        raise OnnxError("isinf_only and isnan_only exclude each other")
    found = b.literal(np.array(False))
    for x in inputs:
        odd = b.isnan(x) if isnan_only else b.isinf(x)
        odd = odd if isinf_only or isnan_only else b.logical_or(odd, b.isnan(x))
        some = b.reduce_any(odd, axes=tuple(range(x.shape.ndim))) if x.shape.ndim else odd
        found = b.logical_or(found, b.reshape(some, dims=()))
    return b.equal(found, b.full(False, found))


@converter("TorchEmbedding", domain=MICROSOFT, takes=[same(("int64",), "indices")])
def torch_embedding(
    b: OnnxBuilder, table: Value, indices: Value, padding: Value | None = None, scaled: Value | None = None
) -> Value:
    """Rows of the table; what is padding and scaled concerns gradients alone."""
    return b.gather(table, indices, axis=0)


@converter(
    "BiasDropout",
    domain=MICROSOFT,
    takes=[same((*FLOATS16, "double"), "x", "bias", "residual"), same(FLOATS, "ratio"), same(("bool",), "training")],
)
def bias_dropout(
    b: OnnxBuilder,
    x: Value,
    bias: Value,
    residual: Value | None = None,
    ratio: Value | None = None,
    training: Value | None = None,
    *,
    seed: int | None = None,
) -> tuple[Value, ...]:
    """dropout(x + bias) + residual, and the mask."""
    if bias.shape.lens != x.shape.lens:
        expect(bias, "bias", *x.shape.lens[-1:])
    expect(residual, "residual", *x.shape.lens)
    y, mask = dropout(b, biased(b, x, bias), ratio, training, seed=seed)
    return biased(b, y, residual), b.cast(mask, "bool")


WORD = 0xFFFFFFFF
"""32 bits."""
FACTORS = (0xCC9E2D51, 0x1B873593)
"""What a word is multiplied with before and after it is turned."""


@converter(
    "MurmurHash3",
    domain=MICROSOFT,
    takes=[same(("uint32", "int32", "uint64", "int64", "float", "double", "string"), "x")],
)
def murmur_hash(b: OnnxBuilder, x: Value | Strings, *, positive: int = 1, seed: int = 0) -> Value:
    """MurmurHash3_x86_32 of each element's bytes (Appleby, 2011), as uint32 or int32."""
    type = "uint32" if positive else "int32"
    if isinstance(x, Strings):
        hashes = [murmur(str(v).encode(), seed) for v in x.value.reshape(-1)]
        return b.literal(np.array(hashes, np.uint32).reshape(x.value.shape).astype(type))
    size = x.shape.numpy_dtype.itemsize
    whole = x if x.shape.type.startswith("uint") else b.bit_cast(x, target_type=f"uint{8 * size}")
    words = [b.cast(whole, "uint32")]
    if size == 8:
        words.append(b.cast(b.shift_right(whole, b.full(32, whole)), "uint32"))
    state = b.full(seed, words[0])
    for word in words:
        mixed = b.mul(rotated(b, b.mul(word, b.full(FACTORS[0], word)), 15), b.full(FACTORS[1], word))
        state = rotated(b, b.bitwise_xor(state, mixed), 13)
        state = b.add(b.mul(state, b.full(5, state)), b.full(0xE6546B64, state))
    state = folded(b, b.bitwise_xor(state, b.full(size, state)), 16)
    state = folded(b, b.mul(state, b.full(0x85EBCA6B, state)), 13)
    state = folded(b, b.mul(state, b.full(0xC2B2AE35, state)), 16)
    return state if positive else b.bit_cast(state, target_type="int32")


def rotated(b: OnnxBuilder, x: Value, count: int) -> Value:
    """Words of 32 bits turned left."""
    return b.bitwise_or(b.shift_left(x, b.full(count, x)), b.shift_right(x, b.full(32 - count, x)))


def folded(b: OnnxBuilder, x: Value, count: int) -> Value:
    """x ^ (x >> count)"""
    return b.bitwise_xor(x, b.shift_right(x, b.full(count, x)))


def murmur(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 of bytes."""

    def turned(word: int, count: int) -> int:
        return (word << count | word >> 32 - count) & WORD

    state = seed & WORD
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "little") * FACTORS[0] & WORD
        state ^= turned(word, 15) * FACTORS[1] & WORD
        if start + 4 <= len(data):
            state = turned(state, 13) * 5 + 0xE6546B64 & WORD
    state ^= len(data)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        state = (state ^ state >> shift) * factor & WORD
    return state ^ state >> 16
