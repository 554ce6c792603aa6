"""Attention in one pass over the keys: softmax(scale q k^T + mask) v (FlashAttention, 2205.14135).

The rows of a tile are the queries of all heads that share one head of keys and values: row i * GROUP + g is query i of
the g-th of them. Scores are in units of log2(e), so that powers of two do for exponentials.
"""

import triton
import triton.language as tl

from migraphx.targets.gpu.kernels.narrow import widen


@triton.jit
def add_product(x, y, acc, THIRDS: tl.constexpr):
    """acc + x y in the precision of x, whose sums are float, or double. THIRDS: floats as kernels/product.py has it."""
    if THIRDS:
        return tl.dot(x, y, acc, input_precision="tf32x3")
    elif x.dtype == tl.float32 or x.dtype == tl.float64:
        return tl.dot(x, y, acc, input_precision="ieee", out_dtype=acc.dtype)
    else:
        return tl.dot(x, y, acc)


@triton.jit
def block_of(at, seen, inside, EDGE: tl.constexpr, WIDER: tl.constexpr):
    """Keys or values. EDGE: some may not be there; WIDER: the tile has more than the head."""
    if EDGE:
        return tl.load(at, seen & inside, 0)
    elif WIDER:
        return tl.load(at, inside, 0)
    else:
        return tl.load(at)


@triton.jit
def attend(
    query, query2, keys_at, keys2_at, values_at, mask, mask_at, top, total, acc, place, start, keys,
    k_row, v_row, m_key, d, d2, dv,
    SCALE: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, MASK: tl.constexpr, CAUSAL: tl.constexpr,
    FOLD: tl.constexpr, THIRDS: tl.constexpr, EDGE: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The block of keys from `start` on; EDGE: some may not exist, or come after a query.

    `query2`, `keys2_at`: what is behind a head's first d.shape[0] numbers, where these are not all.

    `mask_at`: offsets, since as many addresses would take all registers.
    """
    key = start + tl.arange(0, BN)
    seen = key < keys
    k = block_of(keys_at + start * k_row, seen[None, :], (d < D)[:, None], EDGE, d.shape[0] > D)
    s = add_product(query, k, tl.zeros((query.shape[0], BN), acc.dtype), THIRDS)
    if d.shape[0] < D:
        k = block_of(keys2_at + start * k_row, seen[None, :], (d2 < D)[:, None], EDGE, True)
        s = add_product(query2, k, s, THIRDS)
    if not FOLD:
        s *= SCALE * 1.4426950408889634  # log2(e)
    if MASK == "bool":
        s = tl.where(widen(tl.load(mask + (mask_at + start * m_key), seen[None, :], 0), MASK), s, float("-inf"))
    elif MASK != "none":
        s += widen(tl.load(mask + (mask_at + start * m_key), seen[None, :], 0), MASK).to(acc.dtype) * 1.4426950408889634
    if EDGE and CAUSAL:
        s = tl.where(place[:, None] >= key[None, :], s, float("-inf"))
    if EDGE:
        s = tl.where(seen[None, :], s, float("-inf"))
    unit: tl.constexpr = SCALE * 1.4426950408889634 if FOLD else 1.0
    new = tl.maximum(top, tl.max(s, 1) * unit)
    base = tl.where(new == float("-inf"), 0.0, new)
    e = tl.exp2(s * unit - base[:, None])
    fade = tl.exp2(top - base)
    total = total * fade + tl.sum(e, 1)
    v = block_of(values_at + start * v_row, seen[:, None], (dv < DV)[None, :], EDGE, dv.shape[0] > DV)
    acc = add_product(e.to(v.dtype), v, acc * fade[:, None], THIRDS)
    return new, total, acc


@triton.jit
def attention_sums(
    q, k, v, mask, row, rows, keys, first, last,
    q_head, q_row, q_d, k_row, k_d, v_row, v_d, m_head, m_row, m_key,
    SCALE: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BN: tl.constexpr, REST: tl.constexpr, MASK: tl.constexpr, ALIKE: tl.constexpr, CAUSAL: tl.constexpr,
    FOLD: tl.constexpr, THIRDS: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Of the keys from `first` (a multiple of BN) to `last`: each row's maximum, sum of exponentials, weighted values.

    Of a head's D numbers BD are multiplied at once, and BE that follow where D is larger.
    What is no whole block of BN goes by blocks of REST. MASK: the type of the mask, or `none`; ALIKE: all
    rows have one. FOLD: the scale is
    positive and no float is added to scores.
    """
    wide: tl.constexpr = tl.float64 if q.dtype.element_ty == tl.float64 else tl.float32
    place, head = row // GROUP, row % GROUP
    d, dv = tl.arange(0, BD), tl.arange(0, BDV)
    d2 = BD + tl.arange(0, BE)
    there = (row < rows)[:, None]
    at = (place * q_row + head * q_head)[:, None]
    query = tl.load(q + at + (d * q_d)[None, :], there & (d < D)[None, :], 0)
    query2 = tl.load(q + at + (d2 * q_d)[None, :], there & (d2 < D)[None, :], 0) if BD < D else query
    known = tl.minimum(place, (rows - 1) // GROUP)
    keys_of, values_of = k + (d * k_d)[:, None], v + (dv * v_d)[None, :]
    keys2_of = k + (d2 * k_d)[:, None]
    of_rows = (known * m_row + head * m_head)[:, None]
    key = tl.arange(0, BN)
    keys_at, values_at = keys_of + (key * k_row)[None, :], values_of + (key * v_row)[:, None]
    keys2_at = keys2_of + (key * k_row)[None, :]
    mask_at = (key * m_key)[None, :] if ALIKE else of_rows + (key * m_key)[None, :]
    top = tl.full((row.shape[0],), float("-inf"), wide)
    total = tl.zeros((row.shape[0],), wide)
    acc = tl.zeros((row.shape[0], BDV), wide)
    end = tl.minimum(last, keys)
    whole = end
    if CAUSAL:
        end = tl.minimum(end, tl.max(known, 0) + 1)
        whole = tl.minimum(end, tl.min(known, 0) + 1)
    whole = first + tl.maximum(whole - first, 0) // BN * BN
    for start in range(first, whole, BN):
        top, total, acc = attend(
            query, query2, keys_at, keys2_at, values_at, mask, mask_at, top, total, acc, place, start, keys, k_row,
            v_row, m_key, d, d2, dv, SCALE, D, DV, MASK, CAUSAL, FOLD, THIRDS, False, BN,
        )  # fmt: skip
    rest = tl.arange(0, REST)
    keys_at, values_at = keys_of + (rest * k_row)[None, :], values_of + (rest * v_row)[:, None]
    keys2_at = keys2_of + (rest * k_row)[None, :]
    mask_at = (rest * m_key)[None, :] if ALIKE else of_rows + (rest * m_key)[None, :]
    for start in range(whole, end, REST):
        top, total, acc = attend(
            query, query2, keys_at, keys2_at, values_at, mask, mask_at, top, total, acc, place, start, keys, k_row,
            v_row, m_key, d, d2, dv, SCALE, D, DV, MASK, CAUSAL, FOLD, THIRDS, True, REST,
        )  # fmt: skip
    return top, total, acc


@triton.jit
def joined_sums(top, total, acc, other_top, other_total, other_acc):
    """What attention_sums gives of two sets of keys, as of all of them."""
    new = tl.maximum(top, other_top)
    base = tl.where(new == float("-inf"), 0.0, new)
    fade, other_fade = tl.exp2(top - base), tl.exp2(other_top - base)
    return new, total * fade + other_total * other_fade, acc * fade[:, None] + other_acc * other_fade[:, None]


@triton.jit
def attention_result(total, acc, ZERO_ROWS: tl.constexpr):
    """Weighted means, by one division a row; a row that sees no key gives NaN, or 0."""
    if ZERO_ROWS:
        total = tl.where(total == 0, 1.0, total)
    return acc * (1.0 / total)[:, None]


@triton.jit
def combine_parts(sums, tops, at, row, inside, there, COUNT: tl.constexpr, rows, width):
    """Sum of exponentials and weighted values of rows whose keys were divided among COUNT programs, in their order.

    `sums` {count, rows, width}: unscaled values; `tops` {count, rows, 2}: each part's maximum and sum.
    """
    top = tl.full((row.shape[0],), float("-inf"), tops.dtype.element_ty)
    for part in tl.static_range(COUNT):
        top = tl.maximum(top, tl.load(tops + (part * rows + row) * 2, there, float("-inf")))
    base = tl.where(top == float("-inf"), 0.0, top)
    total = tl.zeros((row.shape[0],), tops.dtype.element_ty)
    acc = tl.zeros((row.shape[0], at.shape[1]), tops.dtype.element_ty)
    for part in tl.static_range(COUNT):
        fade = tl.exp2(tl.load(tops + (part * rows + row) * 2, there, float("-inf")) - base)
        total += fade * tl.load(tops + (part * rows + row) * 2 + 1, there, 0)
        acc += fade[:, None] * tl.load(sums + part * rows * width + at, inside, 0)
    return total, acc


@triton.jit
def combined_row(
    sums, tops, COUNT: tl.constexpr, rows, WIDTH: tl.constexpr, ZERO_ROWS: tl.constexpr, COLS: tl.constexpr
):
    """The results of `rows` rows of WIDTH numbers, a power of two, one after another: {1, COLS}, 0 behind them."""
    row, col = tl.arange(0, COLS // WIDTH), tl.arange(0, WIDTH)
    there = row < rows
    inside = there[:, None] & (col < WIDTH)[None, :]
    at = row[:, None] * WIDTH + col[None, :]
    total, acc = combine_parts(sums, tops, at, row, inside, there, COUNT, rows, WIDTH)
    return tl.reshape(tl.where(inside, attention_result(total, acc, ZERO_ROWS), 0.0), (1, COLS))


@triton.jit
def kept_keys(k, row, step, keys, START: tl.constexpr, N: tl.constexpr, D: tl.constexpr, EDGE: tl.constexpr):
    """Keys {D, N} of a head from START on. EDGE: some may not exist."""
    key, d = START + tl.arange(0, N), tl.arange(0, D)
    return block_of(k + (d * step)[:, None] + (key * row)[None, :], (key < keys)[None, :], True, EDGE, False)


@triton.jit
def kept_values(v, row, step, keys, START: tl.constexpr, N: tl.constexpr, D: tl.constexpr, EDGE: tl.constexpr):
    """Values {N, D} of a head from START on. EDGE: some may not exist, and are 0."""
    key, d = START + tl.arange(0, N), tl.arange(0, D)
    return block_of(v + (key * row)[:, None] + (d * step)[None, :], (key < keys)[:, None], True, EDGE, False)


@triton.jit
def queries(q, row, rows, q_head, q_row, q_d, GROUP: tl.constexpr, D: tl.constexpr):
    """Rows of a tile {rows, D}, 0 behind the last."""
    at = (row // GROUP * q_row + row % GROUP * q_head)[:, None] + (tl.arange(0, D) * q_d)[None, :]
    return tl.load(q + at, (row < rows)[:, None], 0)


@triton.jit
def scores(query, k, keys, START: tl.constexpr, EDGE: tl.constexpr):
    """Products of queries and the kept keys from START on; -inf where there is no key."""
    s = tl.dot(query, k)
    if EDGE:
        s = tl.where((START + tl.arange(0, k.shape[1]) < keys)[None, :], s, float("-inf"))
    return s
