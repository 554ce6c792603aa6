"""gemm.hpp and conv.hpp on AMX: as exact as multiply-adds, on every size, with and without permission."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, aligned, compile_snippet, pack, pointer
from tests.tolerances import SPLIT, assert_close, assert_each

SOURCE = r"""
#include "conv.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
extern "C" {
int columns() { return NR; }
#if defined(MGX_AMX)
int ready() { return amx_ready(); }
void needed(double gain) { amx_gain = gain; }
void as_shipped() { amx_gain = AMX_GAIN; }
int state(int now) { const int was = amx_state; amx_state = now; return was; }
#else
int ready() { return 0; }
#endif
void dot(const Gemm* g, const float* a, const float* b, float* c, int threads, int fast) {
    parallel(threads, GEMM_SCRATCH,
             [&](const Team& t, char* s) { gemm<float>(t, *g, a, b, Put{c, g->n}, s, fast); });
}
void dot_half(const Gemm* g, const half* a, const half* b, float* c, int threads, int fast) {
    parallel(threads, GEMM_SCRATCH,
             [&](const Team& t, char* s) { gemm<float>(t, *g, a, b, Put{c, g->n}, s, fast); });
}
void convolve(const Conv* c, const float* x, const float* w, float* y, int threads, int fast) {
    parallel(threads, conv_scratch(*c, 4),
             [&](const Team& t, char* s) { conv<float>(t, *c, x, w, Put{y, c->oc}, s, fast); });
}
}
"""


@pytest.fixture
def lib() -> ctypes.CDLL:
    lib = compile_snippet(SOURCE)
    if not lib.ready():
        pytest.skip("no AMX here, or no permission to use it")
    need(lib, 0)
    return lib


def need(lib: ctypes.CDLL, gain: float) -> None:
    """How many times as long as tiles multiply-adds must take; with 0 every product of some depth goes by tiles."""
    lib.needed(ctypes.c_double(gain))


def _dot(lib: ctypes.CDLL, a: np.ndarray, b: np.ndarray, threads: int, fast: bool, pad: int = 0) -> np.ndarray:
    (m, k), n = a.shape, b.shape[1]
    wide = np.full((m, k + pad), np.nan, a.dtype)
    wide[:, :k] = a
    source, packed, out = aligned(wide), pack(b, lib.columns()), Guarded((m, n), np.float32)
    sizes = (ctypes.c_int64 * 4)(m, n, k, k + pad)
    run = lib.dot if a.dtype == np.float32 else lib.dot_half
    run(sizes, pointer(source), pointer(packed), pointer(out.array), threads, int(fast))
    out.check()
    return out.array


def _pair(seed: int, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)


SHAPES = [
    (64, 65, 64), (65, 96, 65), (80, 70, 769), (97, 229, 100), (130, 300, 1025), (225, 65, 1600),
    (224, 96, 1024), (449, 90, 95), (256, 800, 2100), (113, 1000, 96), (70, 80, 5000),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sizes(lib: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    a, b = _pair(1, *shape)
    want = a.astype(np.float64) @ b.astype(np.float64)
    for threads, pad in ((1, 0), (2, 3), (3, 1)):
        assert_close(_dot(lib, a, b, threads, True, pad), want, np.float32)


def test_small_ones_are_left_to_multiply_adds(lib: ctypes.CDLL) -> None:
    lib.as_shipped()
    for shape in ((1, 128, 256), (63, 128, 256), (128, 64, 256), (128, 128, 63)):
        a, b = _pair(2, *shape)
        np.testing.assert_array_equal(_dot(lib, a, b, 1, True), _dot(lib, a, b, 1, False))


def test_large_ones_go_by_tiles(lib: ctypes.CDLL) -> None:
    """Such as BERT's, whose sums are others."""
    lib.as_shipped()
    a, b = _pair(9, 128, 3072, 768)
    assert not np.array_equal(_dot(lib, a, b, 1, True), _dot(lib, a, b, 1, False))


@pytest.mark.parametrize("shape", [(8, 1, 64), (16, 65, 100), (33, 33, 769), *SHAPES[2:6], SHAPES[-1]], ids=str)
def test_halves(lib: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    """What two parts leave out is below 2^-18 of every product."""
    a, b = (x.astype(np.float16) for x in _pair(8, *shape))
    exact, size = (f(a).astype(np.float64) @ f(b).astype(np.float64) for f in (np.asarray, np.abs))
    for threads, pad in ((1, 0), (3, 1)):
        error = np.abs(_dot(lib, a, b, threads, True, pad) - exact)
        assert (error <= 2.0**-18 * size).all()
    a[3, 4], a[7, 9], b[7, 0] = np.nan, np.inf, -np.inf
    fast, slow = (_dot(lib, a, b, 1, f) for f in (True, False))
    np.testing.assert_array_equal(np.isnan(fast), np.isnan(slow))
    np.testing.assert_array_equal(fast[np.isinf(slow)], slow[np.isinf(slow)])


@pytest.mark.parametrize("k", [64, 256, 768, 1024, 4096])
@pytest.mark.parametrize("kind", ["normal", "positive", "integers", "rows"])
def test_as_exact_as_multiply_adds(lib: ctypes.CDLL, k: int, kind: str) -> None:
    """Errors of each row against float64, relative to the row's sum of |a b|; `rows`: of sizes 1e-20 .. 1e20."""
    a, b = _pair(3, 160, 96, k)
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    if kind == "integers":  # 12 bits each: parts h and m, every product exact
        a, b = np.rint(a * 500), np.rint(b * 500)
    if kind == "rows":
        a = (a * 10.0 ** np.linspace(-20, 20, 160)[:, None]).astype(np.float32)
    exact, size = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    fast, slow = (_dot(lib, a, b, 1, f) for f in (True, False))
    assert not np.array_equal(fast, slow) or kind == "integers"
    got, bound = ((np.abs(x - exact) / size).max(1) for x in (fast, slow))
    assert (got <= 2 * bound.max() + 2.0**-24 / k).all()
    assert got.max() <= max(1.2 * bound.max(), 2.0**-24 / k)


def test_nan_and_infinity_are_those_of_multiply_adds(lib: ctypes.CDLL) -> None:
    a, b = _pair(4, 150, 100, 300)
    a[3, 4], a[70, 299], a[71, 0], b[7, 99] = np.nan, np.inf, -np.inf, np.inf
    a[100], b[:, 50] = 3e38, np.abs(b[:, 50]) + 1  # overflows
    a[120, 5] = np.finfo(np.float32).max  # rounds to infinity in bf16
    want = _dot(lib, a, b, 1, False)
    for threads in (1, 2):
        got = _dot(lib, a, b, threads, True)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))
        np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want))
        finite = np.isfinite(want)
        assert_each(got[finite], want[finite], SPLIT)


def test_small_numbers_lose_no_more_than_2_to_the_minus_126(lib: ctypes.CDLL) -> None:
    a, b = _pair(5, 64, 80, 100)
    a = (a * 1e-36).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.abs(_dot(lib, a, b, 1, True) - exact)
    assert (error <= 2.0**-126 * np.abs(b).sum(0) + 2.0**-126 * 6 * 100).all()


def test_without_permission(lib: ctypes.CDLL) -> None:
    a, b = _pair(6, 128, 96, 200)
    was = lib.state(2)
    try:
        got = _dot(lib, a, b, 2, True)
    finally:
        lib.state(was)
    np.testing.assert_array_equal(got, _dot(lib, a, b, 2, False))
    assert not np.array_equal(got, _dot(lib, a, b, 2, True))


# n, height, width, ic, oc, kernel, stride, padding, groups, elements between pixels beyond ic
CONVS = [
    (1, 14, 14, 64, 96, 1, 1, 0, 1, 0), (2, 9, 11, 33, 70, 3, 1, 1, 1, 2), (1, 20, 20, 64, 66, 3, 2, 1, 1, 0),
    (1, 16, 16, 5, 72, 5, 1, 2, 1, 0), (1, 30, 31, 3, 65, 7, 2, 3, 1, 0), (1, 12, 12, 512, 70, 3, 1, 1, 1, 0),
    (1, 12, 12, 600, 70, 2, 1, 0, 1, 1), (1, 16, 16, 64, 128, 3, 1, 1, 2, 0), (1, 10, 10, 3, 70, 32, 1, 16, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CONVS, ids=str)
def test_convolution(isa: str, case: tuple[int, ...]) -> None:
    n, height, width, ic, oc, k, stride, pad, groups, gap = case
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(7)
    if lib.ready():
        need(lib, 0)
    x = rng.standard_normal((n, height, width, ic)).astype(np.float32)
    w = rng.standard_normal((oc, ic // groups, k, k)).astype(np.float32)
    tx, tw = torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float64)), torch.from_numpy(w.astype(np.float64))
    want = np.moveaxis(torch.conv2d(tx, tw, None, stride, pad, 1, groups).numpy(), 1, -1)
    wide = np.full((n, height, width, ic + gap), np.nan, np.float32)
    wide[..., :ic] = x
    taps = w.reshape(groups, oc // groups, ic // groups, k * k).transpose(0, 3, 2, 1)
    packed = pack(taps.reshape(groups, -1, oc // groups), lib.columns())
    spatial = [1, height, width, 1, *want.shape[1:3], 1, k, k, 1, stride, stride, 1, 1, 1, 0, pad, pad]
    numbers = [n, ic, oc, groups, ic + gap, *spatial]
    for threads in (1, 2):
        source, out = aligned(wide), Guarded(want.shape, np.float32)
        sizes = (ctypes.c_int64 * len(numbers))(*numbers)
        lib.convolve(sizes, pointer(source), pointer(packed), pointer(out.array), threads, 1)
        out.check()
        assert_close(out.array, want, np.float32)
