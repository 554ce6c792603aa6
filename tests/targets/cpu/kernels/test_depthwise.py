"""depthwise.hpp against torch in float64: kernels, strides, dilation, uneven padding, ranks, groups, storage."""

import ctypes

import numpy as np
import pytest
import torch

from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import Depthwise
from tests.targets.cpu.kernels.harness import ISAS, Guarded, compile_snippet, from_bf16, pointer, to_bf16
from tests.tolerances import assert_close

HEAD = r"""
#include "depthwise.hpp"
#include "parallel.hpp"
using namespace mgx;
struct Put {  // y = conv + bias, as generated code does it
    float* y; const float* bias; int64_t c;
    void operator()(int64_t r, int64_t j, vec<float> v) const { store(y + r * c + j, v + load(bias + j)); }
    void operator()(int64_t r, int64_t j, vec<float> v, int n) const {
        store_n(y + r * c + j, v + load_n(bias + j, n), n);
    }
};
template <bool ALL, class TX, class TW>
void run(const Depthwise* p, const TX* x, const TW* w, const float* bias, float* y, int kind, int threads) {
    parallel(threads, 0, [&](const Team& t, char*) {
        const Put put{y, bias, p->c};
#define KIND(K, S) \
    if (kind == K * 10 + S) depthwise<K, S, ALL == (S == 2) ? 8 : 7>(t, *p, x, w, put);
        if (p->kernel[0] > 1 && kind > 10) {  // several planes
            if (kind == 31) depthwise<3, 1, 8, 1, true>(t, *p, x, w, put);
        } else {
            KIND(3, 1) KIND(5, 2)
            if constexpr (ALL) { KIND(0, 0) KIND(3, 2) KIND(5, 1) KIND(7, 1) KIND(7, 2) }
        }
    });
}
#define RUN(NAME, ALL, TX, TW) \
    extern "C" void NAME(const Depthwise* p, const TX* x, const TW* w, const float* b, float* y, int kind, int n) \
    { run<ALL>(p, x, w, b, y, kind, n); }
"""
GROUPS = r"""extern "C" int lanes() { return LANES; }
extern "C" void run_groups(
    const Depthwise* p, const float* x, const float* w, const float* bias, float* y, int kind, int threads) {
    parallel(threads, 0, [&](const Team& t, char*) {
        const Put put{y, bias, p->c};
        if (kind == 2) depthwise<0, 0, 7, 2>(t, *p, x, w, put);
        if (kind == 314) depthwise<3, 1, 7, 4>(t, *p, x, w, put);
        if constexpr (LANES >= 8) if (kind == 328) depthwise<3, 2, 8, 8>(t, *p, x, w, put);
        if constexpr (LANES >= 16) if (kind == 3216) depthwise<3, 2, 8, 16>(t, *p, x, w, put);
        if constexpr (LANES >= 16) if (kind == 3116) depthwise<3, 1, 7, 16>(t, *p, x, w, put);
    });
}
"""
TIMES = r"""template <class TX, class TW>
void run_times(const Depthwise* p, const TX* x, const TW* w, const float* bias, float* y, int kind, int threads) {
    parallel(threads, 0, [&](const Team& t, char*) {
        const Put put{y, bias, p->c};
        if (kind == 3202) depthwise<3, 2, 8, 1, false, 2>(t, *p, x, w, put);
        if (kind == 3102) depthwise<3, 1, 7, 1, true, 2>(t, *p, x, w, put);
        if (kind == 4) depthwise<0, 0, 7, 1, false, 4>(t, *p, x, w, put);
        if constexpr (LANES >= 8) if (kind == 8) depthwise<0, 0, 8, 1, false, 8>(t, *p, x, w, put);
    });
}
#define TIMES(NAME, TX, TW) \
    extern "C" void NAME(const Depthwise* p, const TX* x, const TW* w, const float* b, float* y, int kind, int n) \
    { run_times(p, x, w, b, y, kind, n); }
"""
PARTS = {
    "run_float": HEAD + "RUN(run_float, true, float, float)",
    "run_half": HEAD + "RUN(run_half, false, half, half)",
    "run_bf16": HEAD + "RUN(run_bf16, false, bf16, float)",
    "run_groups": HEAD + GROUPS,
    "times_float": HEAD + TIMES + "TIMES(times_float, float, float)",
    "times_half": HEAD + TIMES + "TIMES(times_half, half, half)",
    "times_bf16": HEAD + TIMES + "TIMES(times_bf16, bf16, float)",
}
"""The functions, each in a source of its own: what is narrow has the fewest kernels, and the quick tests."""
Three = tuple[int, int, int]


def _check(
    isa: str,
    n: int,
    c: int,
    size: Three,
    kernel: Three,
    stride: Three = (1, 1, 1),
    dilation: Three = (1, 1, 1),
    before: Three = (0, 0, 0),
    after: Three = (0, 0, 0),
    spare: int = 0,
    kind: str = "float",
    group: int = 1,
    times: int = 1,
) -> None:
    """Random data of that geometry; `spare` elements lie between pixels, `group` channels are summed.

    Of each input channel there are `times` output channels, `c` in all.
    """
    rng, channels = np.random.default_rng(0), c // times
    x = rng.standard_normal((n, *size, channels + spare), np.float32)
    w = rng.standard_normal((*kernel, group, c), np.float32)
    bias = rng.standard_normal(c, np.float32)
    x[..., channels:] = np.nan
    stored, weights = x, w
    if kind == "half":
        stored, weights = x.astype(np.float16), w.astype(np.float16)
        x, w = stored.astype(np.float32), weights.astype(np.float32)
    elif kind == "bf16":
        stored = to_bf16(np.nan_to_num(x))
        x = from_bf16(stored)
    tx = torch.from_numpy(np.ascontiguousarray(x[..., :channels])).double().permute(0, 4, 1, 2, 3)
    edges = [e for pair in zip(reversed(before), reversed(after), strict=True) for e in pair]
    tw = torch.from_numpy(w).double().permute(4, 3, 0, 1, 2)
    want = torch.nn.functional.conv3d(
        torch.nn.functional.pad(tx, edges), tw, torch.from_numpy(bias).double(), stride, 0, dilation, channels // group
    ).permute(0, 2, 3, 4, 1)
    out = Guarded(tuple(want.shape), np.float32)
    params = Depthwise(n, c, channels + spare, size, want.shape[1:4], kernel, stride, dilation, before)
    numbers = Numbers()
    params.cpp(numbers)
    k, s, _ = params.special  # tiles of any size give the same answer: floats have one, what is narrow the other
    p, arrays = (ctypes.c_int64 * len(numbers))(*numbers.values), (stored, weights, bias, out.array)
    name, kinds = (f"run_{kind}", 10 * k + s) if group == 1 else ("run_groups", int(f"{k}{s}{group}"))
    if times > 1:
        name, kinds = f"times_{kind}", int(f"{k}{s}{times:02}")
    compile_snippet(PARTS[name], isa)[name](p, *map(pointer, arrays), kinds, 3)
    out.check()
    assert_close(out.array, want.numpy(), np.float32, scale=float(np.prod(kernel) * group) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 9])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_square(k: int, stride: int, isa: str) -> None:
    pad = (0, (k - 1) // 2, (k - 1) // 2)
    for c, h, w in ((32, 14, 14), (33, 9, 31), (5, 12, 8), (130, k, k)):
        _check(isa, 2, c, (1, h, w), (1, k, k), (1, stride, stride), before=pad, after=pad)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_uneven_padding_and_dilation(isa: str) -> None:
    _check(isa, 1, 40, (1, 11, 13), (1, 3, 3), (1, 2, 2), after=(0, 1, 1))  # TensorFlow's SAME
    _check(isa, 1, 40, (1, 11, 13), (1, 3, 5), before=(0, 3, 1), after=(0, 0, 9))
    for c in (17, 32):  # whole registers take two output rows at once
        _check(isa, 1, c, (1, 20, 21), (1, 3, 3), dilation=(1, 2, 3), before=(0, 2, 3), after=(0, 2, 3))
        _check(isa, 1, c, (1, 2, 2), (1, 5, 5), before=(0, 4, 4), after=(0, 4, 4))  # windows wholly outside
        _check(isa, 1, c, (1, 1, 3), (1, 1, 7), before=(0, 0, 12), after=(0, 0, 12))
        _check(isa, 1, c, (1, 3, 9), (1, 3, 3), (1, 2, 1), before=(0, 7, 1), after=(0, 6, 1))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_ranks_and_pixel_stride(isa: str) -> None:
    _check(isa, 2, 24, (1, 1, 50), (1, 1, 5), before=(0, 0, 2), after=(0, 0, 2))
    _check(isa, 2, 24, (5, 6, 19), (3, 3, 3), (2, 1, 1), (1, 2, 1), (1, 2, 1), (1, 2, 1))
    _check(isa, 2, 48, (5, 7, 19), (3, 3, 3), (2, 1, 1), before=(1, 1, 1), after=(1, 1, 1))
    _check(isa, 1, 50, (1, 8, 25), (1, 3, 3), before=(0, 1, 1), after=(0, 1, 1), spare=14)
    _check(isa, 1, 32, (2, 9, 9), (1, 3, 3), before=(1, 1, 1), after=(2, 1, 1))  # whole planes of padding


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_ends_of_rows(isa: str) -> None:
    """Tiles that begin before the one in front ends, and padding that is more or less than half a window."""
    for k, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)):
        half, strides = k // 2, (1, stride, stride)
        for before, after in ((half, half), (0, 0), (half, 0), (0, half), (half + 1, 1), (1, half + 1)):
            for width in (10, 23):
                _check(isa, 1, 48, (1, 7, width), (1, k, k), strides, before=(0, 1, before), after=(0, 1, after))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["half", "bf16"])
def test_storage(kind: str, isa: str) -> None:
    for c in (64, 21):
        _check(isa, 1, c, (1, 9, 18), (1, 3, 3), before=(0, 1, 1), after=(0, 1, 1), kind=kind)
        _check(isa, 1, c, (1, 9, 18), (1, 5, 5), (1, 2, 2), before=(0, 2, 2), after=(0, 2, 2), kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_groups(isa: str) -> None:
    one, lanes = (0, 1, 1), compile_snippet(PARTS["run_groups"], isa)["lanes"]()
    for c, spare in ((64, 0), (20, 0), (44, 4)):
        _check(isa, 2, c, (1, 9, 13), (1, 3, 3), before=one, after=one, spare=spare, group=4)
        _check(isa, 1, c, (1, 9, 13), (1, 2, 3), (1, 1, 2), (1, 2, 2), one, one, group=2)
        _check(isa, 1, c, (2, 6, 5), (2, 1, 1), group=2)
    if lanes >= 8:
        for c in (8, 40, 64):
            _check(isa, 1, c, (1, 12, 21), (1, 3, 3), (1, 2, 2), before=one, after=one, group=8)
    if lanes >= 16:
        for c in (16, 80):
            _check(isa, 1, c, (1, 12, 21), (1, 3, 3), (1, 2, 2), before=one, after=one, group=16)
            _check(isa, 2, c, (1, 9, 13), (1, 3, 3), before=one, after=one, spare=16, group=16)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["float", "half", "bf16"])
def test_several_filters_for_a_channel(kind: str, isa: str) -> None:
    one, lanes = (0, 1, 1), compile_snippet(PARTS["run_groups"], isa)["lanes"]()
    for c, spare in ((64, 0), (2, 0), (38, 3), (96, 8)):
        _check(isa, 2, c, (1, 9, 23), (1, 3, 3), (1, 2, 2), before=one, after=one, spare=spare, kind=kind, times=2)
        _check(isa, 1, c, (2, 9, 14), (2, 3, 3), before=one, after=one, spare=spare, kind=kind, times=2)
    for c in (40, 4, 32):
        _check(isa, 1, c, (1, 9, 13), (1, 2, 2), (1, 1, 2), (1, 2, 1), one, one, spare=5, kind=kind, times=4)
    if lanes >= 8:
        for c in (8, 72):
            _check(isa, 1, c, (1, 6, 16), (1, 4, 1), before=one, after=one, kind=kind, times=8)


@pytest.mark.parametrize(("width", "tile"), [(112, 8), (64, 8), (28, 7), (14, 7), (7, 7), (8, 8), (13, 7), (15, 8)])
def test_tiles_leave_few_lanes_without_a_pixel(width: int, tile: int) -> None:
    size = (1, width, width)
    same = Depthwise(1, 8, 8, size, size, (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1))
    assert same.special == (3, 1, tile)
