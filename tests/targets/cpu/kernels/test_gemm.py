"""gemm.hpp against NumPy in float64 (exact integers for int32), both instruction sets."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.targets.cpu.kernels.harness import (
    ISAS,
    Guarded,
    aligned,
    compile_snippet,
    from_bf16,
    pack,
    pointer,
    to_bf16,
)
from tests.tiers import few
from tests.tolerances import assert_close

SOURCE = r"""
#include "gemm.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
template <class T> struct Short : Put<T> {  // what is written into the kernels of whole tiles
    static constexpr bool in_registers = true;
};
template <class T, class TA, class TB, template <class> class To = Put>
void dot(const Gemm* g, const void* a, const void* b, void* c, int64_t ldc, int threads) {
    parallel(threads, GEMM_SCRATCH, [&](const Team& t, char* s) {
        const To<T> put{static_cast<T*>(c), ldc};
        gemm<T>(t, *g, static_cast<const TA*>(a), static_cast<const TB*>(b), put, s);
    });
}
template <class T> void batched(const BatchedDot* d, const void* a, const void* b, void* c, int threads) {
    parallel(threads, dot_scratch(*d, sizeof(T), sizeof(T)), [&](const Team& t, char* s) {
        const Put<T> put{static_cast<T*>(c), d->n};
        batched_dot<T>(t, *d, static_cast<const T*>(a), static_cast<const T*>(b), put, s);
    });
}
extern "C" {
int columns() { return NR; }
#define DOT(NAME, T, TA, TB) \
    void NAME(const Gemm* g, const void* a, const void* b, void* c, int64_t ldc, int threads) \
    { dot<T, TA, TB>(g, a, b, c, ldc, threads); }
DOT(dot_f32, float, float, float)
DOT(dot_f64, double, double, double)
DOT(dot_f16, float, half, half)
DOT(dot_bf16, float, bf16, bf16)
DOT(dot_f32_f16, float, float, half)
DOT(dot_u8_s8, int32_t, uint8_t, int8_t)
void dot_f32_short(const Gemm* g, const void* a, const void* b, void* c, int64_t ldc, int threads)
{ dot<float, float, float, Short>(g, a, b, c, ldc, threads); }
void batched_f32(const BatchedDot* d, const void* a, const void* b, void* c, int threads)
{ batched<float>(d, a, b, c, threads); }
void batched_f64(const BatchedDot* d, const void* a, const void* b, void* c, int threads)
{ batched<double>(d, a, b, c, threads); }
}
"""
KINDS = {
    "f32": (np.float32, np.float32, np.float32),
    "f32_short": (np.float32, np.float32, np.float32),
    "f64": (np.float64, np.float64, np.float64),
    "f16": (np.float16, np.float16, np.float32),
    "bf16": (np.uint16, np.uint16, np.float32),
    "f32_f16": (np.float32, np.float16, np.float32),
    "u8_s8": (np.uint8, np.int8, np.int32),
}


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: type, kind: str) -> np.ndarray:
    if np.issubdtype(dtype, np.integer) and kind != "bf16":
        info = np.iinfo(dtype)
        return aligned(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    x = rng.standard_normal(shape)
    return aligned(to_bf16(x.astype(np.float32)) if kind == "bf16" else x.astype(dtype))


def _wide(x: np.ndarray, kind: str) -> np.ndarray:
    return (from_bf16(x) if kind == "bf16" else x).astype(np.int64 if kind == "u8_s8" else np.float64)


SHAPES = [
    (1, 1, 1),
    (1, 100, 33),
    (1, 250, 1600),
    (2, 100, 900),
    (2, 31, 5),
    (5, 33, 64),
    (6, 64, 7),
    (7, 65, 100),
    (13, 96, 769),
    (49, 129, 300),
    (121, 70, 50),
    (250, 33, 17),
    (64, 200, 1600),
    (47, 96, 40),
    (30, 32, 1100),
    (3, 17, 0),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", few(KINDS, "f32", "f32_f16"))
def test_gemm(isa: str, kind: str) -> None:
    ta, tb, tc = KINDS[kind]
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(1)
    for m, n, k in SHAPES:
        for threads, pad in ((1, 0), (2, 3), (3, 0), (4, 1)):
            a, b = _random(rng, (m, k + pad), ta, kind), _random(rng, (k, n), tb, kind)
            out = Guarded((m, n), tc)
            sizes = (ctypes.c_int64 * 4)(m, n, k, k + pad)
            packed = pack(b, lib.columns())
            call = getattr(lib, f"dot_{kind}")
            call(sizes, pointer(a), pointer(packed), pointer(out.array), ctypes.c_int64(n), threads)
            out.check()
            assert_close(out.array, _wide(a[:, :k], kind) @ _wide(b, kind), tc)


def _run_batched(isa: str, kind: str, a: np.ndarray, b: np.ndarray, threads: int) -> None:
    """a is [..., m, k], b is [..., k, n], views with any strides and equal batch lens."""
    lib = compile_snippet(SOURCE, isa)
    lens = (1,) * (4 - (a.ndim - 2)) + a.shape[:-2]
    (m, k), n, size = a.shape[-2:], b.shape[-1], a.itemsize
    a_strides, b_strides = ([s // size for s in x.strides] for x in (a, b))
    lead = [0] * (4 - (a.ndim - 2))
    numbers = [m, n, k, *lens, *lead, *a_strides, *lead, *b_strides]
    out = Guarded((*a.shape[:-2], m, n), a.dtype)
    sizes = (ctypes.c_int64 * len(numbers))(*numbers)
    getattr(lib, f"batched_{kind}")(sizes, pointer(a), pointer(b), pointer(out.array), threads)
    out.check()
    assert_close(out.array, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt", "heads", "broadcast", "strided", "negative"])
def test_batched(isa: str, kind: str, layout: str) -> None:
    rng, dtype = np.random.default_rng(2), KINDS[kind][0]
    for m, n, k in ((1, 1, 1), (5, 40, 17), (50, 33, 64), (33, 130, 31), (130, 20, 40), (20, 64, 33)):
        for threads, batch in ((1, (2,)), (2, (2, 3)), (2, (1, 1, 3)), (3, (1,)), (2, (2, 1, 2, 2))):
            a = rng.standard_normal((*batch, m, k)).astype(dtype)
            b = rng.standard_normal((*batch, k, n)).astype(dtype)
            if layout[0] == "t":
                a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
            if layout in ("nt", "tt"):
                b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
            if layout == "heads":  # [..., s, h, d] seen as [..., h, s, d]
                a = np.ascontiguousarray(np.moveaxis(a, -2, 0))
                a = np.moveaxis(a, 0, -2)
                b = np.moveaxis(np.ascontiguousarray(np.moveaxis(b, -1, 0)), 0, -1)
            if layout == "broadcast":
                b = np.broadcast_to(b[(0,) * len(batch)], b.shape)
            if layout == "strided":
                a, b = a.repeat(2, -1)[..., ::2], b.repeat(3, -1)[..., ::3]
            if layout == "negative":
                a, b = a[..., ::-1, ::-1], b[..., ::-1, ::-1]
            _run_batched(isa, kind, a, b, threads)


@pytest.mark.parametrize("isa", ISAS)
def test_nan_and_inf_stay_in_their_row_and_column(isa: str) -> None:
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(3)
    a, b = rng.standard_normal((20, 30)).astype(np.float32), rng.standard_normal((30, 50)).astype(np.float32)
    a[3, 4], b[7, 49] = np.nan, np.inf
    out, packed, a = Guarded((20, 50), np.float32), pack(b, lib.columns()), aligned(a)
    sizes = (ctypes.c_int64 * 4)(20, 50, 30, 30)
    lib.dot_f32(sizes, pointer(a), pointer(packed), pointer(out.array), ctypes.c_int64(50), 2)
    want = a.astype(np.float64) @ b.astype(np.float64)
    out.check()
    assert_close(out.array, want)
