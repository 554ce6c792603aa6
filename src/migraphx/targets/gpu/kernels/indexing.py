"""Kernels that pick elements by index, from row-major memory.

Indices count from the end where they are negative. One that is out of range is reported in `status` and taken as 0, so
that nothing outside of the buffers is touched. status[0]: 1 + the number of the check that failed, 0 while none has;
status[1]: the index found there.
"""

import triton
import triton.language as tl


@triton.jit
def report(wrong, index, status, check):
    """Write a failed check to `status`, unless one is there; `wrong`: a block, which indices are out of range."""
    if tl.max(wrong.to(tl.int32)) > 0:
        if tl.atomic_cas(status, tl.full([], 0, tl.int64), check.to(tl.int64) + 1) == 0:
            tl.store(status + 1, tl.max(tl.where(wrong, index.to(tl.int64), -9223372036854775808)))


@triton.jit
def checked(index, length, inside, status, check):
    """Indices from the front, int64: 0 where they are out of range, which is reported, or not `inside`."""
    given = index.to(tl.int64)
    at = tl.where(given < 0, given + length, given)
    right = (at >= 0) & (at < length)
    wrong = inside & (right == 0)
    report(wrong, given, status, check)
    return tl.where(inside & right, at, 0)


@triton.jit
def gather(data, indices, out, status, rows, count, length, inner, check, ROWS: tl.constexpr, COLS: tl.constexpr):
    """out[o][i][..] = data[o][indices[i]][..] for data [outer][length][inner]; rows: outer * count."""
    across = tl.cdiv(inner, COLS)
    r = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(0) % across * COLS + tl.arange(0, COLS)
    at = checked(tl.load(indices + r % count, r < rows, 0), length, r < rows, status, check)
    source = (r // count * length + at) * inner
    inside = (r < rows)[:, None] & (c < inner)[None, :]
    tl.store(out + ((r * inner)[:, None] + c[None, :]), tl.load(data + (source[:, None] + c[None, :]), inside), inside)


@triton.jit
def gather_elements(data, indices, out, status, total, count, length, inner, check, BLOCK: tl.constexpr):
    """out[o][k][i] = data[o][indices[o][k][i]][i] for indices [outer][count][inner]."""
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    at = checked(tl.load(indices + u, inside, 0), length, inside, status, check)
    source = (u // (inner * count) * length + at) * inner + u % inner
    tl.store(out + u, tl.load(data + source, inside), inside)


@triton.jit
def embedding_bag(
    data, indices, weights, out, status, total, bags, taps, width, length, check,
    index_batch, index_bag, index_tap, weight_batch, weight_bag, weight_tap,
    TYPE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """out[b][n][..] = the sum over k of weights[b][n][k] * data[b][indices[b][n][k]][..]; total: all bags."""
    across = tl.cdiv(width, COLS)
    r = (tl.program_id(0) // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(0) % across * COLS + tl.arange(0, COLS)
    known = r < total
    inside = known[:, None] & (c < width)[None, :]
    batch, bag = r // bags, r % bags
    table = data + ((batch * length * width)[:, None] + c[None, :])
    index = indices + (batch * index_batch + bag * index_bag)
    weight = weights + (batch * weight_batch + bag * weight_bag)
    acc = tl.zeros([ROWS, COLS], tl.float64 if TYPE == "double" else tl.float32)
    for k in range(taps):
        at = checked(tl.load(index + k * index_tap, known, 0), length, known, status, check)
        w = widen(tl.load(weight + k * weight_tap, known, 0), TYPE)
        acc += w[:, None] * widen(tl.load(table + (at * width)[:, None], inside, 0), TYPE)
    tl.store(out + ((r * width)[:, None] + c[None, :]), narrow(convert(acc, TYPE), TYPE), inside)


@triton.jit
def one_hot(indices, values, out, total, depth, inner, BLOCK: tl.constexpr):
    """out[o][d][i] = values[1] where indices[o][i] is d, else values[0]."""
    u = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = u < total
    index = tl.load(indices + (u // (depth * inner) * inner + u % inner), inside, 0).to(tl.int64)
    hot = tl.where(index < 0, index + depth, index) == u // inner % depth
    tl.store(out + u, tl.where(hot, tl.load(values + 1), tl.load(values)), inside)
