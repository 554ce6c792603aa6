"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens
from torch_migraphx.fx.converter import converter
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten


@converter(acc_ops.scaled_dot_product_attention, aten.scaled_dot_product_attention.default)
def attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if dropout_p:
        raise UnsupportedError("attention with dropout draws random numbers")
    if not enable_gqa and len(lens(query)) > 2 and lens(key)[-3] not in (1, lens(query)[-3]):
        raise UnsupportedError("heads differ without enable_gqa, which is an error in torch")
    if attn_mask is not None and dtype_of(attn_mask) not in (torch.bool, dtype_of(query)):
        attn_mask = b.cast(attn_mask, dtype_of(query))
    inputs: list[Any] = [query, key, value, attn_mask]
    return b.scaled_dot_product_attention(*inputs, scale=scale, is_causal=is_causal)


@converter(aten._scaled_dot_product_attention_math.default)
def attention_math(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, None]:
    """The answer alone: the weights, which nobody reads in inference, are not computed."""
    if dropout_mask is not None:
        raise UnsupportedError("attention with a dropout mask")
    return attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa), None


@converter(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention_cpu(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """(answer, logsumexp of the scores {N, heads, length} in float, or double where query is)."""
    y = attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, True)
    return y, scores_logsumexp(b, query, key, attn_mask, is_causal, scale)


@converter(aten._scaled_dot_product_flash_attention.default)
def attention_flash(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """(answer, logsumexp, None, None, length of the queries, of the keys, None, None, None): what inference reads."""
    y, logsumexp = attention_cpu(b, query, key, value, dropout_p, is_causal, None, scale)
    return y, logsumexp, None, None, lens(query)[-2], lens(key)[-2], None, None, None


@converter(aten._scaled_dot_product_efficient_attention.default)
def attention_efficient(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Value, None, None, None]:
    """The answer alone: logsumexp, which torch pads, and the random state are for a backward."""
    return attention(b, query, key, value, attn_bias, dropout_p, is_causal, scale, True), None, None, None


@converter(aten._scaled_dot_product_cudnn_attention.default)
def attention_cudnn(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """(answer, None, None, None, length of the queries, of the keys, None, None, None): what inference reads."""
    y = attention(b, query, key, value, attn_bias, dropout_p, is_causal, scale, True)
    return y, None, None, None, lens(query)[-2], lens(key)[-2], None, None, None


def with_heads(b: Builder, key: Value, heads: int) -> Value:
    """`key` {N, own, length, size} with each of its heads `heads / own` times in a row, as grouped queries read it."""
    *batch, own, length, size = lens(key)
    if own == heads:
        return key
    repeated = b.expand(b.view(key, [*batch, own, 1, length, size]), [*batch, own, heads // own, length, size])
    return b.view(repeated, [*batch, heads, length, size])


def attention_scores(
    b: Builder, query: Value, key: Value, mask: Value | None, is_causal: bool, scale: float | None
) -> Value:
    """query @ key.T * scale + mask, in float, or double where query is; `key` has as many heads as `query`."""
    n = len(lens(query))
    wide = torch.promote_types(dtype_of(query), torch.float32)
    transposed = b.permute(key, [*range(n - 2), n - 1, n - 2])
    scores = b.cast(b.pointwise("mul", b.matmul(query, transposed), score_factor(query, scale)), wide)
    if is_causal:
        scores = b.causal_scores(scores)
    if mask is not None and dtype_of(mask) == torch.bool:
        scores = b.where(b.expand(mask, lens(scores)), scores, b.full(-torch.inf, wide, lens(scores)))
    elif mask is not None:
        scores = b.pointwise("add", scores, b.cast(mask, wide))
    return scores


def score_factor(query: Value, scale: float | None) -> float:
    return 1 / math.sqrt(max(lens(query)[-1], 1)) if scale is None else scale


def scores_logsumexp(
    b: Builder, query: Value, key: Value, mask: Value | None, is_causal: bool, scale: float | None
) -> Value:
    """log(sum(exp(scores))) over the keys, and 0 where none is seen; dead code unless a backward reads it."""
    scores = attention_scores(b, query, with_heads(b, key, lens(query)[-3]), mask, is_causal, scale)
    total = b.logsumexp(scores, axes=[len(lens(query)) - 1], keepdims=False)
    if mask is None:
        return total
    unseen = b.pointwise("equal", total, -torch.inf)
    return b.where(b.cast(unseen, torch.bool), b.full(0.0, dtype_of(total), lens(total)), total)


@converter(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def attention_cpu_backward(
    b: Builder,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """The gradients of query, key and value {N, heads, length, size} (2307.08691, algorithm 2, all blocks at once)."""
    if dropout_p:
        raise UnsupportedError("attention with dropout draws random numbers")
    heads, swapped = lens(query)[-3], [0, 1, 3, 2]
    keys, values = (with_heads(b, x, heads) for x in (key, value))
    scores = attention_scores(b, query, keys, attn_mask, is_causal, scale)
    wide = dtype_of(scores)
    seen = b.exp(b.pointwise("sub", scores, b.view(logsumexp, [*lens(query)[:-1], 1])))
    own = b.reduce_sum(b.cast(b.pointwise("mul", grad_out, out), wide), axes=[3])
    by_weight = b.cast(b.matmul(grad_out, b.permute(values, swapped)), wide)
    by_score = b.pointwise(
        "mul", b.pointwise("mul", seen, b.pointwise("sub", by_weight, own)), score_factor(query, scale)
    )
    narrow_seen, by_score = (b.cast(x, dtype_of(query)) for x in (seen, by_score))
    by_key = b.matmul(b.permute(by_score, swapped), query)
    by_value = b.matmul(b.permute(narrow_seen, swapped), grad_out)
    return b.matmul(by_score, keys), summed_heads(b, by_key, key), summed_heads(b, by_value, value)


def summed_heads(b: Builder, gradient: Value, key: Value) -> Value:
    """The gradient of `key` of that of `with_heads(key)`."""
    n, heads, length, size = lens(gradient)
    own = lens(key)[1]
    if own == heads:
        return gradient
    return b.view(
        b.reduce_sum(b.view(gradient, [n, own, heads // own, length, size]), axes=[2]), [n, own, length, size]
    )
