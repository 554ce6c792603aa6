"""Linear algebra on small matrices."""

import triton
import triton.language as tl


@triton.jit
def det(x, out, m, n, TYPE: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr):
    """The determinant of each matrix [n][n] by elimination with row pivots, in double; m: memory for the matrices."""
    lane = tl.arange(0, N)
    across = lane[None, :]
    down = tl.arange(0, ROWS)[:, None]
    matrix = tl.program_id(0).to(tl.int64) * n * n
    m += matrix
    for start in range(0, n, ROWS):
        i = start + down
        inside = (i < n) & (across < n)
        value = widen(tl.load(x + (matrix + i * n + across), inside, 0), TYPE)
        tl.store(m + (i * n + across), value.to(tl.float64), inside)
    tl.debug_barrier()
    product = tl.full([], 1.0, tl.float64)
    going = tl.full([], True, tl.int1)
    for k in range(n):
        size = tl.abs(tl.load(m + (lane * n + k), (lane >= k) & (lane < n), 0.0))
        below = (lane >= k) & (lane < n)
        top = tl.max(tl.where(below & (size == size), size, -1.0), 0)
        best = tl.min(tl.where(below & (size == top), lane, N), 0)
        best = tl.where(best == N, k, best)
        upper = tl.load(m + (k * n + lane), lane < n, 0.0)
        pivots = tl.load(m + (best * n + lane), lane < n, 0.0)
        tl.debug_barrier()
        tl.store(m + (best * n + lane), upper, lane < n)
        tl.debug_barrier()
        tl.store(m + (k * n + lane), pivots, lane < n)
        tl.debug_barrier()
        pivot = tl.load(m + (k * n + k))
        turned = tl.where(best == k, pivot, -pivot)
        product = tl.where(going, product * turned, product)
        going = going & (pivot != 0)
        row = tl.load(m + (k * n + across), across < n, 0.0)
        for start in range(0, n, ROWS):
            i = start + down
            inside = (i > k) & (i < n) & (across > k) & (across < n) & going
            factor = tl.load(m + (i * n + k), (i > k) & (i < n), 0.0) / pivot
            place = m + (i * n + across)
            tl.store(place, tl.load(place, inside, 0.0) - factor * row, inside)
        tl.debug_barrier()
    tl.store(out + tl.program_id(0), narrow(convert(product, TYPE), TYPE))
