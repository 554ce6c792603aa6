"""What operators that the standard defines by functions take: the functions compute something of much that is wrong."""

from __future__ import annotations

from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import check

Value = Instruction


@check("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(b: OnnxBuilder, scores: Value, labels: Value, weights: Value | None = None, **given: Any) -> None:
    """scores {N, C, ...}, labels {N, ...}, a weight for each class {C}."""
    if scores.shape.ndim < 2:
        raise OnnxError(f"takes scores of two dimensions or more, got lens {scores.shape.lens}")
    batch, classes, *rest = scores.shape.lens
    expect(labels, "labels", batch, *rest)
    expect(weights, "weights", classes)
    if given.get("reduction", "mean") not in ("none", "sum", "mean"):
        raise OnnxError(f"reduction must be none, sum or mean, is {given['reduction']!r}")


@check("Attention")
def attention(
    b: OnnxBuilder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *rest: Value | None,
    **given: Any,
) -> None:
    """q {B, N, S, H}, k {B, K, L, H}, v {B, K, L, V}; or {B, S, N * H} and so on, with the numbers of heads."""
    if not q.shape.ndim == k.shape.ndim == v.shape.ndim or q.shape.ndim not in (3, 4):
        lens = ", ".join(str(x.shape.lens) for x in (q, k, v))
        raise OnnxError(f"takes q, k and v of three dimensions, or of four, got lens {lens}")
    batch = q.shape.lens[0]
    if q.shape.ndim == 3:
        heads, groups = given.get("q_num_heads") or 0, given.get("kv_num_heads") or 0
        if min(heads, groups) < 1:
            raise OnnxError("inputs of three dimensions need q_num_heads and kv_num_heads")
        expect(k, "k", batch, None, None)
        expect(v, "v", batch, k.shape.lens[1], None)
        widths = [(x.shape.lens[2], n) for x, n in ((q, heads), (k, groups), (v, groups))]
        if any(w % n for w, n in widths) or q.shape.lens[2] * groups != k.shape.lens[2] * heads:
            raise OnnxError(f"{heads} and {groups} heads do not fit widths {[w for w, _ in widths]}")
    else:
        heads, groups = q.shape.lens[1], k.shape.lens[1]
        for what, count in (("q_num_heads", heads), ("kv_num_heads", groups)):
            if given.get(what) not in (None, 0, count):
                raise OnnxError(f"{what} is {given[what]}, there are {count} heads")
        expect(k, "k", batch, None, None, q.shape.lens[3])
        expect(v, "v", batch, groups, k.shape.lens[2], None)
    if not groups or heads % groups:
        raise OnnxError(f"{groups} heads of keys do not divide {heads} of queries")
    if (past_key is None) != (past_value is None):
        raise OnnxError("its past has keys and no values, or values and no keys")
    if past_key is not None and past_value is not None:
        expect(past_key, "past_key", batch, groups, None, None)
        expect(past_value, "past_value", batch, groups, past_key.shape.lens[2], None)
    if mask is not None and mask.shape.ndim:
        total = k.shape.lens[-2] + (0 if past_key is None else past_key.shape.lens[2])
        if mask.shape.lens[-1] > total:
            raise OnnxError(f"its mask is for {mask.shape.lens[-1]} keys, there are {total}")


@check("RotaryEmbedding")
def rotary_embedding(
    b: OnnxBuilder, x: Value, cos: Value, sin: Value, positions: Value | None = None, **given: Any
) -> None:
    """x {B, N, S, H} or {B, S, N * H}; tables {M, R / 2} and positions {B, S}, or tables {B, S, R / 2}."""
    if x.shape.ndim not in (3, 4):
        raise OnnxError(f"takes an input of three or four dimensions, got lens {x.shape.lens}")
    expect(sin, "sin_cache", *cos.shape.lens)
    batch, length = x.shape.lens[0], x.shape.lens[-2]
    expect(positions, "position_ids", batch, length)
    if positions is None:
        expect(cos, "cos_cache", batch, length, None)
    else:
        expect(cos, "cos_cache", None, None)


@check("CausalConvWithState")
def causal_convolution(
    b: OnnxBuilder, x: Value, w: Value, bias: Value | None = None, past: Value | None = None, **given: Any
) -> None:
    """x {B, C, L}, w {C, 1, K}, bias {C}, past {B, C, K - 1}."""
    expect(x, "input", None, None, None)
    expect(w, "weight", x.shape.lens[1], 1, None)
    expect(bias, "bias", x.shape.lens[1])
    expect(past, "past_state", *x.shape.lens[:2], w.shape.lens[2] - 1)


@check("LinearAttention")
def linear_attention(
    b: OnnxBuilder,
    q: Value,
    k: Value,
    v: Value,
    past: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
    **given: Any,
) -> None:
    """q, k, v, decay and beta {B, T, ...}, the past {B, ..., ..., ...}."""
    expect(q, "query", None, None, None)
    for what, value in (("key", k), ("value", v), ("decay", decay), ("beta", beta)):
        expect(value, what, *q.shape.lens[:2], None)
    expect(past, "past_state", q.shape.lens[0], None, None, None)


@check("SwiGLU")
def swiglu(b: OnnxBuilder, x: Value, gate: Value | None = None, **given: Any) -> None:
    """Two inputs of the same lens."""
    expect(gate, "second input", *x.shape.lens)
