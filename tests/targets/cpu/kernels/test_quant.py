"""quant.hpp against NumPy's integers: registers and AMX, both instruction sets."""

import ctypes

import numpy as np
import pytest

from migraphx.targets.cpu.pack import pack_quads, pack_quant_conv
from tests.targets.cpu.kernels.harness import ISAS, Guarded, aligned, compile_snippet, pointer

SOURCE = r"""
#include "quant.hpp"
#include <cstdlib>
#include <omp.h>
using namespace mgx;
struct Put {
    int32_t* c; int64_t ldc;
    void operator()(int64_t r, int64_t j, vec<int32_t> v) const { store(c + r * ldc + j, v); }
    void operator()(int64_t r, int64_t j, vec<int32_t> v, int n) const { store_n(c + r * ldc + j, v, n); }
};
template <class F> void parallel(int threads, int64_t bytes, F f) {
    Barrier barrier;
    barrier.size = threads;
#pragma omp parallel num_threads(threads)
    {
        char* scratch = static_cast<char*>(aligned_alloc(64, round64(bytes)));
        __builtin_memset(scratch, 0x7b, bytes);
        f(Team{omp_get_thread_num(), threads, &barrier}, scratch);
        free(scratch);
    }
}
template <class S> void dot(const Gemm* g, const void* a, const int32_t* b, int32_t* c, int64_t ldc, int threads) {
    parallel(threads, GEMM_SCRATCH, [&](const Team& t, char* s) {
        gemm<int32_t>(t, *g, static_cast<const Quad<S>*>(a), b, Put{c, ldc}, s);
    });
}
template <class S> void convolve(const Conv* v, const void* x, const int32_t* w, int32_t* c, int threads) {
    parallel(threads, conv_scratch(*v, 4), [&](const Team& t, char* s) {
        conv<int32_t>(t, *v, static_cast<const Quad<S>*>(x), w, Put{c, v->oc}, s);
    });
}
extern "C" {
void dot_int8(const Gemm* g, const void* a, const int32_t* b, int32_t* c, int64_t l, int n)
{ dot<int8_t>(g, a, b, c, l, n); }
void dot_uint8(const Gemm* g, const void* a, const int32_t* b, int32_t* c, int64_t l, int n)
{ dot<uint8_t>(g, a, b, c, l, n); }
void conv_int8(const Conv* v, const void* x, const int32_t* w, int32_t* c, int n) { convolve<int8_t>(v, x, w, c, n); }
void conv_uint8(const Conv* v, const void* x, const int32_t* w, int32_t* c, int n) { convolve<uint8_t>(v, x, w, c, n); }
int columns() { return NR; }
void use_amx([[maybe_unused]] int yes) {
#if defined(MGX_AMX)
    amx_state = yes ? 0 : 2;
#endif
}
}
"""
WAYS = [("native", 1), ("native", 0), *((isa, 0) for isa in ISAS if isa != "native")]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{'amx' if way[1] else 'registers'}")
def library(request, monkeypatch):
    isa, amx = request.param
    lib = compile_snippet(SOURCE, isa)
    lib.use_amx(amx)
    monkeypatch.setattr("migraphx.targets.cpu.pack.panel", lib.columns)
    return lib


def random(rng, type, *lens):
    info = np.iinfo(type)
    return rng.integers(info.min, info.max + 1, lens).astype(type)


@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_dot(library, type):
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 5, 4), (7, 33, 12), (40, 70, 64), (33, 100, 260), (130, 31, 4000), (65, 64, 128), (3, 1, 3600)):
        a, b = random(rng, type, m, k), random(rng, "int8", k, n)
        a = aligned(a)
        a[0], b[:, 0] = np.iinfo(type).max, -128  # the largest sums
        out, packed = Guarded((m, n), np.int32), aligned(pack_quads(b[None]))
        for threads in (1, 3):
            sizes = (ctypes.c_int64 * 4)(m, n, k // 4, k // 4)
            run = getattr(library, f"dot_{type}")
            run(sizes, pointer(a), pointer(packed), pointer(out.array), ctypes.c_int64(n), threads)
            np.testing.assert_array_equal(out.array, a.astype(np.int64) @ b)
            out.check()


@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_convolution(library, type):
    rng = np.random.default_rng(1)
    for n, ic, oc, groups, size, kernel, stride, pad in (
        (1, 4, 40, 1, 17, 7, 2, 3), (2, 8, 20, 1, 9, 3, 1, 1), (1, 64, 33, 1, 8, 1, 1, 0),
        (2, 16, 24, 2, 7, 3, 2, 1), (1, 200, 64, 1, 6, 3, 1, 1), (1, 64, 128, 1, 9, 1, 2, 0),
    ):  # fmt: skip
        x, w = random(rng, type, n, size, size, ic), random(rng, "int8", oc, ic // groups, kernel, kernel)
        out = (size + 2 * pad - kernel) // stride + 1
        padded = np.pad(x.astype(np.int64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
        parts = np.split(windows, groups, 3)
        pairs = zip(parts, np.split(w, groups), strict=True)
        want = np.concatenate([np.einsum("nhwcij,ocij->nhwo", p, v) for p, v in pairs], -1)
        got = Guarded((n, out, out, oc), np.int32)
        ones, zeros = (1, 1, 1), (0, pad, pad)
        window = ((1, size, size), (1, out, out), (1, kernel, kernel), (1, stride, stride), ones, zeros)
        numbers = (n, ic // 4, oc, groups, ic // 4, *(v for three in window for v in three))
        x, packed = aligned(x), aligned(pack_quant_conv(w, groups))
        for threads in (1, 3):
            run = getattr(library, f"conv_{type}")
            run((ctypes.c_int64 * 23)(*numbers), pointer(x), pointer(packed), pointer(got.array), threads)
            np.testing.assert_array_equal(got.array, want)
            got.check()
