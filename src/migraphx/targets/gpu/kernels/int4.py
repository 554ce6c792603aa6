"""Products of floats with weights of 4 bits, which stay so in memory.

Codes are bytes {n, chunks, 32}: byte 4 j + i of a chunk holds depth 64 * chunk + 8 i + j in its lower half and the one
32 further in its upper half, plus 8, so that bytes i of words in turn are depths in turn; depths beyond the last are 0.
Weights are (code - zero) * scale of their block of BLOCK depths; scales {n, blocks}, zeros likewise, or none.
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
    d = j % 4 * 8 + j // 4
    inside, there = (col < n)[None, :], (row < m)[:, None]
    pc = codes + tl.minimum(col, n - 1)[None, :] * (chunks * 32) + j[:, None]
    pa = a + row[:, None] * a_m + d[None, :]
    at = (tl.minimum(col, n - 1) * blocks)[None, :]
    acc = tl.zeros((row.shape[0], col.shape[0]), tl.float32)
    for chunk in range(chunks):
        pair = tl.load(pc + chunk * 32)
        first = chunk * 64
        of = (first + d if BLOCK % 32 != 0 else first + tl.zeros((1,), tl.int32))[:, None]
        low = int4_weights(pair & 15, scales, zeros, at, of, blocks, inside, BLOCK, ZEROS)
        high = int4_weights(pair >> 4, scales, zeros, at, of + 32, blocks, inside, BLOCK, ZEROS)
        x = tl.load(pa + first, there & (first + d < k)[None, :], 0)
        acc = tl.dot(x, low, acc, input_precision="ieee")
        x = tl.load(pa + first + 32, there & (first + 32 + d < k)[None, :], 0)
        acc = tl.dot(x, high, acc, input_precision="ieee")
    return acc


@triton.jit
def int4_words(codes, n, k, begin, col, CHUNKS: tl.constexpr):
    """CHUNKS of the codes of columns `col` from chunk `begin` on, as words {columns, CHUNKS, 8}."""
    chunks = tl.cdiv(k, 64)
    column, j = tl.minimum(col, n - 1)[:, None, None], tl.arange(0, 8)[None, None, :]
    chunk = begin + tl.arange(0, CHUNKS)[None, :, None]
    words = codes.to(tl.pointer_type(tl.uint32), bitcast=True)
    return tl.load(words + (column * chunks + chunk) * 8 + j, chunk < chunks, 0, eviction_policy="evict_first")


@triton.jit
def int4_half(a, words, scales, zeros, first, k, at, blocks, inside, acc, BLOCK: tl.constexpr, ZEROS: tl.constexpr):
    """acc {columns, CHUNKS} + the sums of halves of chunks, which begin at depths `first` {1, CHUNKS, 1}.

    The lower 4 bits of each byte of `words`; `at`: where the scales of the columns begin. Codes become floats where
    they are, as bits below the first of 2^23, 2^15 or 2^7, whose last bits stand for 1, 2^-8 and 2^-16.
    """
    block = first // BLOCK
    less = 8.0
    if BLOCK % 32 == 0 and ZEROS:
        less += tl.load(zeros + at + block, inside & (block < blocks), 0).to(tl.float32)
    sums = tl.zeros(words.shape, tl.float32)
    for i in tl.static_range(4):
        depth = first + 8 * i + tl.arange(0, 8)[None, None, :]
        if i == 0:
            weights = float_of(words & 0xF | 0x4B000000) - (8388608.0 + less)
        elif i == 1:
            weights = float_of(words & 0xF00 | 0x47000000) - (32768.0 + less)
        elif i == 2:
            weights = float_of(words & 0xF0000 | 0x43000000) - (128.0 + less)
        else:
            weights = float_of(words >> 8 & 0xF0000 | 0x43000000) - (128.0 + less)
        if BLOCK % 32 != 0:
            weights = int4_scaled(weights, scales, zeros, at, depth // BLOCK, blocks, inside, ZEROS)
        sums += weights * tl.load(a + depth, depth < k, 0)
    if BLOCK % 32 == 0:
        acc += tl.sum(sums, 2) * tl.sum(tl.load(scales + at + block, inside & (block < blocks), 0), 2)
    else:
        acc += tl.sum(sums, 2)
    return acc


@triton.jit
def int4_scaled(weights, scales, zeros, at, block, blocks, inside, ZEROS: tl.constexpr):
    """Weights less their zeros, times their scales."""
    known = inside & (block < blocks)
    if ZEROS:
        weights -= tl.load(zeros + at + block, known, 0).to(tl.float32)
    return weights * tl.load(scales + at + block, known, 0)


@triton.jit
def int4_vector_sums(
    a, codes, words, scales, zeros, n, k, blocks, col, BLOCK: tl.constexpr, ZEROS: tl.constexpr, CHUNKS: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """The same of one row a {k}; CHUNKS at a time, of which `words` are the first. WHOLE: these are all."""
    inside, at = (col < n)[:, None, None], (tl.minimum(col, n - 1) * blocks)[:, None, None]
    chunk = tl.arange(0, CHUNKS)[None, :, None]
    acc = tl.zeros((col.shape[0], CHUNKS), tl.float32)
    for begin in range(0, CHUNKS if WHOLE else tl.cdiv(k, 64), CHUNKS):
        first, then = (begin + chunk) * 64, words
        if not WHOLE:
            then = int4_words(codes, n, k, begin + CHUNKS, col, CHUNKS)
        acc = int4_half(a, words, scales, zeros, first, k, at, blocks, inside, acc, BLOCK, ZEROS)
        acc = int4_half(a, words >> 4, scales, zeros, first + 32, k, at, blocks, inside, acc, BLOCK, ZEROS)
        words = then
    return tl.sum(acc, 1)
