"""board.hpp and program.hpp: every share of every kernel is done once, in order, whichever threads come and when."""

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from migraphx.targets.common.call import AGAIN, LOOP, Call
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.cpu.codegen import Layout, table_of
from migraphx.targets.cpu.emit.kernel import Kernel
from tests.targets.cpu.kernels.harness import compile_snippet

SOURCE = r"""
#include "program.hpp"
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
using namespace mgx;

thread_local int self;
int coming;  // how many threads come; the caller is the first
bool uneven;
int changed;  // threads that may use other cores than before

void watched(void (*fn)(void*), void* data) {
#if defined(__linux__)
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    fn(data);
    sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after)) __atomic_add_fetch(&changed, 1, __ATOMIC_RELAXED);
#else
    fn(data);
#endif
}

void parallel(void (*fn)(void*), void* data, unsigned threads, unsigned) {
    std::vector<std::thread> others;
    for (int tid = 1; tid < coming && tid < int(threads); ++tid)
        others.emplace_back([=] {
            self = tid;
            if (uneven) usleep(300 * tid);
            watched(fn, data);
        });
    self = 0;
    watched(fn, data);
    for (auto& t : others) t.join();
}
int thread_num() { return self; }

// p[1] = p[0] backwards + a[1], of a[0] numbers: what one share writes, other shares of the next kernel read.
void reversed(const Team& t, char* const* p, const int64_t* a, char* scratch) {
    const int64_t* x = reinterpret_cast<const int64_t*>(p[0]);
    int64_t* y = reinterpret_cast<int64_t*>(p[1]);
    const Range mine = t.share(a[0]);
    for (int64_t i = mine.begin; i < mine.end; ++i) y[i] += x[a[0] - 1 - i] + a[1];
    *scratch = 1;
    if (uneven && (mine.begin * 7 + a[1]) % 5 == 0) usleep(50);
}

extern "C" int run(const int64_t* table, char* const* buffers, char* scratch, int64_t stride, int threads, int come,
                   bool some_late, bool are_contended, int64_t* nanoseconds) {
    static const mgx::Kernel kernels[] = {{reversed, nullptr}};
    static const OpenMP omp{parallel, thread_num};
    coming = come, uneven = some_late, changed = 0;
    contended_until = are_contended ? INT64_MAX : 0;
    Stop stop{-1, nullptr, 0, {}, 0, 0};
    mgx::Program g{kernels, table, buffers, scratch, stride, nanoseconds, &omp, &stop, threads};
    run_program(g);
    return changed;
}

// Whether cores count as contended for a while after a thread was seen at these times, when it had worked so long.
extern "C" bool is_contended(int64_t seen, int64_t worked, int64_t again, int64_t worked_again) {
    contended_until = 0;
    Watch watch;
    watch.look(seen, worked);
    watch.look(again, worked_again);
    return contended(again + 1) && !contended(again + 1'000'000'000);
}
"""
SIZE, STRIDE = 24, 128
KERNEL = Kernel("")


def added(source: Buffer, to: Buffer, number: int) -> Call:
    """to += source backwards + number."""
    read, write = (View(b, "int64", (SIZE,), (1,)) for b in (source, to))
    return Call(KERNEL, (read,), (write,), (SIZE, number))


def answer(x: np.ndarray, calls: Sequence[Call], work: int, threads: int, come: int, how: str) -> np.ndarray:
    """What the calls make of the input `x` and an output of zeros."""
    layout = Layout(1, 1, 0)
    y = np.zeros(SIZE, np.int64)
    works = [work * (c.kernel is not None) for c in calls]
    table = table_of(calls, {KERNEL: 0}, layout, [0] * layout.size, works).array()
    buffers = (ctypes.c_void_p * layout.size)(None, None, x.ctypes.data, y.ctypes.data)
    scratch = np.zeros(STRIDE * threads + 64, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % 64
    spent = np.zeros(len(calls), np.int64)
    pointer = ctypes.c_void_p
    changed = compile_snippet(SOURCE).run(
        pointer(table.ctypes.data), buffers, pointer(start), ctypes.c_int64(STRIDE), threads, come,
        how == "late", how == "contended", pointer(spent.ctypes.data),
    )  # fmt: skip
    assert changed == 0
    assert (spent >= 0).all()
    return y


@pytest.mark.parametrize("how", ["even", "late", "contended"])
@pytest.mark.parametrize(("threads", "come"), [(1, 1), (2, 2), (4, 4), (4, 1), (5, 3), (16, 16)])
@pytest.mark.parametrize("work", [0, 50_000, 100_000_000])
def test_every_share_once(work: int, threads: int, come: int, how: str) -> None:
    """Little work runs on one thread, more in one part a share, much in several."""
    x, y = Buffer("input", 8 * SIZE), Buffer("output", 8 * SIZE)
    calls = [call for n in range(10) for call in (added(x, y, n), added(y, x, n))]
    given = np.random.default_rng(0).integers(-9, 9, SIZE)
    want = [given.copy(), np.zeros(SIZE, np.int64)]
    for n in range(10):
        want[1] += want[0][::-1] + n
        want[0] += want[1][::-1] + n
    got = answer(x_ := given.copy(), calls, work, threads, come, how)
    assert np.array_equal(got, want[1]) and np.array_equal(x_, want[0])


@pytest.mark.parametrize(("threads", "come"), [(2, 2), (3, 1), (4, 4)])
def test_a_loop(threads: int, come: int) -> None:
    """One thread follows the flow; the others see its trips."""
    x, y = Buffer("input", 8 * SIZE), Buffer("output", 8 * SIZE)
    trips = 500
    loop, again = (Call(None, (), (), (kind, 0, target, trips, 0, 0)) for kind, target in ((LOOP, 3), (AGAIN, 1)))
    got = answer(np.ones(SIZE, np.int64), [loop, added(x, y, 2), again], 50_000, threads, come, "even")
    assert np.array_equal(got, np.full(SIZE, 3 * trips))


def test_time_that_a_thread_neither_worked_nor_slept() -> None:
    contended = compile_snippet(SOURCE).is_contended
    contended.restype = ctypes.c_bool
    contended.argtypes = [ctypes.c_int64] * 4
    milli = 1_000_000
    assert contended(5 * milli, 3 * milli, 15 * milli, 9 * milli)  # worked 6 of 10 ms
    assert not contended(5 * milli, 3 * milli, 15 * milli, 13 * milli - milli // 2)
