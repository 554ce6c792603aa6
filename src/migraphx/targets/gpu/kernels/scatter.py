"""Kernels that write elements at indices, into a copy of the data that the caller has made.

Equal indices are taken in order, so results never depend on which program runs first. Indices are checked as in
indexing.py; what is out of range is not written.
"""

import triton
import triton.language as tl


@triton.jit
def joined(old, update, HOW: tl.constexpr):
    """How an update joins the element at its place; NaN wins."""
    if HOW == "add":
        if old.dtype == tl.int1:
            return old | update
        else:
            return old + update
    elif HOW == "mul":
        if old.dtype == tl.int1:
            return old & update
        else:
            return old * update
    elif HOW == "min":
        return scalar_min(old, update)
    else:
        return scalar_max(old, update)


@triton.jit
def located(index, length, inside, status, check):
    """Indices from the front, and which of them are inside and in range; others are reported."""
    given = index.to(tl.int64)
    at = tl.where(given < 0, given + length, given)
    right = (at >= 0) & (at < length)
    report(inside & (right == 0), given, status, check)
    return at, inside & right


@triton.jit
def join_segments(
    order, targets, updates, out, tuples, inner, TYPE: tl.constexpr, UPDATE: tl.constexpr, HOW: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Updates [tuples][inner] joined to out [slices][inner].

    `order`: the updates in the order of their targets. Who is the first of a target takes all of them, one after
    another. Targets below 0 are none.
    """
    across = tl.cdiv(inner, COLS)
    p = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(0) % across * COLS + tl.arange(0, COLS)[None, :]
    u = tl.load(order + p, p < tuples, 0).to(tl.int64)
    target = tl.load(targets + u, p < tuples, -1)
    earlier = tl.load(order + (p - 1), (p > 0) & (p < tuples), 0).to(tl.int64)
    first = (p == 0) | (tl.load(targets + earlier, p < tuples, -1) != target)
    going = (p < tuples) & (target >= 0) & first
    inside = going[:, None] & (c < inner)
    place = out + (target * inner)[:, None] + c
    value = widen(tl.load(place, inside), TYPE)
    while tl.max(going.to(tl.int32)) > 0:
        update = widen(tl.load(updates + ((u * inner)[:, None] + c), going[:, None] & (c < inner)), UPDATE)
        value = tl.where(going[:, None], joined(value, update.to(value.dtype), HOW), value)
        p += 1
        u = tl.load(order + p, going & (p < tuples), 0).to(tl.int64)
        going = going & (p < tuples) & (tl.load(targets + u, going & (p < tuples), -1) == target)
    tl.store(place, narrow(value, TYPE), inside)


@triton.jit
def find_last(targets, winners, tuples, BLOCK: tl.constexpr):
    """winners[target]: the number of its last update. The largest wins, in whatever order they come."""
    u = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    target = tl.load(targets + u, u < tuples, -1)
    tl.atomic_max(winners + target, u, (u < tuples) & (target >= 0), sem="relaxed")


@triton.jit
def write_winners(updates, out, u, target, wins, inner, COLS: tl.constexpr):
    across = tl.cdiv(inner, COLS)
    c = tl.program_id(0) % across * COLS + tl.arange(0, COLS)[None, :]
    inside = wins[:, None] & (c < inner)
    update = tl.load(updates + ((u.to(tl.int64) * inner)[:, None] + c), inside)
    tl.store(out + ((target * inner)[:, None] + c), update, inside)


@triton.jit
def write_last(winners, targets, updates, out, tuples, inner, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Of the updates [tuples][inner] with one target in out [slices][inner] the last one."""
    u = tl.program_id(0) // tl.cdiv(inner, COLS) * ROWS + tl.arange(0, ROWS)
    target = tl.load(targets + u, u < tuples, -1)
    wins = (target >= 0) & (tl.load(winners + target, target >= 0, -1) == u)
    write_winners(updates, out, u, target, wins, inner, COLS)


@triton.jit
def write_last_of_few(
    targets, updates, out, tuples, inner, FEW: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """The same for at most FEW updates, each of which is compared with all."""
    u = tl.program_id(0) // tl.cdiv(inner, COLS) * ROWS + tl.arange(0, ROWS)
    target = tl.load(targets + u, u < tuples, -1)
    rival = tl.arange(0, FEW)[None, :]
    same = tl.load(targets + rival, rival < tuples, -1) == target[:, None]
    last = tl.max(tl.where(same, rival, -1), 1)
    write_winners(updates, out, u, target, (target >= 0) & (last == u), inner, COLS)
