"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, UnsupportedError, Value, dtype_of, lens
from torch_migraphx.fx.converter_registry import converter
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


def scores_logsumexp(
    b: Builder, query: Value, key: Value, mask: Value | None, is_causal: bool, scale: float | None
) -> Value:
    """log(sum(exp(query @ key.T * scale + mask))) over the keys; dead code unless a backward reads it."""
    n = len(lens(query))
    key = with_heads(b, key, lens(query)[-3])
    wide = torch.promote_types(dtype_of(query), torch.float32)
    transposed = b.permute(key, [*range(n - 2), n - 1, n - 2])
    factor = 1 / math.sqrt(max(lens(query)[-1], 1)) if scale is None else scale
    scores = b.cast(b.pointwise("mul", b.matmul(query, transposed), factor), wide)
    if is_causal:
        scores = b.causal_scores(scores)
    if mask is not None and dtype_of(mask) == torch.bool:
        scores = b.where(b.expand(mask, lens(scores)), scores, b.full(-torch.inf, wide, lens(scores)))
    elif mask is not None:
        scores = b.pointwise("add", scores, b.cast(mask, wide))
    return b.logsumexp(scores, axes=[n - 1], keepdims=False)
