"""ONNX Runtime's attention operators (domain com.microsoft): heads apart, keys and values kept, masks, rotations.

Names of lengths: B batch, S queries, P past keys, L new keys, T all keys, N heads, H size of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT, biased
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same
from migraphx.ops.composites.activation import scaled
from migraphx.ops.composites.products import shared_heads, split, swapped

Value = Instruction


def heads(b: OnnxBuilder, x: Value, count: int) -> Value:
    """{B, S, N * H} as {B, N, S, H}."""
    batch, length, width = x.shape.lens
    if count < 1 or width % count:
        raise OnnxError(f"{count} heads do not divide a width of {width}")
    return b.transpose(b.reshape(x, dims=(batch, length, count, width // count)), permutation=(0, 2, 1, 3))


def joined(b: OnnxBuilder, x: Value) -> Value:
    """{B, N, S, H} as {B, S, N * H}."""
    batch, count, length, size = x.shape.lens
    return b.reshape(b.transpose(x, permutation=(0, 2, 1, 3)), dims=(batch, length, count * size))


def item(b: OnnxBuilder, x: Value, axis: int, index: int) -> Value:
    """One slice along an axis, which is left out."""
    return b.squeeze(b.slice(x, axes=(axis,), starts=(index,), ends=(index + 1,)), axes=(axis,))


def appended(b: OnnxBuilder, past: Value | None, new: Value) -> Value:
    return new if past is None or past.shape.lens[2] == 0 else b.concat(past, new, axis=2)


# ---- masks ----


def kept(b: OnnxBuilder, mask: Value, batch: int, past: int, queries: int, keys: int) -> Value:
    """Which keys a mask of any of its forms keeps: bool, broadcast to {B, 1, S, T}.

    {B} is where the keys end, {2B} also where they begin, {3B + 2} begins with the lengths; {B, T}, {B, S, T} and
    {B, 1, M, M} are 0 where a key is left out.
    """
    lens = mask.shape.lens
    if len(lens) == 1 and lens[0] in (batch, 2 * batch, 3 * batch + 2):
        positions = b.literal(np.arange(keys).astype(mask.shape.numpy_dtype)[None])
        keep = b.less(*b.common(positions, part(b, mask, 0, batch)))
        if lens[0] == 2 * batch:
            keep = b.logical_and(keep, b.greater_or_equal(*b.common(positions, part(b, mask, batch, 2 * batch))))
        return b.unsqueeze(keep, axes=(1, 2))
    if len(lens) in (2, 3):
        expect(mask, "mask", batch, *(queries,) * (len(lens) == 3), keys)
    if len(lens) == 4:
        expect(mask, "mask", batch, 1, None, None)
        mask = b.slice(mask, axes=(2, 3), starts=(past, 0), ends=(past + queries, keys))
    elif len(lens) in (2, 3):
        mask = b.unsqueeze(mask, axes=(1, 2) if len(lens) == 2 else (1,))
    else:
        raise OnnxError(f"a mask of lens {lens} is not supported")
    return b.not_equal(mask, b.full(0, mask))


def part(b: OnnxBuilder, x: Value, start: int, end: int) -> Value:
    return b.unsqueeze(b.slice(x, axes=(0,), starts=(start,), ends=(end,)), axes=(1,))


def added(b: OnnxBuilder, keep: Value, filtered: float, like: Value) -> Value:
    """A bool mask as what is added to scores."""
    none = b.full(0.0, b.cast(keep, like.shape.type))
    return b.where(keep, none, b.full(filtered, none))


def attended(
    b: OnnxBuilder, q: Value, k: Value, v: Value, masks: Sequence[Value], scale: float, first: int | None = None
) -> Value:
    """Attention with masks that are added; causal where `first` is given. A scale of 0 is 1 / sqrt(H)."""
    terms = list(masks)
    plain = first == 0 and q.shape.lens[2] == k.shape.lens[2]
    if first is not None and not plain:
        terms.append(b.literal(np.where(causal(q, k, first), 0.0, -np.inf).astype(q.shape.numpy_dtype)))
    mask = None
    for term in terms:
        mask = term if mask is None else b.add(*b.common(mask, term))
    return b.scaled_dot_product_attention(q, k, v, mask, scale=scale or None, is_causal=plain)


def causal(q: Value, k: Value, first: int) -> np.ndarray:
    """Which keys each query sees, bool {S, T}: 0 to `first` + i; the last one all, as in ONNX Runtime."""
    seen = np.tri(q.shape.lens[2], k.shape.lens[2], first, dtype=np.bool_)
    seen[-1:] = True
    return seen


def masked_scores(
    b: OnnxBuilder, q: Value, k: Value, masks: Sequence[Value], scale: float, softcap: float = 0.0
) -> Value:
    """q k^T * scale, capped by softcap * tanh(x / softcap) where softcap is not 0, with masks added.

    A scale of 0 is 1 / sqrt(H).
    """
    scores = scaled(b, b.matmul(q, swapped(b, shared_heads(b, q, k))), scale or 1 / math.sqrt(q.shape.lens[3]))
    if softcap:
        scores = scaled(b, b.tanh(scaled(b, scores, 1 / softcap)), softcap)
    for mask in masks:
        scores = b.add(*b.common(scores, mask))
    return scores


def seen_scores(b: OnnxBuilder, q: Value, k: Value, masks: Sequence[Value], scale: float, first: int | None) -> Value:
    """The scores as an output: the type's lowest number where a query must not see a key."""
    scores = masked_scores(b, q, k, masks, scale)
    if first is None:
        return scores
    seen = b.broadcast_to(b.literal(causal(q, k, first)), scores.shape.lens)
    return b.where(seen, scores, b.full(float(ml_dtypes.finfo(scores.shape.numpy_dtype).min), scores))


# ---- caches ----


def past_keys(key: Value | None, value: Value | None) -> int:
    """How many keys a cache {B, N, P, H} holds; OnnxError for keys without values and values without keys."""
    if (key is None) != (value is None):
        raise OnnxError(f"its past has no {'keys' if key is None else 'values'}")
    if key is None or value is None:
        return 0
    if key.shape.lens[2] != value.shape.lens[2]:
        raise OnnxError(f"its past has {key.shape.lens[2]} keys and {value.shape.lens[2]} values")
    return key.shape.lens[2]


def written(b: OnnxBuilder, past: Value | None, new: Value, starts: Value, keys: int, clear: bool = True) -> Value:
    """The cache {B, N, keys, H}: the past up to starts {B, 1}, then what is new, then 0 (the past, if not `clear`)."""
    batch, count, length, size = new.shape.lens
    if past is None and length == keys:
        return new
    positions = b.literal(np.arange(keys)[None])
    behind = b.sub(*b.common(positions, starts))  # how far each key is into what is new
    limited = b.clamp(behind, 0, length - 1)
    rows = b.gathernd(b.transpose(new, permutation=(0, 2, 1, 3)), b.unsqueeze(limited, axes=(2,)), batch_dims=1)
    moved = b.transpose(rows, permutation=(0, 2, 1, 3))
    lens = (batch, count, keys, size)
    empty = b.full(0.0, moved)
    old = empty
    if past is not None:
        more = b.slice(empty, axes=(2,), starts=(0,), ends=(keys - past.shape.lens[2],))
        old = b.concat(past, more, axis=2) if past.shape.lens[2] < keys else past
    is_new = b.unsqueeze(b.greater_or_equal(behind, b.full(0, behind)), axes=(1, 3))
    is_over = b.unsqueeze(b.greater_or_equal(behind, b.full(length, behind)), axes=(1, 3))
    begun = b.where(b.broadcast_to(is_new, lens), moved, old)
    return b.where(b.broadcast_to(is_over, lens), empty if clear else old, begun)


def visible(b: OnnxBuilder, positions: Value, keys: int, size: int = -1) -> Value:
    """Whether a query at its position {B, S} sees a key, bool {B, 1, S, T}.

    It does not see later ones, nor those `size` or more before it.
    """
    at = b.unsqueeze(positions, axes=(1, 3))
    key, at = b.common(b.literal(np.arange(keys)[None, None, None]), at)
    keep = b.less_or_equal(key, at)
    if size >= 0:
        keep = b.logical_and(keep, b.greater(key, b.sub(at, b.full(size, at))))
    return keep


def lengthened(b: OnnxBuilder, mask: Value, keys: int) -> Value:
    """A mask {..., T} on a cache that is longer, whose further keys nobody sees."""
    more = keys - mask.shape.lens[-1]
    return b.pad(mask, pads=(*[0] * (2 * mask.shape.ndim - 1), more)) if more > 0 else mask


def fits_scores(bias: Value, batch: int, heads: int, queries: int, keys: int) -> None:
    """OnnxError for what is not {B or 1, N or 1, S, T}; a bias for fewer keys is lengthened."""
    expect(bias, "attention_bias", None, None, queries, None)
    lens = bias.shape.lens
    if lens[0] not in (1, batch) or lens[1] not in (1, heads) or lens[3] > keys:
        raise OnnxError(
            f"its attention_bias has lens {lens}, must have ({batch} or 1, {heads} or 1, {queries}, {keys})"
        )


# ---- attention ----


@converter(
    "Attention",
    domain=MICROSOFT,
    takes=[
        same(FLOATS16, "x", "weights", "bias", "past", "attention_bias"),
        same(("int32",), "mask"),
        same(("int32",), "past_length"),
    ],
)
def attention(
    b: OnnxBuilder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_length: Value | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, ...]:
    """Self attention of x {B, S, I} by weights {I, Q + K + V}. past and present {2, B, N, length, H}."""
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise OnnxError("do_rotary and a past that shares its buffer are not supported")
    expect(x, "input", None, None, None)
    expect(weights, "weights", x.shape.lens[2], None)
    sizes = tuple(qkv_hidden_sizes or (weights.shape.lens[1] // 3,) * 3)
    if len(sizes) != 3 or min(sizes) < 1 or sizes[0] != sizes[1] or sum(sizes) != weights.shape.lens[1]:
        raise OnnxError(f"weights of lens {weights.shape.lens} do not make q, k and v of widths {sizes}")
    expect(bias, "bias", sum(sizes))
    projected = biased(b, b.matmul(x, weights), bias)
    return self_attention(
        b, projected, sizes, mask, past, attention_bias,
        num_heads=num_heads, filtered=mask_filter_value, scale=scale, unidirectional=bool(unidirectional),
    )  # fmt: skip


def self_attention(
    b: OnnxBuilder,
    projected: Value,
    sizes: Sequence[int],
    mask: Value | None,
    past: Value | None,
    attention_bias: Value | None,
    *,
    num_heads: int,
    filtered: float,
    scale: float,
    unidirectional: bool,
) -> tuple[Value, ...]:
    """Attention of q, k and v of these sizes, one after another in `projected` {B, S, Q + K + V}; and the present."""
    batch, length, _ = projected.shape.lens
    q, k, v = (heads(b, part, num_heads) for part in split(b, projected, sizes=sizes, axis=2))
    expect(past, "past", 2, batch, num_heads, None, None)
    before = 0 if past is None else past.shape.lens[3]
    if attention_bias is not None:
        fits_scores(attention_bias, batch, num_heads, length, before + length)
    if past is not None:
        k, v = appended(b, item(b, past, 0, 0), k), appended(b, item(b, past, 0, 1), v)
    masks = [] if attention_bias is None else [attention_bias]
    if mask is not None:
        keep = kept(b, mask, batch, before, length, k.shape.lens[2])
        masks.append(added(b, keep, filtered, q))
    y = joined(b, attended(b, q, k, v, masks, scale, before if unidirectional else None))
    if not b.wants(1):
        return (y,)
    return y, b.concat(b.unsqueeze(k, axes=(0,)), b.unsqueeze(v, axes=(0,)), axis=0)


@converter(
    "MultiHeadAttention",
    domain=MICROSOFT,
    takes=[
        same(FLOATS16, "query", "key", "value", "bias", "attention_bias", "past_key", "past_value"),
        same(("int32",), "mask"),
        same(("int32",), "past_length"),
    ],
)
def multi_head_attention(
    b: OnnxBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, ...]:
    """Attention of what is projected already: q, k, v apart, or packed {B, S, N, 3, H}, or k and v {B, L, N, 2, H}.

    Where past_length {1} and a past are given, the past is a buffer that is as long as it gets, and what is new comes
    behind the first past_length keys. The fourth output is the scores.
    """
    q, k, v = unpacked(b, query, key, value, bias, num_heads)
    expect(k, "key", q.shape.lens[0], num_heads, None, q.shape.lens[3])
    expect(v, "value", q.shape.lens[0], num_heads, k.shape.lens[2], None)
    expect(past_key, "past_key", q.shape.lens[0], num_heads, None, k.shape.lens[3])
    expect(past_value, "past_value", q.shape.lens[0], num_heads, None, v.shape.lens[3])
    batch, _, length, _ = q.shape.lens
    before = past_keys(past_key, past_value)
    first, masks = before if unidirectional else None, []
    if past_length is None or past_key is None:
        k, v = appended(b, past_key, k), appended(b, past_value, v)
    else:
        starts = b.broadcast_to(b.reshape(b.cast(past_length, "int64"), dims=(1, 1)), (batch, 1))
        steps = np.arange(length) if unidirectional else np.full(length, k.shape.lens[2] - 1)
        positions = b.add(*b.common(starts, b.literal(steps[None])))
        k, v = (written(b, past, new, starts, before, clear=False) for past, new in ((past_key, k), (past_value, v)))
        masks, first = [added(b, visible(b, positions, before), -math.inf, q)], None
    keys = k.shape.lens[2]
    if mask is not None and mask.shape.ndim == 4:
        raise OnnxError(f"a mask of lens {mask.shape.lens} is not supported")
    if attention_bias is not None:
        fits_scores(attention_bias, batch, num_heads, length, keys)
        masks.append(lengthened(b, attention_bias, keys))
    if mask is not None:
        mask = lengthened(b, mask, keys) if mask.shape.ndim > 1 and past_length is not None else mask
        masks.append(added(b, kept(b, mask, batch, before, length, keys), mask_filter_value, q))
    y = joined(b, attended(b, q, k, v, masks, scale, first))
    return (y, k, v, seen_scores(b, q, k, masks, scale, first)) if b.wants(3) else (y, k, v)


def unpacked(
    b: OnnxBuilder, query: Value, key: Value | None, value: Value | None, bias: Value | None, count: int
) -> list[Value]:
    """q, k and v {B, N, length, H}, each with its part of the bias {Q + K + V}; k and v with heads apart have none."""
    if key is not None and value is not None and key.shape.ndim != value.shape.ndim:
        raise OnnxError(f"its key has lens {key.shape.lens}, its value {value.shape.lens}")
    if query.shape.ndim == 5 and (key is not None or value is not None):
        raise OnnxError("a packed query and a key or value exclude each other")
    if query.shape.ndim == 5:
        expect(query, "query", None, None, count, 3, None)
        parts = [flattened(b, item(b, query, 3, n)) for n in range(3)]
    elif key is not None and key.shape.ndim == 5:
        expect(key, "key", query.shape.lens[0], None, count, 2, None)
        parts = [query, *(flattened(b, item(b, key, 3, n)) for n in range(2))]
    elif key is not None and value is not None:
        parts = [query, key, value]
    else:
        raise OnnxError("key and value are missing, and the query is not packed")
    if any(p.shape.ndim not in (3, 4) for p in parts) or parts[0].shape.ndim != 3:
        raise OnnxError("takes q, k and v of three dimensions, k and v of four, or packed ones of five")
    if bias is not None:
        widths = [p.shape.lens[2] if p.shape.ndim == 3 else p.shape.lens[1] * p.shape.lens[3] for p in parts]
        expect(bias, "bias", sum(widths))
        terms = split(b, bias, sizes=tuple(widths), axis=0)
        parts = [biased(b, p, t) if p.shape.ndim == 3 else p for p, t in zip(parts, terms, strict=True)]
    return [heads(b, p, count) if p.shape.ndim == 3 else p for p in parts]


def flattened(b: OnnxBuilder, x: Value) -> Value:
    """{B, S, N, H} as {B, S, N * H}."""
    return b.reshape(x, dims=(*x.shape.lens[:2], -1))


# ---- rotations ----


def rotated(b: OnnxBuilder, x: Value, positions: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """x {B, N, S, H} rotated by the rows of cos and sin {M, R / 2} at positions {B, S} (2104.09864)."""
    angles = [b.unsqueeze(b.gather(table, positions, axis=0), axes=(1,)) for table in (cos, sin)]
    return b.rotary_embedding(x, *angles, interleaved=interleaved)


@converter(
    "RotaryEmbedding", domain=MICROSOFT, takes=[same(FLOATS16, "x", "cos", "sin"), same(("int64",), "position_ids")]
)
def rotary_embedding(
    b: OnnxBuilder,
    x: Value,
    position_ids: Value,
    cos: Value,
    sin: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """x {B, S, N * H} or {B, N, S, H}; position_ids {1}, the first, or {B, S}."""
    if is_packed_batching or scale != 1.0:
        raise OnnxError("is_packed_batching and scale are not supported")
    apart = rotated_heads(b, x, cos, sin, num_heads, rotary_embedding_dim)
    batch, _, length, _ = apart.shape.lens
    if position_ids.shape.ndim == 1:
        expect(position_ids, "position_ids", 1)
        steps = b.literal(np.arange(length, dtype=np.int64)[None])
        position_ids = b.add(*b.common(steps, position_ids))
    else:
        expect(position_ids, "position_ids", batch, length)
    positions = b.broadcast_to(position_ids, (batch, length))
    y = rotated(b, apart, positions, cos, sin, bool(interleaved))
    return joined(b, y) if x.shape.ndim == 3 else y


def rotated_heads(b: OnnxBuilder, x: Value, cos: Value, sin: Value, num_heads: int, width: int) -> Value:
    """x {B, S, N * H} or {B, N, S, H} as {B, N, S, H}; OnnxError where tables cannot rotate `width` numbers of a head.

    A width of 0 is that of the tables.
    """
    if width and not num_heads:
        raise OnnxError(f"rotary_embedding_dim {width} needs num_heads")
    flat = x.shape.ndim == 3
    expect(x, "input", *(None,) * (3 if flat else 4))
    expect(cos, "cos_cache", None, None)
    expect(sin, "sin_cache", *cos.shape.lens)
    half = cos.shape.lens[1]
    apart = heads(b, x, num_heads or x.shape.lens[2] // (2 * half)) if flat else x
    size, some = apart.shape.lens[3], flat or width  # of a head's numbers may be rotated
    width = width or 2 * half
    if apart.shape.lens[2] > cos.shape.lens[0]:
        raise OnnxError(f"{apart.shape.lens[2]} positions, tables of {cos.shape.lens[0]}")
    if width > size or width != 2 * half or not (some or width == size):
        raise OnnxError(f"{width} of {size} numbers of a head cannot be rotated by tables of {half}")
    return apart
