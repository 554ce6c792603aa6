"""What a kernel does while the one before it still runs: it asks for weights."""

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
def prefetch_columns(b, n, begin, end, b_n, col, LINE: tl.constexpr, COUNT: tl.constexpr):
    """The first COUNT lines, of LINE elements each, of what `col` needs between `begin` and `end` of {n, depth}."""
    depth = tl.minimum(begin + LINE * tl.arange(0, COUNT), end - 1)
    prefetch(b + (tl.minimum(col, n - 1) * b_n)[:, None] + depth[None, :])
