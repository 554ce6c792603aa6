"""Products of floats with weights of 4 bits, which stay so in memory.

Codes are bytes {n, chunks, 32}: byte j of a chunk holds depth 64 * chunk + j in its lower half and the one 32
further in its upper half, plus 8; depths beyond the last are 0. Weights are (code - zero) * scale of their block of
BLOCK depths; scales {n, blocks}, zeros likewise, or none.
"""

import triton
import triton.language as tl


@triton.jit
def int4_weights(codes, scales, zeros, at, depth, blocks, inside, BLOCK: tl.constexpr, ZEROS: tl.constexpr):
    """Codes as weights; `at`: where the scales of their columns begin. A block of whole halves has one scale a half."""
    block = depth // BLOCK
    known = inside & (block < blocks)
    weights = byte_to_float(codes, 8.0)
    if ZEROS:
        weights -= tl.load(zeros + at + block, known, 0).to(tl.float32)
    return weights * tl.load(scales + at + block, known, 0)


@triton.jit
def int4_sums(a, codes, scales, zeros, m, n, k, blocks, a_m, row, col, BLOCK: tl.constexpr, ZEROS: tl.constexpr):
    """Sums of a {m, k}, rows a_m apart, times the weights, at rows `row` and columns `col`: a chunk at a time."""
    chunks = tl.cdiv(k, 64)
    j = tl.arange(0, 32)
    inside, there = (col < n)[None, :], (row < m)[:, None]
    pc = codes + tl.minimum(col, n - 1)[None, :] * (chunks * 32) + j[:, None]
    pa = a + row[:, None] * a_m + j[None, :]
    at = (tl.minimum(col, n - 1) * blocks)[None, :]
    acc = tl.zeros((row.shape[0], col.shape[0]), tl.float32)
    for chunk in range(chunks):
        pair = tl.load(pc + chunk * 32)
        first = chunk * 64
        of = (first + j if BLOCK % 32 != 0 else first + tl.zeros((1,), tl.int32))[:, None]
        low = int4_weights(pair & 15, scales, zeros, at, of, blocks, inside, BLOCK, ZEROS)
        high = int4_weights(pair >> 4, scales, zeros, at, of + 32, blocks, inside, BLOCK, ZEROS)
        x = tl.load(pa + first, there & (first + j < k)[None, :], 0)
        acc = tl.dot(x, low, acc, input_precision="ieee")
        x = tl.load(pa + first + 32, there & (first + 32 + j < k)[None, :], 0)
        acc = tl.dot(x, high, acc, input_precision="ieee")
    return acc


@triton.jit
def int4_columns(
    codes, scales, zeros, n, k, blocks, begin, col, BLOCK: tl.constexpr, ZEROS: tl.constexpr, CHUNKS: tl.constexpr
):
    """CHUNKS of the weights of columns `col` from chunk `begin` on: the first halves of chunks and the second ones."""
    chunks = tl.cdiv(k, 64)
    j = tl.arange(0, 32)[None, None, :]
    inside = (col < n)[:, None, None]
    column = tl.minimum(col, n - 1)[:, None, None]
    chunk = begin + tl.arange(0, CHUNKS)[None, :, None]
    pair = tl.load(codes + column * (chunks * 32) + chunk * 32 + j, chunk < chunks, 0)
    of = chunk * 64 + j if BLOCK % 32 != 0 else chunk * 64
    low = int4_weights(pair & 15, scales, zeros, column * blocks, of, blocks, inside, BLOCK, ZEROS)
    high = int4_weights(pair >> 4, scales, zeros, column * blocks, of + 32, blocks, inside, BLOCK, ZEROS)
    return low, high


@triton.jit
def int4_vector_sums(
    a, codes, scales, zeros, low, high, n, k, blocks, col, BLOCK: tl.constexpr, ZEROS: tl.constexpr,
    CHUNKS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The same of one row a {k}; CHUNKS at a time, the first of which are `low` and `high`. WHOLE: these are all."""
    depth = tl.arange(0, CHUNKS)[None, :, None] * 64 + tl.arange(0, 32)[None, None, :]
    acc = low * tl.load(a + depth, depth < k, 0) + high * tl.load(a + depth + 32, depth + 32 < k, 0)
    if not WHOLE:
        for begin in range(CHUNKS, tl.cdiv(k, 64), CHUNKS):
            low, high = int4_columns(codes, scales, zeros, n, k, blocks, begin, col, BLOCK, ZEROS, CHUNKS)
            at = depth + begin * 64
            acc += low * tl.load(a + at, at < k, 0)
            acc += high * tl.load(a + at + 32, at + 32 < k, 0)
    return tl.sum(tl.sum(acc, 2), 1)
