"""Attention becomes one operator, in whichever of its forms it was exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import is_open
from migraphx.ops.movement import Broadcasting, Multibroadcast, Reshaping, Slice
from migraphx.passes.constants import compact, computed, is_constant, scalar_of, without_repeats
from migraphx.passes.grouping import axes_of
from migraphx.passes.interface import Pass, Refusals
from migraphx.passes.rewrite import rewrite, rewrites

VERY_NEGATIVE = -1e4  # a score this low has weight 0 beside any other
LEVELLING = -1e30  # added to scores it makes all equal, as those are that a finite `low` has replaced
ROUNDS_AWAY = -1e9  # what is added to a score this low is lost
MOST_COMPUTED = 1 << 26  # elements of a mask that are computed to know it


@dataclass(frozen=True)
class Scores:
    """softmax's argument read as scale * factors * q k^T + masks: floats are added, bools keep what is true."""

    dot: Instruction
    scale: float = 1.0
    factors: tuple[Instruction, ...] = ()  # {..., 1, 1}: one number for all queries and keys of a head
    masks: tuple[Mask, ...] = ()


@dataclass(frozen=True)
class Mask:
    """`value` has the scores' lens; `inverted`: a bool that drops what is true."""

    value: Instruction
    inverted: bool = False
    low: float = field(default=-np.inf)  # what a bool mask puts in place of a score

    @property
    def replaces(self) -> bool:
        """Whether it puts a finite number in place of scores: all of them equal where no key is kept."""
        return self.value.shape.type == "bool" and self.low > -np.inf


def read_scores(x: Instruction) -> Scores | None:
    """Read `x` as masked scores; None where it is anything else, or used elsewhere too."""
    if len(x.users) > 1:
        return None
    if x.name == "dot":
        return Scores(x)
    if x.name == "convert" and x.inputs[0].shape.type in dtypes.FLOATS:
        return read_scores(x.inputs[0])
    if x.name in ("mul", "div"):
        return _read_scaled(x)
    if x.name == "add":
        for inner, mask in (x.inputs, x.inputs[::-1]):
            found = read_scores(inner)
            if found is not None:
                return replace(found, masks=(*found.masks, Mask(mask)))
    if x.name == "where":
        condition, *choices = x.inputs
        for n, inner in enumerate(choices):
            found, low = read_scores(inner), scalar_of(choices[1 - n])
            if found is not None and low is not None and low <= VERY_NEGATIVE:
                return replace(found, masks=(*found.masks, Mask(condition, inverted=n == 1, low=float(low))))
    return None


def _read_scaled(x: Instruction) -> Scores | None:
    for inner, factor in (x.inputs, x.inputs[::-1]):
        number, small = scalar_of(factor), _unexpanded(factor)
        of_heads = x.name == "mul" and set(small.shape.lens[-2:]) <= {1}
        if (number is None and not of_heads) or (x.name == "div" and (factor is x.inputs[0] or number == 0)):
            continue
        found = read_scores(inner)
        if found is None or found.masks:  # a scale behind a mask would scale the mask too
            continue
        if number is None:
            return replace(found, factors=(*found.factors, small))
        return replace(found, scale=found.scale * (number if x.name == "mul" else 1 / number))
    return None


# ---- masks ----


def literal_mask(mask: Mask, lq: int, lk: int) -> tuple[str, float] | None:
    """`none` or `causal`, and its low, where a constant mask keeps everything or exactly what causal keeps.

    One that models compute from positions is no literal where it is large (`fold_constants`).
    """
    value, low = _mask_value(mask.value, lq, lk), mask.low
    if value is None:
        return ("causal", low) if _is_corner(mask, lq, lk) else None
    if value.dtype == np.bool_:
        keep = value != mask.inverted
    elif np.all((value == 0) | (value <= VERY_NEGATIVE)):
        keep = value == 0
        low = float(value.max(initial=-np.inf, where=~keep))
    else:
        return None
    if keep.all():
        return "none", low
    causal = keep.shape[-2:] == (lq, lk) and bool((keep == np.tri(lq, lk, dtype=np.bool_)).all())
    return ("causal", low) if causal else None


def _mask_value(mask: Instruction, lq: int, lk: int) -> np.ndarray | None:
    """The elements of a constant, or of what is computed from constants for all heads alike, without repeats."""
    if is_constant(mask):
        return compact(mask)
    lens = _unexpanded(mask).shape.lens
    if is_open((*mask.shape.lens, *lens)) or prod(lens) > min(mask.shape.lens[0] * lq * lk, MOST_COMPUTED):
        return None
    value = computed(mask)
    return None if value is None else without_repeats(value)


def _unexpanded(mask: Instruction) -> Instruction:
    """What is repeated for batches and heads, by trailing dimensions."""
    while isinstance(mask.op, Multibroadcast):
        mask = mask.inputs[0]
    return mask


def _is_corner(mask: Mask, lq: int, lk: int) -> bool:
    """Whether it is the first rows and columns of a constant that keeps what causal keeps: their numbers are sizes."""
    cut = _unexpanded(mask.value)
    if not isinstance(cut.op, Slice) or mask.inverted or any(cut.op.starts) or cut.shape.lens != (lq, lk):
        return False
    (whole,) = cut.inputs
    return whole.literal is not None and np.array_equal(whole.literal, np.tri(*whole.shape.lens, dtype=np.bool_))


Known = dict[tuple[Instruction, bool, float, int, int], tuple[str, float] | None]
"""What `literal_mask` has said of masks: all layers of a model have the same."""


def divided(masks: Sequence[Mask], lq: int, lk: int, known: Known) -> tuple[list[Mask], bool]:
    """The masks without those that keep everything, and whether a causal one was among them.

    Beside another mask, causal is only what puts -inf: a query may else fall back on keys it must not see.
    """
    kinds: list[tuple[Mask, tuple[str, float] | None]] = []
    for mask in masks:
        key = _unexpanded(mask.value), mask.inverted, mask.low, lq, lk
        if key not in known:
            known[key] = literal_mask(mask, lq, lk)
        kinds.append((mask, known[key]))
    left = [(m, kind) for m, kind in kinds if kind is None or kind[0] != "none"]
    causal = [m for m, kind in left if kind is not None and (len(left) == 1 or kind[1] == -np.inf)]
    return [m for m, _ in left if m not in causal], bool(causal)


def order_matters(masks: Sequence[Mask]) -> bool:
    """Whether a query for which no key is kept may get other weights from a sum of these masks.

    One that replaces scores must come first and low enough for the others to be lost in it, or all must
    replace by the same number.
    """
    if len({m.low for m in masks}) == 1 and all(m.replaces for m in masks):
        return False
    first_loses = len(masks) > 1 and masks[0].replaces and masks[0].low > ROUNDS_AWAY
    return first_loses or any(m.replaces for m in masks[1:])


def combined_mask(b: Builder, masks: Sequence[Mask]) -> Instruction | None:
    """All masks as one: a bool where all are that put -inf, all else is float; None for none."""
    if not masks:
        return None
    if all(m.value.shape.type == "bool" for m in masks) and len({m.low for m in masks}) == 1:
        keep: Instruction | None = None
        for mask in masks:
            term = b.instruction("not", [mask.value]) if mask.inverted else mask.value
            keep = term if keep is None else b.logical_and(keep, term)
        assert keep is not None
        return as_added(b, Mask(keep, low=masks[0].low), "float") if masks[0].replaces else keep
    types = [m.value.shape.type for m in masks if m.value.shape.type in dtypes.FLOATS]
    type = "float" if not types or any(m.replaces for m in masks) else types[0]
    total: Instruction | None = None
    for mask in masks:
        term = as_added(b, mask, type)
        total = term if total is None else b.add(total, term)
    return total


def as_added(b: Builder, mask: Mask, type: str) -> Instruction:
    """A mask as numbers of a float type that are added to the scores."""
    term = mask.value
    if term.shape.type == "bool":
        zero, low = (b.full(v, b.cast(term, type)) for v in (0.0, LEVELLING if mask.replaces else mask.low))
        term = b.where(term, *((low, zero) if mask.inverted else (zero, low)))
    return b.cast(term, type)


# ---- operands ----


def swapped(b: Builder, x: Instruction) -> Instruction:
    """`x` with its last two dimensions exchanged."""
    order = list(range(x.shape.ndim))
    order[-1], order[-2] = order[-2], order[-1]
    if x.name == "transpose":
        inner = x.op.attributes()["permutation"]
        order, x = [inner[d] for d in order], x.inputs[0]
    return x if order == sorted(order) else b.transpose(x, permutation=order)


def unscaled(b: Builder, x: Instruction) -> tuple[Instruction, float]:
    """`x` as (y, s) where x = y * s, looking through data movement; s is 1 where nothing is found."""
    if x.name == "mul":
        for inner, factor in (x.inputs, x.inputs[::-1]):
            number = scalar_of(factor)
            if number is not None:
                return inner, float(number)
    if x.op.data_movement and len(x.inputs) == len(x.users) == 1:
        inner, scale = unscaled(b, x.inputs[0])
        if scale != 1.0:
            return b.instruction(x.name, [inner], **x.op.attributes()), scale
    return x, 1.0


def unrepeated(b: Builder, x: Instruction) -> Instruction:
    """{B, Hkv, L, D} where `x` {B, H, L, D} is that with every head repeated for its group, else `x`."""
    wide = x.inputs[0] if x.name == "reshape" else x
    if wide.name != "multibroadcast" or wide.shape.ndim != 5 or wide.inputs[0].shape.ndim != 5:
        return x
    small = wide.inputs[0]
    batch, heads, _, length, depth = wide.shape.lens
    regular = x.shape.lens == (batch, heads * wide.shape.lens[2], length, depth)
    if not regular or small.shape.lens != (batch, heads, 1, length, depth):
        return x
    return b.squeeze(small, axes=[2])


def as_rank_4(b: Builder, x: Instruction) -> Instruction:
    """{H, L, D} as {1, H, L, D}; all dimensions before these as one."""
    if x.shape.ndim < 4:
        return b.unsqueeze(x, axes=[0])
    lens = x.shape.lens
    return x if len(lens) == 4 else b.reshape(x, dims=(prod(lens[:-3]), *lens[-3:]))


def mask_of_rank_4(b: Builder, mask: Instruction) -> Instruction:
    """The same of a mask, which stays one that is repeated where batches have one, or one each."""
    small, lens = _unexpanded(mask), mask.shape.lens
    own = (*(1,) * (len(lens) - small.shape.ndim), *small.shape.lens)
    if len(lens) <= 4 or small is mask or own[:-3] not in (lens[:-3], (1,) * (len(lens) - 3)):
        return as_rank_4(b, mask)
    few = b.reshape(small, dims=(prod(own[:-3]), *own[-3:]))
    return b.multibroadcast(few, out_lens=(prod(lens[:-3]), *lens[-3:]))


def softmax_of(weights: Instruction) -> tuple[Instruction, bool] | None:
    """The softmax behind converts and a guard that puts 0 for NaN, and whether there is that guard.

    None where it is used elsewhere too, or absent.
    """
    guarded = False
    allowed: set[Instruction] = set(weights.users)
    if len(allowed) > 1:
        return None
    while weights.name != "softmax":
        if not weights.inputs:
            return None
        inner = weights.inputs[0]
        if weights.name == "where":
            test, value, inner = weights.inputs
            if test.name != "isnan" or test.inputs[0] is not inner or scalar_of(value) != 0:
                return None
            allowed = {weights, test} if len(test.users) == 1 else set()
            guarded = True
        elif weights.name == "convert" and inner.shape.type in dtypes.FLOATS:
            allowed = {weights}
        else:
            return None
        if not inner.users.keys() <= allowed:
            return None
        weights = inner
    return weights, guarded


def attention_of(b: Builder, v: Instruction, root: Instruction, known: Known) -> Instruction | Refuse:
    """dot(softmax(scale * dot(q, k^T) + mask), v) -> attention(q, k, v, mask)"""
    found = softmax_of(root.inputs[0])
    if found is None:
        return Refuse("no softmax, or its result is used elsewhere too")
    weights, guarded = found
    rank = root.shape.ndim
    if rank < 3 or weights.op.attributes()["axis"] % rank != rank - 1:
        return Refuse("no heads, or a softmax over another axis")
    scores = read_scores(weights.inputs[0])
    if scores is None or scores.dot.shape.type != root.shape.type:
        return Refuse("the scores are no masked and scaled product, or of another type")
    lq, lk = scores.dot.shape.lens[-2:]
    apart, causal = divided(scores.masks, lq, lk, known)
    if order_matters(apart):
        return Refuse("masks whose sum means something else to a query that sees no key")
    (q, of_q), (k, of_k) = unscaled(b, scores.dot.inputs[0]), unscaled(b, scores.dot.inputs[1])
    for factor in scores.factors:
        q = b.mul(q, b.multibroadcast(factor, out_lens=q.shape.lens))
    q, k, v = as_rank_4(b, q), as_rank_4(b, swapped(b, k)), as_rank_4(b, v)
    few_k, few_v = unrepeated(b, k), unrepeated(b, v)
    if few_k.shape.lens[:3] == few_v.shape.lens[:3]:
        k, v = few_k, few_v
    mask = combined_mask(b, apart)
    masks = [] if mask is None else [mask_of_rank_4(b, mask)]
    scale = scores.scale * of_q * of_k
    out = b.attention(q, k, v, *masks, scale=scale, causal=causal, zero_rows=guarded)
    if rank == 3:
        return b.squeeze(out, axes=[0])
    return out if rank == 4 else b.reshape(out, dims=root.shape.lens)


@rewrites(lambda b, c, y: b.where(c, b.attention(...), b.constant("y")))
def attention_of_seen_rows(b: Builder, c: Instruction, y: Instruction, root: Instruction) -> Instruction | Refuse:
    """where(any key is seen, attention(q, k, v, mask), 0) -> attention(q, k, v, mask) that gives that 0"""
    attention = root.inputs[1]
    if scalar_of(y) != 0 or len(attention.inputs) < 4 or len(attention.users) > 1:
        return Refuse("another value than 0, no mask, or used elsewhere too")
    c = without_broadcasts(c)
    if c.name != "reduce_any" or axes_of(c)[-1:] != (c.shape.ndim - 1,):
        return Mismatch("no question of whether any key is seen")
    seen = without_broadcasts(c.inputs[0])
    if seen.name == "not" and seen.inputs[0].name == "equal":
        mask, low = seen.inputs[0].inputs
        if scalar_of(low) != -np.inf:
            return Refuse("compares with another value than -inf")
        seen = without_broadcasts(mask)
    same = seen is without_broadcasts(attention.inputs[3])
    if not same:
        return Refuse("another mask")
    return b.attention(*attention.inputs, **(attention.op.attributes() | {"zero_rows": True}))


def without_broadcasts(x: Instruction) -> Instruction:
    """What `x` is broadcast from."""
    while isinstance(x.op, (Broadcasting, Reshaping)):
        x = x.inputs[0]
    return x


def fuse_attention(module: Module) -> Refusals:
    """softmax(scale * q k^T + mask) v becomes `attention`.

    Reads the scale on the scores (one number, or one for each head), on q or on k; masks that are added or chosen
    by `where`; masks, constant or computed from constants, that keep everything or are exactly causal; keys and
    values repeated for groups of queries; any dimensions before the heads; converts to float and back round the
    softmax, and the guard of some exporters that puts 0 for NaN.
    Refuses weights that are used elsewhere too, and a scale behind a mask.

    A query for which masks leave no key keeps the weights that softmax gives it: NaN, or equal ones where a
    finite number stands for -inf. Only guards round the softmax or the product make them 0.

    before:
        q = @param:q -> float_type, {1, 2, 3, 4}, {24, 12, 4, 1}
        k = @param:k -> float_type, {1, 2, 5, 4}, {40, 20, 4, 1}
        v = @param:v -> float_type, {1, 2, 5, 4}, {40, 20, 4, 1}
        mask = @param:mask -> float_type, {1, 1, 3, 5}, {15, 15, 5, 1}
        @4 = @literal{2} -> float_type, {1}, {1}
        @5 = transpose[permutation={0, 1, 3, 2}](k)
        @6 = dot(q,@5)
        @7 = multibroadcast[out_lens={1, 2, 3, 5},out_dyn_dims={}](@4)
        @8 = div(@6,@7)
        @9 = multibroadcast[out_lens={1, 2, 3, 5},out_dyn_dims={}](mask)
        @10 = add(@8,@9)
        @11 = softmax[axis=3](@10)
        @12 = dot(@11,v)
        @13 = transpose[permutation={0, 2, 1, 3}](@12)
        @14 = reshape[dims={1, 3, 8}](@13)
        @15 = @return(@14)

    after:
        q = @param:q -> float_type, {1, 2, 3, 4}, {24, 12, 4, 1}
        k = @param:k -> float_type, {1, 2, 5, 4}, {40, 20, 4, 1}
        v = @param:v -> float_type, {1, 2, 5, 4}, {40, 20, 4, 1}
        mask = @param:mask -> float_type, {1, 1, 3, 5}, {15, 15, 5, 1}
        @4 = multibroadcast[out_lens={1, 2, 3, 5},out_dyn_dims={}](mask)
        @5 = attention[scale=0.5,causal=0,zero_rows=0](q,k,v,@4) -> float_type, {1, 2, 3, 4}, {24, 4, 8, 1}
        @6 = transpose[permutation={0, 2, 1, 3}](@5) -> float_type, {1, 3, 2, 4}, {24, 8, 4, 1}
        @7 = reshape[dims={1, 3, 8}](@6)
        @8 = @return(@7)
    """
    return _fused(module)


def fuse_attention_but_of(*types: str) -> Pass:
    """`fuse_attention` for a target whose attention sums in a narrower type than products of these types do."""

    @wraps(fuse_attention)
    def fused(module: Module) -> Refusals:
        return _fused(module, types)

    return fused


def _fused(module: Module, types: Sequence[str] = ()) -> Refusals:
    known: Known = {}

    @rewrites(lambda b, v: b.dot(b.one_of(("softmax", "convert", "where"), ...), v))
    def attention_of_softmax(b: Builder, v: Instruction, root: Instruction) -> Instruction | Refuse:
        if root.shape.type in types:
            return Refuse(f"the target's attention of {root.shape.type} sums in a narrower type")
        return attention_of(b, v, root, known)

    return rewrite(module, [attention_of_softmax, attention_of_seen_rows])
