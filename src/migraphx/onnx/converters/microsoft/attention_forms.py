"""ONNX Runtime's further forms of attention (domain com.microsoft): quantized, of one step, by several positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.converters.microsoft.attention import (
    joined,
    multi_head_attention,
    rotated_heads,
    self_attention,
)
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT
from migraphx.onnx.converters.microsoft.quantize import BYTES, matmul_integer_to_float
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same

Value = Instruction


@converter(
    "QAttention",
    domain=MICROSOFT,
    takes=[
        same(BYTES, "x", "x_zero"),
        same(BYTES, "weights", "w_zero"),
        same(("float", "half"), "bias", "x_scale", "w_scale", "past"),
        same(("int32",), "mask"),
    ],
)
def quantized_attention(
    b: OnnxBuilder,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    w_scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
    past: Value | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, ...]:
    """Self attention of quantized x {B, S, I} by quantized weights {I, 3 W}; their product is an integer one."""
    if do_rotary or past_present_share_buffer:
        raise OnnxError("do_rotary and a past that shares its buffer are not supported")
    expect(x, "input", None, None, None)
    expect(weights, "weight", x.shape.lens[2], None)
    width = weights.shape.lens[1]
    if width % 3:
        raise OnnxError(f"weights of lens {weights.shape.lens} do not make q, k and v")
    projected = matmul_integer_to_float(b, x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    return self_attention(
        b, projected, (width // 3,) * 3, mask, past, None,
        num_heads=num_heads, filtered=mask_filter_value, scale=scale, unidirectional=bool(unidirectional),
    )  # fmt: skip


@converter(
    "DecoderMaskedMultiHeadAttention",
    domain=MICROSOFT,
    takes=[
        same(("float", "half"), "query", "key", "value", "attention_bias", "past_key", "past_value", "bias"),
        same(("int32",), "mask", "past_length", "beam_width", "beams"),
    ],
)
def decoder_attention(
    b: OnnxBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    beam_width: Value | None = None,
    beams: Value | None = None,
    bias: Value | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
) -> tuple[Value, ...]:
    """MultiHeadAttention of one new token, without beams."""
    if beams is not None or (beam_width is not None and b.number(beam_width, "beam_width") != 1):
        raise OnnxError("beams are not supported")
    if query.shape.ndim != 3 or query.shape.lens[1] != 1:
        raise OnnxError(f"takes a query of one token, got lens {query.shape.lens}")
    length = past_length if past_present_share_buffer else None
    return multi_head_attention(
        b, query, key, value, bias, mask, attention_bias, past_key, past_value, length,
        num_heads=num_heads, mask_filter_value=mask_filter_value, scale=scale,
    )  # fmt: skip


# ---- positions ----


@converter(
    "MRotaryEmbedding", domain=MICROSOFT, takes=[same(FLOATS16, "x", "cos", "sin"), same(("int64",), "position_ids")]
)
def rotary_embedding_3d(
    b: OnnxBuilder,
    x: Value,
    position_ids: Value,
    cos: Value,
    sin: Value,
    *,
    mrope_section: Sequence[int],
    interleaved: int = 0,
    is_packed_batching: int = 0,
    mrope_layout: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """RotaryEmbedding by three positions a token {3, B, S} (2409.12191): each angle has one of them.

    `mrope_section`: how many angles are of time, height and width, one section after another, or (layout 1) height and
    width at every third place among time.
    """
    if is_packed_batching or scale != 1.0:
        raise OnnxError("is_packed_batching and scale are not supported")
    apart = rotated_heads(b, x, cos, sin, num_heads, rotary_embedding_dim)
    batch, _, length, _ = apart.shape.lens
    expect(position_ids, "position_ids", 3, batch, length)
    half, sections = cos.shape.lens[1], tuple(mrope_section)
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half or mrope_layout not in (0, 1):
        raise OnnxError(f"mrope_section {sections} of layout {mrope_layout} does not divide {half} angles")
    angles = [b.gather(table, position_ids, axis=0) for table in (cos, sin)]
    chosen = np.repeat(np.arange(3), sections)
    if mrope_layout:
        chosen = np.zeros(half, np.int64)
        for part in (1, 2):
            chosen[part : 3 * sections[part] : 3] = part
    pick = b.literal(np.broadcast_to(chosen, (1, batch, length, half)).astype(np.int64))
    picked = [b.transpose(b.gather_elements(a, pick, axis=0), permutation=(1, 0, 2, 3)) for a in angles]
    y = b.rotary_embedding(apart, *picked, interleaved=bool(interleaved))
    return joined(b, y) if x.shape.ndim == 3 else y


@converter("GemmaRotaryEmbedding", domain=MICROSOFT, takes=[same(("float",), "angles"), same(FLOATS16, "q", "k")])
def gemma_rotary_embedding(
    b: OnnxBuilder, angles: Value, q: Value, q_turned: Value, k: Value, k_turned: Value
) -> tuple[Value, Value]:
    """q cos(angles) + q_turned sin(angles), and so k; angles {B, S, H}, the others {B, N, S, H}."""
    wide = b.unsqueeze(angles, axes=(1,))
    cos, sin = (b.cast(v, q.shape.type) for v in (b.cos(wide), b.sin(wide)))
    made = [b.add(b.mul(*b.common(x, cos)), b.mul(*b.common(y, sin))) for x, y in ((q, q_turned), (k, k_turned))]
    return made[0], made[1]


@converter(
    "RelativePositionBias",
    domain=MICROSOFT,
    takes=[same(("float", "half"), "table"), same(("int64",), "queries", "keys")],
)
def relative_position_bias(
    b: OnnxBuilder, table: Value, queries: Value, keys: Value, *, max_distance: int, is_bidirectional: int = 0
) -> Value:
    """T5's bias {1, N, S, T} (1910.10683): a row of the table {buckets, N} for each distance of a key from a query."""
    expect(table, "bias_table", None, None)
    lens = [b.number(v, n) for v, n in ((queries, "query_length"), (keys, "key_length"))]
    distance = np.arange(lens[1])[None, :] - np.arange(lens[0])[:, None]
    found = bucket(distance, table.shape.lens[0], max_distance, bool(is_bidirectional))
    made = b.gather(table, b.literal(found), axis=0)
    return b.unsqueeze(b.transpose(made, permutation=(2, 0, 1)), axes=(0,))


def bucket(distance: np.ndarray, buckets: int, most: int, both: bool) -> np.ndarray:
    """Which bucket a distance is in: half of them hold one each, the others more and more, up to `most`."""
    start = np.zeros_like(distance)
    if both:
        buckets //= 2
        start = (distance > 0) * buckets
    distance = np.abs(distance) if both else np.maximum(-distance, 0)
    exact = buckets // 2
    if exact < 1 or most <= exact:
        raise OnnxError(f"{buckets} buckets do not hold distances up to {most}")
    share = np.log(np.maximum(distance, 1) / exact) / math.log(most / exact)
    far = np.minimum(exact + (share * (buckets - exact)).astype(np.int64), buckets - 1)
    return start + np.where(distance < exact, distance, far)
