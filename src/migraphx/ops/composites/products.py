"""Matrix products, attention, lookups and rearrangements, written in primitive operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder, composite
from migraphx.ir.module import Instruction
from migraphx.ir.shape import broadcast_lens
from migraphx.ir.size import is_open
from migraphx.ops.composites.activation import scaled

Value = Instruction
MANY = 1 << 11
"""Keys of causal attention of unknown length that one program serves; twice as many have another one, and so on."""


def swapped(b: Builder, x: Value) -> Value:
    """x with its last two dimensions exchanged."""
    order = (*range(x.shape.ndim - 2), x.shape.ndim - 1, x.shape.ndim - 2)
    return b.transpose(x, permutation=order)


# ---- matrix products ----


@composite
def matmul(b: Builder, x: Value, y: Value) -> Value:
    """Matrix product with broadcast batch dimensions; vectors as in NumPy (ONNX MatMul, aten::matmul)."""
    drop = [axis for axis, v in ((-2, x), (-1, y)) if v.shape.ndim == 1]
    if not x.shape.ndim or not y.shape.ndim:
        raise ValueError(f"matmul: takes no scalars, got {x.shape} and {y.shape}")
    x = b.unsqueeze(x, axes=(0,)) if x.shape.ndim == 1 else x
    y = b.unsqueeze(y, axes=(1,)) if y.shape.ndim == 1 else y
    batch = broadcast_lens(x.shape.lens[:-2], y.shape.lens[:-2])
    x, y = (b.broadcast_to(v, (*batch, *v.shape.lens[-2:])) for v in (x, y))
    product = b.dot(x, y)
    return b.squeeze(product, axes=tuple(drop)) if drop else product


@composite
def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x {..., K} times weight {N, K} transposed, plus bias {N} (aten::linear)."""
    if weight.shape.ndim == 1:  # one output, which has no dimension
        product = b.matmul(x, weight)
        return product if bias is None else b.add(product, b.broadcast_to(bias, product.shape.lens))
    rows = b.unsqueeze(x, axes=(0,)) if x.shape.ndim == 1 else x
    transposed = b.transpose(weight, permutation=(1, 0))
    transposed = b.multibroadcast(transposed, out_lens=(*rows.shape.lens[:-2], *transposed.shape.lens))
    product = b.dot(rows, transposed)
    if rows is not x:
        product = b.squeeze(product, axes=(0,))
    return product if bias is None else b.add(product, b.multibroadcast(bias, out_lens=product.shape.lens))


@composite
def addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1.0, alpha: float = 1.0) -> Value:
    """beta * bias + alpha * (x @ y) with x {M, K}, y {K, N}, bias broadcast (aten::addmm, aten::baddbmm)."""
    x = b.multibroadcast(x, out_lens=x.shape.lens)
    product = b.dot(x, b.multibroadcast(y, out_lens=y.shape.lens))
    if beta == 0:  # as in torch, NaN and inf of the bias then have no say
        return scaled(b, product, alpha)
    wide = b.multibroadcast(bias, out_lens=product.shape.lens)
    same = b.multibroadcast(product, out_lens=product.shape.lens)
    return b.add(scaled(b, wide, beta), scaled(b, same, alpha))


# ---- attention ----


def seen_by_any(b: Builder, mask: Value) -> Value | None:
    """Whether each row of a mask keeps a key, as bool with last length 1; None where all are known to."""
    known = mask
    while known.name == "multibroadcast":
        known = known.inputs[0]
    if known.literal is not None and known.shape.ndim:
        keeps = known.literal if known.literal.dtype == np.bool_ else known.literal != -np.inf
        if keeps.any(-1).all():
            return None
    if mask.shape.type in dtypes.INTEGERS:
        return None  # they have no -inf: what is added hides nothing
    if mask.shape.type != "bool":
        mask = b.not_equal(mask, b.full(-math.inf, mask))
    return b.reduce_any(mask, axes=(mask.shape.ndim - 1,))


def masked(b: Builder, scores: Value, mask: Value) -> Value:
    """-inf where a bool mask is false; a float mask is added."""
    if mask.shape.type == "bool":
        wide = b.broadcast_to(mask, scores.shape.lens)
        return b.where(wide, scores, b.full(-math.inf, scores))
    return b.add(scores, b.broadcast_to(b.cast(mask, scores.shape.type), scores.shape.lens))


@composite
def causal_scores(b: Builder, scores: Value) -> Value:
    """Scores {..., Lq, Lk}, -inf where the key's number is larger than the query's (is_causal of torch's attention)."""
    queries, keys = scores.shape.lens[-2:]
    if not is_open((queries, keys)):
        return masked(b, scores, b.literal(np.tri(queries, keys, dtype=np.bool_)))
    most = MANY
    while queries > most or keys > most:
        most *= 2
    corner = b.slice(b.literal(np.tri(most, dtype=np.bool_)), axes=(0, 1), starts=(0, 0), ends=(queries, keys))
    return masked(b, scores, corner)


@composite
def scaled_dot_product_attention(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Value:
    """softmax(q k^T * scale + mask) v (aten::scaled_dot_product_attention, 1706.03762).

    q {..., Lq, D}, k {..., Lk, D}, v {..., Lk, Dv}; `scale` is 1 / sqrt(D) where absent. mask broadcasts to
    {..., Lq, Lk}: a bool keeps where true, a float is added. `is_causal`: query i sees keys 0 to i. Where
    k and v have fewer heads than q, groups share them. A query that sees no key gets 0.
    """
    scale = 1 / math.sqrt(max(q.shape.lens[-1], 1)) if scale is None else scale
    k, v = shared_heads(b, q, k), shared_heads(b, q, v)
    scores = scaled(b, b.matmul(q, swapped(b, k)), scale)
    rows = None
    if is_causal:
        scores = causal_scores(b, scores)
    if mask is not None:
        rows = seen_by_any(b, mask)
        scores = masked(b, scores, mask)
    result = b.matmul(b.softmax(scores, axis=scores.shape.ndim - 1), v)
    if rows is not None:
        result = b.where(b.broadcast_to(rows, result.shape.lens), result, b.full(0.0, result))
    return result


def shared_heads(b: Builder, q: Value, x: Value) -> Value:
    """x {..., Hkv, L, D} with each head repeated, so that it has as many as q {..., H, L, D}."""
    if x.shape.ndim < 3 or q.shape.ndim < 3 or x.shape.lens[-3] in (1, q.shape.lens[-3]):
        return x
    (*outer, heads, length, depth), wanted = x.shape.lens, q.shape.lens[-3]
    if wanted % heads:
        raise ValueError(f"attention: {heads} heads of {x.shape} do not divide {wanted} heads of {q.shape}")
    apart = b.unsqueeze(x, axes=(x.shape.ndim - 2,))
    repeated = b.multibroadcast(apart, out_lens=(*outer, heads, wanted // heads, length, depth))
    return b.reshape(repeated, dims=(*outer, wanted, length, depth))


@composite
def rotary_embedding(b: Builder, x: Value, cos: Value, sin: Value, *, interleaved: bool = False) -> Value:
    """Pairs of the first 2 R numbers of x {B, N, S, H} rotated by angles (2104.09864, ONNX RotaryEmbedding).

    cos and sin broadcast to {B, N, S, R}. Pairs are R apart, or neighbours where `interleaved`.
    """
    *outer, width = x.shape.lens
    half = cos.shape.lens[-1]
    last = x.shape.ndim - 1
    if 2 * half > width:
        raise ValueError(f"rotary_embedding: {half} angles are too many for {x.shape}")
    rotating = b.slice(x, axes=(last,), starts=(0,), ends=(2 * half,))
    if interleaved:
        pairs = b.reshape(rotating, dims=(*outer, half, 2))
        first, second = (b.squeeze(v, axes=(last + 1,)) for v in split(b, pairs, sizes=(1, 1), axis=last + 1))
    else:
        first, second = split(b, rotating, sizes=(half, half), axis=last)
    cos, sin = (b.broadcast_to(b.cast(v, x.shape.type), first.shape.lens) for v in (cos, sin))
    new = [b.sub(b.mul(first, cos), b.mul(second, sin)), b.add(b.mul(first, sin), b.mul(second, cos))]
    if interleaved:
        pairs = b.concat(*(b.unsqueeze(v, axes=(last + 1,)) for v in new), axis=last + 1)
        new = [b.reshape(pairs, dims=rotating.shape.lens)]
    rest = [b.slice(x, axes=(last,), starts=(2 * half,), ends=(width,))] if 2 * half < width else []
    return b.concat(*new, *rest, axis=last) if len(new) + len(rest) > 1 else new[0]


# ---- lookups and rearrangements ----


@composite
def embedding(b: Builder, weight: Value, indices: Value) -> Value:
    """Row `indices` of weight {N, D}: {..., D} (aten::embedding)."""
    return b.gather(weight, indices, axis=0)


@composite
def split(b: Builder, x: Value, sizes: Sequence[int], axis: int = 0) -> list[Value]:
    """Consecutive pieces along `axis` of the given lengths (ONNX Split, aten::split_with_sizes)."""
    axis %= x.shape.ndim
    if sum(sizes) != x.shape.lens[axis]:
        raise ValueError(f"split: sizes {tuple(sizes)} do not add up to axis {axis} of {x.shape}")
    ends = np.cumsum(sizes).tolist()
    return [b.slice(x, axes=(axis,), starts=(end - size,), ends=(end,)) for size, end in zip(sizes, ends, strict=True)]


@composite
def tile(b: Builder, x: Value, repeats: Sequence[int]) -> Value:
    """x repeated along each dimension; missing leading dimensions are added (ONNX Tile, aten::repeat)."""
    lens = (*(1,) * (len(repeats) - x.shape.ndim), *x.shape.lens)
    repeats = (*(1,) * (len(lens) - len(repeats)), *repeats)
    if any(r < 0 for r in repeats):
        raise ValueError(f"tile: negative repeats {repeats}")
    apart = [length for n in lens for length in (1, n)]
    wide = [length for n, r in zip(lens, repeats, strict=True) for length in (r, n)]
    whole = b.multibroadcast(b.reshape(x, dims=apart), out_lens=wide)
    return b.reshape(whole, dims=[n * r for n, r in zip(lens, repeats, strict=True)])


@composite
def repeat_interleave(b: Builder, x: Value, repeats: int, axis: int) -> Value:
    """Each element `repeats` times in a row along `axis` (aten::repeat_interleave.self_int)."""
    axis %= x.shape.ndim
    lens = x.shape.lens
    apart = b.unsqueeze(x, axes=(axis + 1,))
    wide = b.multibroadcast(apart, out_lens=(*lens[: axis + 1], repeats, *lens[axis + 1 :]))
    return b.reshape(wide, dims=(*lens[:axis], lens[axis] * repeats, *lens[axis + 1 :]))


# ---- scans ----


def scan(b: Builder, x: Value, axis: int, word: str, neutral: float) -> Value:
    """All prefixes of an associative operator, in log2(n) steps (Hillis and Steele, 1986)."""
    axis %= x.shape.ndim
    length, step = x.shape.lens[axis], 1
    while step < length:
        head = b.slice(x, axes=(axis,), starts=(0,), ends=(length - step,))
        start = b.slice(b.full(neutral, x), axes=(axis,), starts=(0,), ends=(step,))
        x = b.instruction(word, [x, b.concat(start, head, axis=axis)])
        step *= 2
    return x


def bound(type: str, sign: int) -> float:
    """The largest (sign 1) or lowest (-1) value of a type: inf for floats."""
    if type in dtypes.FLOATS:
        return sign * math.inf
    limits = np.iinfo(dtypes.to_numpy(type))
    return int(limits.max if sign > 0 else limits.min)


@composite
def cumsum(b: Builder, x: Value, axis: int) -> Value:
    """Sums up to each element along `axis` (aten::cumsum)"""
    return b.prefix_scan_sum(x, axis=axis)


@composite
def cumprod(b: Builder, x: Value, axis: int) -> Value:
    """Products up to each element along `axis` (aten::cumprod)"""
    return scan(b, x, axis, "mul", 1)


@composite
def cummax(b: Builder, x: Value, axis: int) -> Value:
    """The largest up to each element along `axis` (the values of aten::cummax)"""
    return scan(b, x, axis, "max", bound(x.shape.type, -1))


@composite
def cummin(b: Builder, x: Value, axis: int) -> Value:
    """The smallest up to each element along `axis` (the values of aten::cummin)"""
    return scan(b, x, axis, "min", bound(x.shape.type, 1))
