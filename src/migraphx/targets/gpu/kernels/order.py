"""Kernels that compare elements along an axis: the largest, the k largest in order, running sums.

Data are row-major [outer][length][inner]; a row is one (outer, inner). Comparisons are those of integers, the keys.
"""

import triton
import triton.language as tl


@triton.jit
def key_of(a, LARGEST: tl.constexpr, NAN_FIRST: tl.constexpr):
    """An integer that is the larger the sooner `a` comes: the largest first, or the smallest.

    NaN is taken as larger than everything, or, with NAN_FIRST, comes first either way. -0 equals 0.
    """
    if a.dtype == tl.float64:
        bits = tl.where(a == 0, 0.0, a).to(tl.int64, bitcast=True)
        key = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
        last = tl.full([], 0x7FFFFFFFFFFFFFFF, tl.int64)
    elif a.dtype == tl.float32:
        bits = tl.where(a == 0, 0.0, a).to(tl.int32, bitcast=True)
        key = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        last = tl.full([], 0x7FFFFFFF, tl.int32)
    elif a.dtype == tl.uint64:
        key = (a ^ 0x8000000000000000).to(tl.int64, bitcast=True)
    elif a.dtype == tl.uint32 or a.dtype == tl.int64:
        key = a.to(tl.int64)
    else:
        key = a.to(tl.int32)
    if a.dtype.is_floating():
        key = tl.where(a != a, last, key)
    if not LARGEST:
        key = -key - 1
        if a.dtype.is_floating() and NAN_FIRST:
            key = tl.where(a != a, last, key)
    return key


@triton.jit
def lowest_key(key):
    """The least integer of the type of keys."""
    if key.dtype == tl.int64:
        return tl.full([], -0x8000000000000000, tl.int64)
    else:
        return tl.full([], -0x80000000, tl.int32)


@triton.jit
def arg_extreme(
    x, out, rows, length, inner,
    TYPE: tl.constexpr, LARGEST: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The index of the largest, or smallest, of each row; NaN wins. LAST: of equal ones, or several NaN, the last."""
    r = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, COLS)[None, :]
    first = x + (r // inner * length * inner + r % inner)
    lowest = lowest_key(key_of(widen(tl.load(x), TYPE), LARGEST, True))
    best = tl.broadcast_to(lowest, [ROWS, COLS])
    if LAST:
        index = tl.full([ROWS, COLS], -1, tl.int32)
    else:
        index = tl.broadcast_to(lane, [ROWS, COLS])
    for start in range(0, length, COLS):
        k = start + lane
        inside = (r < rows) & (k < length)
        key = key_of(widen(tl.load(first + k.to(tl.int64) * inner, inside), TYPE), LARGEST, True)
        if LAST:
            better = inside & (key >= best)
        else:
            better = inside & (key > best)
        best = tl.where(better, key, best)
        index = tl.where(better, k, index)
    top = tl.max(best, 1, keep_dims=True)
    if LAST:
        found = tl.max(tl.where(best == top, index, -1), 1, keep_dims=True)
    else:
        found = tl.min(tl.where(best == top, index, 2147483647), 1, keep_dims=True)
    tl.store(out + r, found.to(tl.int64), r < rows)


@triton.jit
def accumulating(a):
    """Small integers as those that are summed; what is kept of them is the same."""
    if a.dtype.is_floating() or a.dtype.primitive_bitwidth >= 32:
        return a
    else:
        return a.to(tl.int32)


@triton.jit
def prefix_sum(
    x, out, rows, length, inner,
    TYPE: tl.constexpr, EXCLUSIVE: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Running sums of each row, forwards or backwards, with or without the own element."""
    r = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    lane = tl.arange(0, COLS)[None, :]
    first = r // inner * length * inner + r % inner
    carried = tl.zeros([ROWS, 1], accumulating(widen(tl.load(x), TYPE)).dtype)
    for start in range(0, length, COLS):
        k = start + lane
        inside = (r < rows) & (k < length)
        if REVERSE:
            at = length - 1 - k
        else:
            at = k
        value = widen(tl.load(x + (first + at.to(tl.int64) * inner), inside, 0), TYPE)
        wide = accumulating(value)
        sums = narrow((carried + tl.cumsum(wide, 1)).to(value.dtype), TYPE)
        place = out + (first + at.to(tl.int64) * inner)
        if EXCLUSIVE:
            tl.store(place, narrow(tl.zeros_like(value), TYPE), inside & (k == 0))
            if REVERSE:
                place = place - inner
            else:
                place = place + inner
            tl.store(place, sums, inside & (k + 1 < length))
        else:
            tl.store(place, sums, inside)
        carried += tl.sum(wide, 1, keep_dims=True)


@triton.jit
def first_keys(
    x, keys, indices, total, length, inner, TYPE: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Keys and indices [rows][length] of all elements, row by row."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    r = at // length
    k = at % length
    value = widen(tl.load(x + (r // inner * length * inner + r % inner + k * inner), inside), TYPE)
    tl.store(keys + at, key_of(value, LARGEST, False), inside)
    tl.store(indices + at, k.to(tl.int32), inside)


@triton.jit
def select(
    keys, indices, out_keys, out_indices, length, chunks, k, share, COLS: tl.constexpr, STEP: tl.constexpr
):  # fmt: skip
    """Of each chunk of COLS elements of each row the first k in order; k is at most COLS.

    An element's place is the number of those before it: of a larger key, or of an equal one further in front. `share`:
    results of a row.
    """
    row = (tl.program_id(0) // chunks).to(tl.int64)
    chunk = tl.program_id(0) % chunks
    lane = tl.arange(0, COLS)
    at = chunk * COLS + lane
    inside = at < length
    key = tl.load(keys + (row * length + at), inside)
    place = tl.zeros([COLS], tl.int32)
    for start in range(0, COLS, STEP):
        other = start + tl.arange(0, STEP)
        there = chunk * COLS + other < length
        rival = tl.load(keys + (row * length + chunk * COLS + other), there)[None, :]
        before = (rival > key[:, None]) | ((rival == key[:, None]) & (other[None, :] < lane[:, None]))
        place += tl.sum((before & there[None, :]).to(tl.int32), 1)
    kept = inside & (place < k)
    to = row * share + chunk * k + place
    tl.store(out_keys + to, key, kept)
    tl.store(out_indices + to, tl.load(indices + (row * length + at), inside), kept)


@triton.jit
def merge(
    keys, indices, out_keys, out_indices, total, length, run, steps, BLOCK: tl.constexpr
):  # fmt: skip
    """Neighbouring sorted runs of `run` elements as one of twice as many.

    An element's place is its own in its run, and the number of those of the other run that come before it.
    """
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    row = u // length
    at = u % length
    pair = at // (2 * run) * (2 * run)
    right = at - pair >= run
    begin = tl.minimum(tl.where(right, pair, pair + run), length)
    end = tl.minimum(begin + run, length)
    key = tl.load(keys + u, inside)
    low = begin
    high = end
    for _ in range(steps):
        middle = (low + high) // 2
        going = low < high
        rival = tl.load(keys + (row * length + middle), inside & going)
        before = going & ((rival > key) | ((rival == key) & right))
        low = tl.where(before, middle + 1, low)
        high = tl.where(going & (before == 0), middle, high)
    own = tl.where(right, at - pair - run, at - pair)
    to = row * length + pair + own + (low - begin)
    tl.store(out_keys + to, key, inside)
    tl.store(out_indices + to, tl.load(indices + u, inside), inside)


@triton.jit
def picked(
    x, indices, values, places, total, length, inner, k, share, BLOCK: tl.constexpr
):  # fmt: skip
    """values and places [outer][k][inner] of the first k of the sorted indices, `share` a row."""
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    o = u // (k * inner)
    n = u // inner % k
    i = u % inner
    index = tl.load(indices + ((o * inner + i) * share + n), inside, 0).to(tl.int64)
    tl.store(values + u, tl.load(x + ((o * length + index) * inner + i), inside), inside)
    tl.store(places + u, index, inside)


# ---- elements that are not 0 ----------------------------------------------------------------------------------------


@triton.jit
def count_nonzero(x, counts, count, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """How many elements of each block are not 0."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    found = as_bool(widen(tl.load(x + at, at < count, 0), TYPE)) & (at < count)
    tl.store(counts + tl.program_id(0), tl.sum(found.to(tl.int64), 0))


@triton.jit
def nonzero_places(x, counts, count, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    """Of a block's elements: where they are, which are not 0, and how many of those come before each.

    `counts`: how many there are in the blocks before each.
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    found = as_bool(widen(tl.load(x + at, at < count, 0), TYPE)) & (at < count)
    place = tl.load(counts + tl.program_id(0)) + tl.cumsum(found.to(tl.int32), 0) - 1
    return at, found, place
