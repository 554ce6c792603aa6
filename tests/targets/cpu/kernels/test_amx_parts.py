"""Parts of a product on AMX: a thread keeps the rows that it has split from part to part, and never uses old ones."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from migraphx.targets.common.call import AGAIN, LOOP, Call
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.cpu.codegen import table_of
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.table import Layout
from tests.targets.cpu.kernels.harness import Guarded, aligned, compile_snippet, pack, pointer
from tests.tolerances import assert_close

pytestmark = pytest.mark.slow  # test_amx.py compiles these kernels, too

SOURCE = r"""
#include "conv.hpp"
#include "program.hpp"
#include "put.hpp"
#include <cstdlib>
#include <omp.h>
using namespace mgx;
char* poisoned(int64_t bytes) {
    char* scratch = static_cast<char*>(aligned_alloc(64, round64(bytes)));
    __builtin_memset(scratch, 0x7b, round64(bytes));
    return scratch;
}

// Parts in this order, `order[i]` of all threads', each by one of two workers with a scratch of its own.
template <class F>
void parts(const int* order, const int* worker, int threads, int count, int64_t bytes, bool keep, F f) {
    char* scratch[] = {poisoned(bytes), poisoned(bytes)};
    Kept kept[2];
    for (int i = 0; i < threads * count; ++i) {
        if (!keep) kept[worker[i]] = {};
        const Team share{order[i] / count, threads, nullptr, false, &kept[worker[i]]};
        f(share.part(order[i] % count, count), scratch[worker[i]]);
    }
    free(scratch[0]), free(scratch[1]);
}

void product(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const auto at = [&](int k) { return reinterpret_cast<float*>(p[k]); };
    gemm<float>(t, {a[0], a[1], a[2], a[2]}, at(0), at(1), Put{at(2), a[1]}, scratch, true);
}
int64_t product_scratch(const int64_t*) { return GEMM_SCRATCH; }
void add_one(const Team& t, char* const* p, const int64_t* a, char*) {
    const Range mine = t.share(a[0]);
    for (int64_t i = mine.begin; i < mine.end; ++i) reinterpret_cast<float*>(p[0])[i] += 1;
}
void parallel(void (*fn)(void*), void* data, unsigned threads, unsigned) {
#pragma omp parallel num_threads(threads)
    fn(data);
}

extern "C" {
int columns() { return NR; }
#if defined(MGX_AMX)
int ready() {
    amx_gain = 0;  // every product goes by tiles
    return amx_ready();
}
#else
int ready() { return 0; }
#endif
void dot(const Gemm* g, const float* a, const float* b, float* c, const int* order, const int* worker, int threads,
         int count, int keep) {
    parts(order, worker, threads, count, GEMM_SCRATCH, keep,
          [&](const Team& t, char* s) { gemm<float>(t, *g, a, b, Put{c, g->n}, s, true); });
}
void dot_half(const Gemm* g, const half* a, const half* b, float* c, const int* order, const int* worker, int threads,
              int count, int keep) {
    parts(order, worker, threads, count, GEMM_SCRATCH, keep,
          [&](const Team& t, char* s) { gemm<float>(t, *g, a, b, Put{c, g->n}, s, true); });
}
void picked(const PickedGemm* g, const float* a, const float* b, const int64_t* picks, float* c, const int* order,
            const int* worker, int threads, int count, int keep) {
    parts(order, worker, threads, count, GEMM_SCRATCH, keep,
          [&](const Team& t, char* s) { picked_gemm<float>(t, *g, a, b, picks, Put{c, g->n}, s, true); });
}
void run(const int64_t* table, char* const* buffers, int threads) {
    static const mgx::Kernel kernels[] = {{product, product_scratch}, {add_one, nullptr}};
    static const OpenMP omp{parallel, omp_get_thread_num, omp_get_num_threads};
    Stop stop{-1, nullptr, 0, {}, 0, 0};
    const int64_t stride = round64(largest_scratch(kernels, table));
    char* scratch = poisoned(stride * threads);
    mgx::Program g{kernels, table, buffers, scratch, stride, nullptr, &omp, &stop, threads};
    stop.begin();
    run_program(g);
    free(scratch);
}
}
"""
PRODUCT, ADD = Kernel("product"), Kernel("add")


@pytest.fixture
def lib() -> ctypes.CDLL:
    lib = compile_snippet(SOURCE)
    if not lib.ready():
        pytest.skip("no AMX here, or no permission to use it")
    return lib


def _orders(parts: int) -> list[tuple[list[int], list[int]]]:
    """One worker in order and backwards; two that take turns; two at random."""
    rng, there = np.random.default_rng(1), list(range(parts))
    return [
        (there, [0] * parts), (there[::-1], [0] * parts), (there, [k % 2 for k in there]),
        (rng.permutation(parts).tolist(), rng.integers(0, 2, parts).tolist()),
    ]  # fmt: skip


def _ints(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(numbers))(*numbers)


def _random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SHAPES = [  # several passes over the depth, blocks of rows, groups of panels; parts that remain empty
    (197, 2304, 768), (197, 768, 3072), (700, 500, 100), (450, 900, 1100), (130, 1600, 1025), (64, 96, 64),
    (1000, 96, 70),
]  # fmt: skip


@pytest.mark.parametrize(("threads", "count"), [(1, 1), (1, 4), (2, 4), (2, 16), (3, 8)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_answers_are_the_same_whoever_takes_a_part(
    lib: ctypes.CDLL, shape: tuple[int, int, int], threads: int, count: int
) -> None:
    m, n, k = shape
    a, b = _random(1, m, k), _random(2, k, n)
    source, packed, sizes = aligned(a), pack(b, lib.columns()), (ctypes.c_int64 * 4)(m, n, k, k)

    def answer(order: list[int], worker: list[int], keep: bool) -> np.ndarray:
        out = Guarded((m, n), np.float32)
        lib.dot(
            sizes,
            pointer(source),
            pointer(packed),
            pointer(out.array),
            _ints(order),
            _ints(worker),
            threads,
            count,
            keep,
        )
        out.check()
        return out.array

    orders = _orders(threads * count)
    want = answer(*orders[0], keep=False)
    assert_close(want, a.astype(np.float64) @ b.astype(np.float64), np.float32)
    for order, worker in orders:
        np.testing.assert_array_equal(answer(order, worker, keep=True), want)


@pytest.mark.parametrize(("threads", "count"), [(2, 4), (16, 1), (16, 2)])
def test_halves_of_fewer_rows_than_threads(lib: ctypes.CDLL, threads: int, count: int) -> None:
    m, n, k = 9, 24, 96
    a, b = (_random(seed, *lens).astype(np.float16) for seed, lens in ((7, (m, k)), (8, (k, n))))
    source, packed, sizes, out = (
        aligned(a),
        pack(b, lib.columns()),
        (ctypes.c_int64 * 4)(m, n, k, k),
        Guarded((m, n), np.float32),
    )
    order, worker = _orders(threads * count)[2]
    lib.dot_half(
        sizes, pointer(source), pointer(packed), pointer(out.array), _ints(order), _ints(worker), threads, count, True
    )
    out.check()
    assert_close(out.array, a.astype(np.float64) @ b.astype(np.float64), np.float16)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_products_of_one_part_have_rows_of_their_own(lib: ctypes.CDLL, count: int) -> None:
    """A kernel that multiplies several matrices has the same rows of each."""
    batches, m, n, k = 3, 130, 400, 200
    a, b, picks = _random(3, batches, m, k), _random(4, 2, k, n), np.array([1, 0, 1])
    packed = pack(b, lib.columns())
    sizes = (ctypes.c_int64 * 7)(batches, m, n, k, k, m * k, packed[0].size)
    for order, worker in _orders(2 * count):
        out, source = Guarded((batches, m, n), np.float32), aligned(a)
        lib.picked(
            sizes, pointer(source), pointer(packed), pointer(picks), pointer(out.array), _ints(order), _ints(worker),
            2, count, True,
        )  # fmt: skip
        out.check()
        assert_close(out.array, a.astype(np.float64) @ b[picks].astype(np.float64), np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("k", [256, 768])
def test_rows_that_have_changed_are_split_again(lib: ctypes.CDLL, k: int, threads: int) -> None:
    """A loop multiplies numbers at one place, which grow from trip to trip, in several parts."""
    m, n, trips, work = 197, 1600, 6, 100_000_000
    x, w = _random(5, m, k), _random(6, k, n)
    buffers = [Buffer("input", 4 * m * k), Buffer("input", 4 * k * n, 1), Buffer("output", 4 * m * n)]
    views = [View(b, "float", (b.nbytes // 4,), (1,)) for b in buffers]
    more = Call(ADD, (), (views[0],), (m * k,))
    multiply = Call(PRODUCT, (views[0], views[1]), (views[2],), (m, n, k))
    loop, again = (Call(None, (), (), (kind, 0, to, trips, 0, 0)) for kind, to in ((LOOP, 4), (AGAIN, 1)))
    calls = [loop, multiply, more, again, multiply]
    layout = Layout(2, 1, 0)
    works = [work * (c.kernel is not None) for c in calls]
    table = table_of(calls, {PRODUCT: 0, ADD: 1}, layout, [0] * layout.size, works).array()
    source, packed, out = aligned(x), pack(w, lib.columns()), Guarded((m, n), np.float32)
    at = (ctypes.c_void_p * layout.size)(None, None, source.ctypes.data, packed.ctypes.data, out.array.ctypes.data)
    lib.run(pointer(table), at, threads)
    out.check()
    assert_close(out.array, source.astype(np.float64) @ w.astype(np.float64), np.float32)
    np.testing.assert_allclose(source, x + trips, rtol=1e-5, atol=1e-5)
