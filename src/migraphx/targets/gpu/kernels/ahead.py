"""What is brought to the device's cache before it is needed: weights, and the rows of later programs."""

import triton
import triton.language as tl

PREFETCHES: tl.constexpr = tl.constexpr(False)  # whether the chip's instruction is known: compile.py knows


@triton.jit
def prefetch(pointers):
    """Bring the cache lines of these addresses, all of which exist, to the device's cache."""
    if PREFETCHES:
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [pointers], tl.int32, is_pure=False, pack=1
        )


@triton.jit
def prefetch_row(row, n, LINE: tl.constexpr, COUNT: tl.constexpr):
    """The lines, of LINE elements each and at most COUNT, of the n elements that begin at `row`."""
    prefetch(row + tl.minimum(LINE * tl.arange(0, COUNT), n - 1)[None, :])


@triton.jit
def prefetch_columns(b, n, begin, end, b_n, col, LINE: tl.constexpr, COUNT: tl.constexpr):
    """The first COUNT lines, of LINE elements each, of what `col` needs between `begin` and `end` of {n, depth}."""
    depth = tl.minimum(begin + LINE * tl.arange(0, COUNT), end - 1)
    prefetch(b + (tl.minimum(col, n - 1) * b_n)[:, None] + depth[None, :])
