"""ONNX Runtime's GroupQueryAttention (domain com.microsoft), and its caches of keys and values in integers.

Names of lengths: B batch, S queries, T all keys, N heads, H size of a head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.attention import (
    added,
    attended,
    heads,
    joined,
    lengthened,
    masked_scores,
    past_keys,
    rotated,
    visible,
    written,
)
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same
from migraphx.ops.composites.products import shared_heads, split

Value = Instruction


CACHES = (*FLOATS16, "uint8", "int8")


@converter(
    "GroupQueryAttention",
    domain=MICROSOFT,
    takes=[
        same(FLOATS16, "query", "cos", "sin", "attention_bias", "head_sink", "q_norm", "k_norm"),
        same(CACHES, "past_key"),
        same(CACHES, "past_value"),
        same(("int32",), "seqlens"),
        same(("int32",), "total_length"),
        same(("int64",), "position_ids"),
        same(("float",), "k_scale"),
        same(("float",), "v_scale"),
    ],
)
def group_query_attention(
    b: OnnxBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens: Value,
    total_length: Value,
    cos: Value | None = None,
    sin: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    k_scale: Value | None = None,
    v_scale: Value | None = None,
    q_norm: Value | None = None,
    k_norm: Value | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    local_window_size: int = -1,
    softcap: float = 0.0,
    smooth_softmax: int = 0,
    qk_output: int = 0,
    causal: int = 1,
    qk_norm_epsilon: float = 1e-6,
    kv_cache_bit_width: int = 0,
    k_quant_type: str = "NONE",
    v_quant_type: str = "NONE",
) -> tuple[Value | None, ...]:
    """Attention in which groups of heads share keys and values, which the cache {B, N, T, H} keeps.

    seqlens {B} are the keys of each item less one, `total_length` the most. Queries are the last keys of their item;
    without a past the first. `local_window_size`: how many keys a query sees. q_norm, k_norm {H}: weights of RMS norms.
    """
    expect(query, "query", None, None, None)
    expect(head_sink, "head_sink", num_heads)
    rotary = tables(cos, sin) if do_rotary else ()
    q, k, v = grouped(b, query, key, value, num_heads, kv_num_heads)
    fixed = holds_all(b, past_key, total_length)
    total = past_keys(past_key, past_value) if fixed else int(b.number(total_length, "total_sequence_length"))
    last, starts, positions = places(b, seqlens, q, total_length if fixed else total)
    q, k = (x if w is None else b.rms_norm(x, w, epsilon=qk_norm_epsilon) for x, w in ((q, q_norm), (k, k_norm)))
    if rotary:
        at = positions if position_ids is None else told(b, position_ids, q, total_length if fixed else total)
        q, k = (with_rotary(b, x, at, *rotary, bool(rotary_interleaved)) for x in (q, k))
    keys = max(total, past_keys(past_key, past_value))
    codes = (cache(k_scale, k_quant_type, kv_cache_bit_width), cache(v_scale, v_quant_type, kv_cache_bit_width))
    k, v, presents = lengthened_caches(b, q, (k, v), (past_key, past_value), codes, starts, keys, fixed)
    bias = [lengthened(b, x, keys) for x in (attention_bias,) if x is not None]
    scoring = Scoring(scale, softcap, head_sink, bool(smooth_softmax), qk_output)
    if scoring.simple(b) and causal and total == q.shape.lens[2] == keys and local_window_size < 0 and not fixed:
        return joined(b, attended(b, q, k, v, bias, scale, first=0)), *presents
    seen = visible(b, positions if causal else last, keys, local_window_size)
    y, *scores = scoring.attended(b, (q, k, v), bias, seen)
    return y, *presents, *(b.slice(s, axes=(3,), starts=(0,), ends=(total,)) for s in scores)


def holds_all(b: OnnxBuilder, past_key: Value | None, total_length: Value) -> bool:
    """Whether the model declares caches as long as the past, which then hold all keys.

    The total length is a number of the run then, and what lies behind the keys stays what it was. Else it decides
    lengths, and must be known; so it must where it is known, or scores are wanted, which are as long.
    """
    known = b.constant(total_length) is not None or b.wants(3)
    return past_key is not None and not known and b.alike(1, 3) and b.alike(2, 4)


def places(b: OnnxBuilder, seqlens: Value, q: Value, total: int | Value) -> tuple[Value, Value, Value]:
    """Where the queries of each item end and where they start, both {B, 1}, and the position of each {B, S}.

    Where all keys are new, in a prompt, whose ends are padded, each item starts at 0.
    """
    batch, _, length, _ = q.shape.lens
    last = b.reshape(b.cast(seqlens, "int64"), dims=(batch, 1))
    zero, later = b.full(0, last), b.add(last, b.full(1 - length, last))
    if isinstance(total, Value):
        starts = b.where(b.broadcast_to(is_prompt(b, total, length), last.shape.lens), zero, later)
    else:
        starts = zero if total == length else later
    return last, starts, b.add(*b.common(starts, b.literal(np.arange(length)[None])))


def is_prompt(b: OnnxBuilder, total: Value, length: int) -> Value:
    """Whether all keys are new, bool {1, 1}."""
    count = b.cast(b.reshape(total, dims=(1, 1)), "int64")
    return b.cast(b.equal(count, b.literal(np.array([[length]], np.int64))), "bool")


def told(b: OnnxBuilder, position_ids: Value, q: Value, total: int | Value) -> Value:
    """The positions of an input {B, S}, of which ONNX Runtime reads the first number alone in a prompt."""
    batch, _, length, _ = q.shape.lens
    expect(position_ids, "position_ids", batch, length)
    first = b.slice(position_ids, axes=(0, 1), starts=(0, 0), ends=(1, 1))
    prompt = b.add(*b.common(first, b.literal(np.arange(length)[None])))
    if not isinstance(total, Value):
        return prompt if total == length else position_ids
    prompt, new = (b.broadcast_to(v, position_ids.shape.lens) for v in (prompt, is_prompt(b, total, length)))
    return b.where(new, prompt, position_ids)


def tables(cos: Value | None, sin: Value | None) -> tuple[Value, Value]:
    """The tables of a rotary embedding, which must be there."""
    if cos is None or sin is None:
        raise OnnxError("do_rotary needs cos_cache and sin_cache")
    expect(sin, "sin_cache", *cos.shape.lens)
    return cos, sin


def with_rotary(b: OnnxBuilder, x: Value, at: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """x {B, N, S, H} with the rotary embedding of the positions `at` {B, S}."""
    if 0 in x.shape.lens:
        return x
    return rotated(b, x, b.broadcast_to(at, (x.shape.lens[0], x.shape.lens[2])), cos, sin, interleaved)


def lengthened_caches(
    b: OnnxBuilder,
    q: Value,
    new: tuple[Value, Value],
    past: tuple[Value | None, Value | None],
    codes: tuple[Cache, Cache],
    starts: Value,
    keys: int,
    fixed: bool,
) -> tuple[Value, Value, Sequence[Value | None]]:
    """All keys and values {B, N, `keys`, H} in q's type, and the caches that the node gives (None: nothing is new).

    `fixed`: the model declares caches as long as the past. These hold all keys, and the total is a number of the run;
    what lies behind the keys stays what it was. Else the total decides lengths, and must be known.
    """
    write = replaced if fixed else written
    batch, kv_heads = new[0].shape.lens[:2]
    for what, old in zip(("past_key", "past_value"), past, strict=True):
        expect(old, what, batch, kv_heads, None, None)
    held: Sequence[Value | None] = past
    presents: Sequence[Value | None] = (None, None)
    if new[0].shape.lens[2]:
        narrow = [code.narrow(b, x) for code, x in zip(codes, new, strict=True)]
        held = presents = [write(b, old, x, starts, keys) for old, x in zip(past, narrow, strict=True)]
    k, v = (code.wide(b, x, q) for code, x in zip(codes, held, strict=True))
    return k, v, presents


def replaced(b: OnnxBuilder, past: Value | None, new: Value, starts: Value, keys: int) -> Value:
    """The cache {B, N, keys, H} with what is new in the rows from starts {B, 1} on."""
    if past is None:
        raise OnnxError("there is no past to be replaced")
    begin = b.clamp(starts, 0, keys)  # a row behind the last is an error of the run
    rows = b.add(*b.common(begin, b.literal(np.arange(new.shape.lens[2])[None])))
    return b.scatter_none(past, b.broadcast_to(b.unsqueeze(rows, axes=(1, 3)), new.shape.lens), new, axis=2)


@dataclass(frozen=True)
class Scoring:
    """How scores become weights, and what of them the node's last output shows."""

    scale: float
    softcap: float
    sink: Value | None
    smooth: bool
    qk_output: int

    def simple(self, b: OnnxBuilder) -> bool:
        """Whether the `attention` operator computes it."""
        return not (self.softcap or self.smooth or self.qk_output or b.wants(3) or self.sink is not None)

    def attended(
        self, b: OnnxBuilder, qkv: tuple[Value, Value, Value], bias: list[Value], seen: Value
    ) -> tuple[Value, ...]:
        """The output {B, S, N * H}, and the scores or weights where the node gives them; `seen`: what queries see."""
        q, k, v = qkv
        mask = added(b, seen, -math.inf, q)
        if self.simple(b):
            return (joined(b, attended(b, q, k, v, [mask, *bias], self.scale)),)
        scores = masked_scores(b, q, k, bias, self.scale, self.softcap)
        weights = sunk(b, b.add(*b.common(scores, mask)), self.sink, self.smooth)
        y = joined(b, b.matmul(weights, shared_heads(b, q, v)))
        if not b.wants(3):
            return (y,)
        hidden = b.full(0.0, scores)
        return y, weights if self.qk_output == 2 else b.where(b.broadcast_to(seen, scores.shape.lens), scores, hidden)


def grouped(
    b: OnnxBuilder, query: Value, key: Value | None, value: Value | None, num_heads: int, kv_heads: int
) -> list[Value]:
    """q {B, N, S, H}, k and v {B, Nkv, S, H}, from three inputs or from one that holds them side by side."""
    if num_heads < 1 or kv_heads < 1 or num_heads % kv_heads:
        raise OnnxError(f"{kv_heads} heads of keys do not divide {num_heads} of queries")
    one = [v is not None and v.shape.ndim < 3 and v.shape.elements <= 1 for v in (key, value)]
    if any(one):
        b.deviates("its key and value are placeholders: the query holds all three")
        key = value = None
    if (key is None) != (value is None):
        raise OnnxError(f"it has no {'key' if key is None else 'value'}")
    if key is not None and value is not None:
        for what, part in (("key", key), ("value", value)):
            if part.shape.type != query.shape.type:
                raise OnnxError(f"its {what} is {part.shape.type}, its query {query.shape.type}")
        expect(key, "key", query.shape.lens[0], None, None)
        expect(value, "value", *key.shape.lens)
        return [heads(b, query, num_heads), heads(b, key, kv_heads), heads(b, value, kv_heads)]
    size, rest = divmod(query.shape.lens[2], num_heads + 2 * kv_heads)
    if rest:
        raise OnnxError(f"{num_heads} + 2 * {kv_heads} heads do not divide a width of {query.shape.lens[2]}")
    parts = split(b, query, sizes=(num_heads * size, kv_heads * size, kv_heads * size), axis=2)
    return [heads(b, p, n) for p, n in zip(parts, (num_heads, kv_heads, kv_heads), strict=True)]


# ---- scores ----


def sunk(b: OnnxBuilder, scores: Value, sink: Value | None, smooth: bool) -> Value:
    """The weights of scores and of one more that has no value: sink {N}, or 0 where `smooth`."""
    if sink is None and not smooth:
        return b.softmax(scores, axis=3)
    *outer, keys = scores.shape.lens
    extra = b.literal(np.zeros(1, scores.shape.numpy_dtype))
    if sink is not None:
        extra = b.reshape(b.cast(sink, scores.shape.type), dims=(1, outer[1], 1, 1))
    weights = b.softmax(b.concat(scores, b.broadcast_to(extra, (*outer, 1)), axis=3), axis=3)
    return b.slice(weights, axes=(3,), starts=(0,), ends=(keys,))


# ---- caches in integers ----


@dataclass(frozen=True)
class Cache:
    """How a cache holds numbers: as they are where there is no scale, else in `bits` bits, 8 or 4.

    Of 4 bits a byte holds two, the first in the lower half, 8 added.
    """

    scale: Value | None
    bits: int

    def narrow(self, b: OnnxBuilder, x: Value) -> Value:
        """{B, N, L, H} as the cache holds it."""
        if self.scale is None:
            return x
        half = 1 << (self.bits - 1)
        wide = b.cast(x, "float")
        codes = b.clamp(b.nearbyint(b.div(wide, self.broadcast_scale(b, wide))), -half, half - 1)
        if self.bits == 8:
            return b.cast(codes, "int8")
        return b.pack_int4(b.cast(b.add(codes, b.full(half, codes)), "uint8"), axis=3)

    def wide(self, b: OnnxBuilder, x: Value | None, like: Value) -> Value:
        """What the cache holds, in the type of `like`."""
        if x is None:
            raise OnnxError("there are neither keys nor past ones")
        if self.scale is None:
            return x
        codes = b.cast(x if self.bits == 8 else b.unpack_int4(x, axis=3), "float")
        codes = codes if self.bits == 8 else b.sub(codes, b.full(8.0, codes))
        return b.cast(b.mul(codes, self.broadcast_scale(b, codes)), like.shape.type)

    def broadcast_scale(self, b: OnnxBuilder, like: Value) -> Value:
        """The scale, one number or {1, N, 1, H}, in the lens of `like`."""
        assert self.scale is not None
        return b.broadcast_to(b.cast(self.scale, "float"), like.shape.lens)


def cache(scale: Value | None, how: str, bits: int) -> Cache:
    """OnnxError for what is not 8 or 4 bits with a scale."""
    if how == "NONE":
        return Cache(None, 0)
    if how not in ("PER_TENSOR", "PER_CHANNEL") or bits not in (4, 8) or scale is None:
        raise OnnxError(f"a cache of {bits} bits quantized {how}, scale {scale and scale.shape}, is not supported")
    return Cache(scale, bits)
