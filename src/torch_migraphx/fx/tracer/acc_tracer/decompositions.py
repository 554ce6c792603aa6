"""Torch functions that are traced through instead of being operators of their own.

Each function here is written on the torch operators that the acc tracer knows, and has the arguments of the
torch function that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch.nn.modules import transformer

from .proxies import AccProxy


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """F.normalize: x / max(norm(x), eps)"""
    if out is not None:
        raise NotImplementedError("F.normalize(out=...)")
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """F.cosine_similarity, each norm bounded below by eps."""
    x1, x2 = torch.broadcast_tensors(x1, x2)
    norms = [x.norm(2, dim, keepdim=True).clamp_min(eps) for x in (x1, x2)]
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """torch.broadcast_tensors"""
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """torch.meshgrid; "xy" swaps the first two axes."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    axes = list(range(len(tensors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    shape = [tensors[axis].numel() for axis in axes]
    grids = []
    for tensor, axis in zip(tensors, axes, strict=True):
        lens = [1] * len(axes)
        lens[axis] = tensor.numel()
        grids.append(tensor.reshape(lens).expand(shape))
    return tuple(grids)


def std_mean(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """torch.std_mean"""
    return torch.std(input, *args, **kwargs), _mean_like_spread(input, *args, **kwargs)


def var_mean(input: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """torch.var_mean"""
    return torch.var(input, *args, **kwargs), _mean_like_spread(input, *args, **kwargs)


def _mean_like_spread(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None
) -> Any:
    """The mean over the axes that torch.var takes by the same arguments."""
    return torch.mean(input, None if isinstance(dim, bool) else dim, keepdim)


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """torch.diff: n times, each element less the one before it; for bool, whether the two differ."""
    x = torch.cat([t for t in (prepend, input, append) if t is not None], dim)
    for _ in range(min(n, x.shape[dim])):
        last, first = x.narrow(dim, 1, x.shape[dim] - 1), x.narrow(dim, 0, x.shape[dim] - 1)
        x = last ^ first if x.dtype == torch.bool else last - first
    return x


def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """torch._weight_norm: g * v / |v|, a norm for each place along `dim`, or one norm where it is -1."""
    axes = [k for k in range(v.dim()) if dim == -1 or k != dim % v.dim()]
    return v * (g / v.norm(2, axes, True))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """F.fold: columns (N, C * kh * kw, L), or without N, each patch added where it belongs, to (N, C, H, W).

    For every position in the patch, its pixels are placed a stride apart, shifted there and added.
    """
    if input.dim() == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    size, kernel, step, margin, jump = (
        (x, x) if isinstance(x, int) else tuple(x) for x in (output_size, kernel_size, dilation, padding, stride)
    )
    full = [n + 2 * m for n, m in zip(size, margin, strict=True)]
    h, w = ((n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(full, kernel, step, jump, strict=True))
    batch, channels = input.shape[0], input.shape[1] // (kernel[0] * kernel[1])
    patches = input.reshape(batch, channels, *kernel, h, 1, w, 1)
    patches = F.pad(patches, (0, jump[1] - 1, 0, 0, 0, jump[0] - 1)).reshape(
        batch, channels, *kernel, h * jump[0], w * jump[1]
    )
    extent = (h - 1) * jump[0] + 1, (w - 1) * jump[1] + 1
    total: Any = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * step[0], j * step[1]
            pixels = patches[:, :, i, j, : extent[0], : extent[1]]
            around = (left, full[1] - left - extent[1], top, full[0] - top - extent[0])
            placed = F.pad(pixels, around)
            total = placed if total is None else total + placed
    return total[:, :, margin[0] : margin[0] + size[0], margin[1] : margin[1] + size[1]]


def _project(
    query: Any, key: Any, value: Any, in_w: Any, in_b: Any, weights: tuple[Any, Any, Any] | None
) -> tuple[Any, Any, Any]:
    """The three input projections: one packed weight (3 * E, E), or three."""
    if weights is not None:
        biases = (None, None, None) if in_b is None else in_b.chunk(3)
        inputs = (query, key, value)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))
        return q, k, v
    if query is key and key is value:
        q, k, v = F.linear(query, in_w, in_b).chunk(3, dim=-1)
        return q, k, v
    packed = in_w.chunk(3)
    return _project(query, key, value, in_w, in_b, (packed[0], packed[1], packed[2]))


def _float_mask(mask: Any, dtype: torch.dtype) -> Any:
    """A bool mask (True means hidden) as the number that is added to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, float("-inf"))


def _merge_masks(attn_mask: Any, padding: Any, query: Any, heads: int) -> Any:
    """(L, S) or (N * heads, L, S) and (N, S) as one float mask that broadcasts to (N, heads, L, S)."""
    batch, dtype = query.shape[1], query.dtype
    mask = _float_mask(attn_mask, dtype)
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(batch, heads, *mask.shape[1:])
    hidden = _float_mask(padding, dtype)
    if hidden is None:
        return mask
    hidden = hidden.reshape(batch, 1, 1, hidden.shape[-1])
    return hidden if mask is None else mask + hidden


def _attend(q: Any, k: Any, v: Any, mask: Any, need_weights: bool, is_causal: bool) -> tuple[Any, Any]:
    """(N, heads, L, size) to the mixed values and, where asked for, the probabilities (N, heads, L, S)."""
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal and mask is None), None
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    probabilities = torch.softmax(scores if mask is None else scores + mask, -1)
    return torch.matmul(probabilities, v), probabilities


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """F.multi_head_attention_forward in inference form: (L, N, E) to (L, N, E), or without the batch axis.

    Raises NotImplementedError for added key biases, zero attention and static keys.
    """
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        raise NotImplementedError("attention with bias_k, add_zero_attn or static keys")
    unbatched = query.dim() == 2
    if unbatched:
        same = query is key and key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if same else (key.unsqueeze(1), value.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias, weights)
    length, batch, _ = query.shape
    q, k, v = (x.reshape(x.shape[0], batch, num_heads, -1).permute(1, 2, 0, 3) for x in (q, k, v))
    mask = _merge_masks(attn_mask, key_padding_mask, query, num_heads)
    mixed, probabilities = _attend(q, k, v, mask, need_weights, is_causal)
    out = F.linear(mixed.permute(2, 0, 1, 3).reshape(length, batch, -1), out_proj_weight, out_proj_bias)
    if probabilities is not None and average_attn_weights:
        probabilities = probabilities.mean(1)
    if unbatched:
        out = out.squeeze(1)
        probabilities = None if probabilities is None else probabilities.squeeze(0)
    return out, probabilities


DECOMPOSITIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.normalize: normalize,
    F.cosine_similarity: cosine_similarity,
    F.multi_head_attention_forward: multi_head_attention_forward,
    F.fold: fold,
    torch.diff: diff,
    torch._weight_norm: weight_norm,  # type: ignore[attr-defined]
    torch.broadcast_tensors: broadcast_tensors,
    torch.meshgrid: meshgrid,
    torch.std_mean: std_mean,
    torch.var_mean: var_mean,
}


# ---- helpers of nn.MultiheadAttention and nn.Transformer* that refuse, or look into, what is not a tensor


def _none_or_dtype(input: Any) -> Any:
    """The element type of a mask that may be None."""
    return None if input is None else input.dtype


def _canonical_mask(mask: Any, *, target_type: torch.dtype, **_: Any) -> Any:
    """A mask as numbers to add."""
    return _float_mask(mask, target_type)


def _detect_is_causal_mask(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether the mask is known to be causal; a mask that is an input is used as it comes."""
    return is_causal is True


_HELPERS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (F, _none_or_dtype),
    (F, _canonical_mask),
    (transformer, _detect_is_causal_mask),
)


@contextmanager
def helpers_that_take_proxies() -> Iterator[None]:
    """While a trace runs, torch's mask helpers work on proxies; on anything else they are torch's own."""
    with ExitStack() as stack:
        for module, ours in _HELPERS:
            theirs = getattr(module, ours.__name__, None)
            if theirs is not None:
                stack.enter_context(mock.patch.object(module, ours.__name__, _for_proxies(ours, theirs)))
        yield


def _for_proxies(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    def helper(*args: Any, **kwargs: Any) -> Any:
        proxies = any(isinstance(a, AccProxy) for a in (*args, *kwargs.values()))
        return (ours if proxies else theirs)(*args, **kwargs)

    return helper
