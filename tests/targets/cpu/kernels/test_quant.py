"""quant.hpp against NumPy: registers and AMX, every instruction set."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from migraphx.targets.cpu.pack.vnni import pack_vnni, pack_vnni_conv
from migraphx.targets.cpu.pack.winograd import pack_winograd_words
from tests.targets.cpu.kernels.harness import LEVELS, Guarded, aligned, compile_snippet, pointer
from tests.tiers import few
from tests.tolerances import assert_close

SOURCE = r"""
#include "winograd_words.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
template <class S, class T = sum_t<S>>
void dot(const Gemm* g, const void* a, const T* b, T* c, int64_t ldc, int threads) {
    parallel(threads, GEMM_SCRATCH, [&](const Team& t, char* s) {
        gemm<T>(t, *g, static_cast<const Word<S>*>(a), b, Put<T>{c, ldc}, s);
    });
}
template <class S, class T = sum_t<S>> void convolve(const Conv* v, const void* x, const T* w, T* c, int threads) {
    parallel(threads, conv_scratch(*v, 4), [&](const Team& t, char* s) {
        conv<T>(t, *v, static_cast<const Word<S>*>(x), w, Put<T>{c, v->oc}, s);
    });
}
#if defined(MGX_PAIRS)
template <class S> void winograd(const Conv* v, const void* x, const int32_t* u, int32_t* c, int threads) {
    parallel(threads, winograd_words_scratch(*v), [&](const Team& t, char* s) {
        winograd_words(t, *v, static_cast<const Word<S>*>(x), u, Put<int32_t>{c, v->oc}, s);
    });
}
#endif
extern "C" {
int pairs() {
#if defined(MGX_PAIRS)
    return 1;
#else
    return 0;
#endif
}
void dot_int8(const Gemm* g, const void* a, const int32_t* b, int32_t* c, int64_t l, int n)
{ dot<int8_t>(g, a, b, c, l, n); }
void dot_uint8(const Gemm* g, const void* a, const int32_t* b, int32_t* c, int64_t l, int n)
{ dot<uint8_t>(g, a, b, c, l, n); }
void conv_int8(const Conv* v, const void* x, const int32_t* w, int32_t* c, int n) { convolve<int8_t>(v, x, w, c, n); }
void conv_uint8(const Conv* v, const void* x, const int32_t* w, int32_t* c, int n) { convolve<uint8_t>(v, x, w, c, n); }
#if defined(MGX_PAIRS)
void winograd_int8(const Conv* v, const void* x, const int32_t* u, int32_t* c, int n)
{ winograd<int8_t>(v, x, u, c, n); }
void winograd_uint8(const Conv* v, const void* x, const int32_t* u, int32_t* c, int n)
{ winograd<uint8_t>(v, x, u, c, n); }
#endif
int bf16_words() { return MGX_BF16_WORDS; }
#if MGX_BF16_WORDS
void dot_bf16(const Gemm* g, const void* a, const float* b, float* c, int64_t l, int n) { dot<bf16>(g, a, b, c, l, n); }
void conv_bf16(const Conv* v, const void* x, const float* w, float* c, int n) { convolve<bf16>(v, x, w, c, n); }
#endif
int columns() { return NR; }
void use_amx([[maybe_unused]] int yes) {
#if defined(MGX_AMX)
    amx_state = yes ? 0 : 2;
#endif
}
}
"""
WAYS = few([("native", 1), *((isa, 0) for isa in LEVELS)], at=[0, 1])


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{'amx' if way[1] else 'registers'}")
def library(request):
    isa, amx = request.param
    lib = compile_snippet(SOURCE, isa)
    lib.use_amx(amx)
    return lib


def random(rng, type, *lens):
    if type == "bf16":
        return rng.standard_normal(lens).astype(ml_dtypes.bfloat16)
    info = np.iinfo(type)
    return rng.integers(info.min, info.max + 1, lens).astype(type)


def needs(library, type):
    if type == "bf16" and not library.bf16_words():
        pytest.skip("no products of bf16 here")


TYPES = ["int8", "uint8", "bf16"]


@pytest.mark.parametrize("type", TYPES)
def test_dot(library, type):
    needs(library, type)
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 5, 4), (7, 33, 12), (40, 70, 64), (33, 100, 260), (130, 31, 4000), (65, 64, 128), (3, 1, 3600),
                    (9, 40, 8200), (80, 5, 0)):  # fmt: skip
        a, b = aligned(random(rng, type, m, k)), random(rng, "bf16" if type == "bf16" else "int8", k, n)
        if type != "bf16":
            a[0], b[:, 0] = np.iinfo(type).max, -128  # the largest sums
        packed, each = aligned(pack_vnni(b[None], library.columns())), 4 // b.itemsize
        out = Guarded((m, n), packed.dtype)
        want = a.astype(np.float64) @ b.astype(np.float64)
        for threads in (1, 3):
            sizes = (ctypes.c_int64 * 4)(m, n, k // each, k // each)
            run = getattr(library, f"dot_{type}")
            run(sizes, pointer(a), pointer(packed), pointer(out.array), ctypes.c_int64(n), threads)
            assert_close(out.array, want)
            out.check()


@pytest.mark.parametrize("type", TYPES)
def test_convolution(library, type):
    needs(library, type)
    rng = np.random.default_rng(1)
    for n, ic, oc, groups, size, kernel, stride, pad in (
        (1, 4, 40, 1, 17, 7, 2, 3), (2, 8, 20, 1, 9, 3, 1, 1), (1, 64, 33, 1, 8, 1, 1, 0),
        (2, 16, 24, 2, 7, 3, 2, 1), (1, 24, 80, 2, 5, 3, 1, 1),
        (1, 200, 64, 1, 6, 3, 1, 1), (1, 64, 128, 1, 9, 1, 2, 0),
    ):  # fmt: skip
        weights = "bf16" if type == "bf16" else "int8"
        x, w = random(rng, type, n, size, size, ic), random(rng, weights, oc, ic // groups, kernel, kernel)
        out = (size + 2 * pad - kernel) // stride + 1
        padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
        parts = np.split(windows, groups, 3)
        pairs = zip(parts, np.split(w.astype(np.float64), groups), strict=True)
        want = np.concatenate([np.einsum("nhwcij,ocij->nhwo", p, v) for p, v in pairs], -1)
        packed, each = aligned(pack_vnni_conv(w, groups, library.columns())), 4 // w.itemsize
        got = Guarded((n, out, out, oc), packed.dtype)
        ones, zeros = (1, 1, 1), (0, pad, pad)
        window = ((1, size, size), (1, out, out), (1, kernel, kernel), (1, stride, stride), ones, zeros)
        numbers = (n, ic // each, oc, groups, ic // each, *(v for three in window for v in three))
        x = aligned(x)
        for threads in (1, 3):
            run = getattr(library, f"conv_{type}")
            run((ctypes.c_int64 * 23)(*numbers), pointer(x), pointer(packed), pointer(got.array), threads)
            assert_close(got.array, want)
            got.check()


@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_winograd(library, type):
    """Exactly, of the largest numbers too; sums of more than WINOGRAD_WORDS words might not fit."""
    if not library.pairs():
        pytest.skip("bytes are multiplied as they are here")
    rng = np.random.default_rng(2)
    for n, ic, oc, size, pad in ((1, 8, 20, 5, 1), (2, 64, 33, 9, 1), (1, 36, 70, 8, 0), (1, 1824, 5, 3, 2)):
        x, w = random(rng, type, n, size, size, ic), random(rng, "int8", oc, ic, 3, 3)
        x[0], w[0] = np.iinfo(type).max, -128
        out = size + 2 * pad - 2
        padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
        want = np.einsum("nhwcij,ocij->nhwo", windows, w.astype(np.float64), optimize=True)
        packed = aligned(pack_winograd_words(w, library.columns()))
        got = Guarded((n, out, out, oc), np.dtype(np.int32))
        window = ((1, size, size), (1, out, out), (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, pad, pad))
        numbers = (n, ic // 4, oc, 1, ic // 4, *(v for three in window for v in three))
        x = aligned(x)
        for threads in (1, 3):
            run = getattr(library, f"winograd_{type}")
            run((ctypes.c_int64 * 23)(*numbers), pointer(x), pointer(packed), pointer(got.array), threads)
            np.testing.assert_array_equal(got.array, want)
            got.check()
