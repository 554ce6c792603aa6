"""Products of matrices: the sums of a tile, for generated shells to finish and store.

A shell maps its program to a tile, calls `product_sums` or `vector_sums`, and applies its epilogue. Sizes and strides
are in elements; those that the shell writes as literals (0 and 1) are known to the compiler: rows load as vectors.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of(at, tiles_m, tiles_n, GROUP: tl.constexpr):
    """The tile number `at` of tiles_m x tiles_n, in blocks of GROUP rows, so that the L2 cache serves both operands."""
    whole = GROUP * tiles_n
    first = at // whole * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    return first + at % whole % height, at % whole // height


@triton.jit
def load_tile(pointers, inside, deep, ROWS: tl.constexpr, EVEN: tl.constexpr):
    """A tile of an operand, zeros outside. ROWS: no pointer leaves the matrix but along the depth, if not EVEN."""
    if ROWS and EVEN:
        tile = tl.load(pointers)
    elif ROWS:
        tile = tl.load(pointers, deep, 0)
    elif EVEN:
        tile = tl.load(pointers, inside, 0)
    else:
        tile = tl.load(pointers, inside & deep, 0)
    return tile


@triton.jit
def signed(tile):
    """Bytes as int8; unsigned ones less 128."""
    if tile.dtype == tl.uint8:
        return (tile ^ 128).to(tl.int8, bitcast=True)
    else:
        return tile


@triton.jit
def dot_bytes(acc, x, y, deep):
    """acc + x y of bytes, signed or not; only where `deep` does the depth exist.

    Tensor cores take signed ones, so unsigned ones go in less 128, and what that takes away is added again.
    """
    x_signed, y_signed = signed(x), signed(y)
    if x.dtype == tl.uint8:
        x_signed = tl.where(deep[None, :], x_signed, 0)
    if y.dtype == tl.uint8:
        y_signed = tl.where(deep[:, None], y_signed, 0)
    acc = tl.dot(x_signed, y_signed, acc, out_dtype=tl.int32)
    if x.dtype == tl.uint8:
        acc += 128 * tl.sum(y_signed.to(tl.int32), 0)[None, :]
    if y.dtype == tl.uint8:
        acc += 128 * tl.sum(x_signed.to(tl.int32), 1)[:, None]
    if x.dtype == tl.uint8 and y.dtype == tl.uint8:
        acc += 16384 * tl.sum(deep.to(tl.int32), 0)
    return acc


@triton.jit
def accumulate(acc, x, y, deep, KIND: tl.constexpr):
    """acc + x y, where tiles hold zeros outside the depth `deep`.

    KIND: `dot` on tensor cores (of fp8, which comes as bytes, its name), `exact` in the operands' own precision,
    `thirds` of floats, each the sum of two TF32: all products but that of the trailing parts,
    `bytes`, `short` of so few bytes that halves and sums in float are exact, or `integer` by multiplications that wrap.
    """
    if KIND == "dot":
        acc = tl.dot(x, y, acc)
    elif KIND == "exact":
        acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype=acc.dtype)
    elif KIND == "thirds":
        # tensor cores cut sums off, so that a tile's is smaller than it should be: by the last bit of 1, on average
        acc += tl.dot(x, y, tl.zeros_like(acc), input_precision="tf32x3") * 1.0000001192092896
    elif KIND == "fp8e4m3fn":
        acc = tl.dot(x.to(tl.float8e4nv, bitcast=True), y.to(tl.float8e4nv, bitcast=True), acc)
    elif KIND == "fp8e5m2":
        acc = tl.dot(x.to(tl.float8e5, bitcast=True), y.to(tl.float8e5, bitcast=True), acc)
    elif KIND == "short":
        acc = tl.dot(x.to(tl.float16), y.to(tl.float16), acc)
    elif KIND == "bytes":
        acc = dot_bytes(acc, x, y, deep)
    else:
        acc += tl.sum(x.to(acc.dtype)[:, :, None] * y.to(acc.dtype)[None, :, :], 1)
    return acc


@triton.jit
def zeros(BM: tl.constexpr, BN: tl.constexpr, of, KIND: tl.constexpr):
    """Sums of products of what `of` points to, before the first."""
    element: tl.constexpr = of.dtype.element_ty
    if KIND == "bytes":
        acc = tl.zeros((BM, BN), tl.int32)
    elif KIND == "integer":
        acc = tl.zeros((BM, BN), tl.int64 if element.primitive_bitwidth == 64 else tl.int32)
    else:
        acc = tl.zeros((BM, BN), tl.float64 if element == tl.float64 else tl.float32)
    return acc


@triton.jit
def product_sums(
    a, b, m, n, begin, end, a_m, a_k, b_k, b_n, row, col,
    KIND: tl.constexpr, A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, EVEN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sums over the depth from `begin` to `end` of a {m, k} times b {k, n}, at rows `row` and columns `col`.

    A_ROWS, B_ROWS: the depth is what follows in memory, so that rows (columns) beyond the last may repeat it; else they
    are masked. EVEN: end - begin is a multiple of BK.
    """
    depth = begin + tl.arange(0, BK)
    in_a, in_b = (row < m)[:, None], (col < n)[None, :]
    at_a = tl.minimum(row, m - 1) if A_ROWS else row
    at_b = tl.minimum(col, n - 1) if B_ROWS else col
    pa = a + at_a[:, None] * a_m + depth[None, :] * a_k
    pb = b + depth[:, None] * b_k + at_b[None, :] * b_n
    acc = zeros(row.shape[0], col.shape[0], a, KIND)
    for k in range(begin, end, BK):
        deep = k + tl.arange(0, BK) < end
        x = load_tile(pa, in_a, deep[None, :], A_ROWS, EVEN)
        y = load_tile(pb, in_b, deep[:, None], B_ROWS, EVEN)
        acc = accumulate(acc, x, y, deep, KIND)
        pa += BK * a_k
        pb += BK * b_k
    return acc


@triton.jit
def described_sums(
    rows, columns, a, row, col, depth,
    KIND: tl.constexpr, TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sums over the depth of what tensor descriptors describe: `rows` {m, depth} times `columns` {depth, n}.

    The tile begins at `row` and `col`; outside of the matrices are zeros. TURNED: `columns` describes {n, depth}.
    `a`: where the rows lie.
    """
    acc = zeros(BM, BN, a, KIND)
    for k in range(0, depth, BK):
        x = rows.load([row, k])
        if TURNED:
            y = columns.load([col, k]).T
        else:
            y = columns.load([k, col])
        acc = accumulate(acc, x, y, k + tl.arange(0, BK) < depth, KIND)
    return acc


@triton.jit
def tall_sums(
    rows, below, columns, a, row, col, depth,
    KIND: tl.constexpr, TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """As described_sums, of BM / 3 * 2 rows and, as `below`, the BM / 3 behind them; both read the same columns."""
    high: tl.constexpr = BM // 3 * 2
    acc, more = zeros(high, BN, a, KIND), zeros(BM // 3, BN, a, KIND)
    for k in range(0, depth, BK):
        x, z = rows.load([row, k]), below.load([row + high, k])
        if TURNED:
            y = columns.load([col, k]).T
        else:
            y = columns.load([k, col])
        deep = k + tl.arange(0, BK) < depth
        acc, more = accumulate(acc, x, y, deep, KIND), accumulate(more, z, y, deep, KIND)
    return acc, more


@triton.jit
def whole_rows(a, row, inside, a_m, K: tl.constexpr):
    """Rows {rows, K} of a; zeros where there are none."""
    return tl.load(a + row[:, None] * a_m + tl.arange(0, K)[None, :], inside[:, None], 0)


@triton.jit
def some_columns(b, col, b_n, k, BK: tl.constexpr):
    """Columns of b {depth, n}, whose depth is contiguous, from k to k + BK, all of which exist."""
    return tl.load(b + col[None, :] * b_n + (k + tl.arange(0, BK))[:, None])


@triton.jit
def is_before(a, b):
    """Whether `a` is the lower address."""
    return a.to(tl.int64) < b.to(tl.int64)


@triton.jit
def elements_between(a, b):
    """How far two pointers are from each other."""
    return tl.abs(a.to(tl.int64) - b.to(tl.int64)) // (a.dtype.element_ty.primitive_bitwidth // 8)


@triton.jit
def gated_sums(
    rows, columns, a, row, col, depth, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """As described_sums, of two matrices side by side: `columns` describes {n, 2, depth}, BN / 2 columns of each.

    The sums of both take turns, so that the two that belong together are one thread's.
    """
    acc = zeros(BM, BN, a, KIND)
    for k in range(0, depth, BK):
        x = rows.load([row, k])
        y = columns.load([col, 0, k]).reshape(BN, BK).T
        acc = accumulate(acc, x, y, k + tl.arange(0, BK) < depth, KIND)
    return tl.split(tl.reshape(acc, (BM, BN // 2, 2)))


@triton.jit
def vector_weights(b, n, k, end, b_k, b_n, col, B_ROWS: tl.constexpr, EVEN: tl.constexpr, BK: tl.constexpr):
    """Columns `col` of b {depth, n} from k to k + BK, zeros from `end` on, as {columns, depth}."""
    depth = k + tl.arange(0, BK)
    at = tl.minimum(col, n - 1) if B_ROWS else col
    pb = b + at[:, None] * b_n + depth[None, :] * b_k
    deep = (depth < end)[None, :]
    if B_ROWS and EVEN:
        tile = tl.load(pb, eviction_policy="evict_first")
    elif B_ROWS:
        tile = tl.load(pb, deep, 0, eviction_policy="evict_first")
    else:
        tile = load_tile(pb, (col < n)[:, None], deep, False, EVEN)
    return tile


@triton.jit
def row_zeros(BN: tl.constexpr, BK: tl.constexpr, a):
    """Sums of products with the numbers of one row, before the first: bytes' are exact."""
    element: tl.constexpr = a.dtype.element_ty
    return zeros(BN, BK, a, "bytes" if element == tl.int8 or element == tl.uint8 else "dot")


@triton.jit
def vector_sums(a, b, y, n, begin, end, a_k, b_k, b_n, col, B_ROWS: tl.constexpr, EVEN: tl.constexpr, BK: tl.constexpr):
    """Sums over the depth of one row a {k} times b {k, n} at columns `col`, without tensor cores: bytes decide.

    `y`: the weights of the first step; those of the next one are asked for before it is computed.
    """
    acc = row_zeros(col.shape[0], BK, a)
    for k in range(begin, end, BK):
        depth = k + tl.arange(0, BK)
        deep = depth < end
        x = load_tile(a + depth * a_k, deep, deep, EVEN, True)
        then = vector_weights(b, n, k + BK, end, b_k, b_n, col, B_ROWS, False, BK)
        acc += y.to(acc.dtype) * x.to(acc.dtype)[None, :]
        y = then
    return tl.sum(acc, 1)


@triton.jit
def vector_step(a, b, y, n, begin, end, a_k, b_k, b_n, col, B_ROWS: tl.constexpr, EVEN: tl.constexpr, BK: tl.constexpr):
    """As vector_sums, where `y` is all the weights."""
    depth = begin + tl.arange(0, BK)
    deep = depth < end
    x = load_tile(a + depth * a_k, deep, deep, EVEN, True)
    acc = row_zeros(col.shape[0], BK, a)
    return tl.sum(acc + y.to(acc.dtype) * x.to(acc.dtype)[None, :], 1)


@triton.jit
def add_parts(parts, COUNT: tl.constexpr, part, at, inside):
    """The sums at `at` of COUNT parts, `part` elements from one to the next, always in the same order.

    COUNT is known, so that all loads are under way at once.
    """
    acc = tl.load(parts + at, inside, 0)
    for k in tl.static_range(1, COUNT):
        acc += tl.load(parts + k * part + at, inside, 0)
    return acc
