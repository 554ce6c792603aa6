"""pooling.hpp against torch and NumPy in float64."""

import ctypes
import itertools

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, compile_snippet, pointer
from tests.tolerances import assert_close

SOURCE = r"""
#include "parallel.hpp"
#include "pooling.hpp"
#include "put.hpp"
using namespace mgx;
template <class Kind, class T> void run(const Pool* p, const T* x, void* y, int threads) {
    using A = pooling::Sum<T>;
    parallel(threads, 0, [&](const Team& t, char*) { pool<Kind>(t, *p, x, Put<A>{static_cast<A*>(y), p->c}); });
}
#define RUN(NAME, KIND, T) \
    extern "C" void NAME(const Pool* p, const T* x, void* y, int threads) { run<KIND>(p, x, y, threads); }
RUN(max_float32, PoolMax, float)
RUN(max_float16, PoolMax, half)
RUN(max_float64, PoolMax, double)
RUN(max_int8, PoolMax, int8_t)
RUN(max_uint8, PoolMax, uint8_t)
RUN(max_int64, PoolMax, int64_t)
RUN(average_float32, PoolAverage, float)
RUN(average_float16, PoolAverage, half)
RUN(average_float64, PoolAverage, double)
RUN(lp_float32, PoolLp, float)
RUN(lp_float64, PoolLp, double)
"""
Three = tuple[int, int, int]
ONE: Three = (1, 1, 1)
NONE: Three = (0, 0, 0)


class Params(ctypes.Structure):
    _fields_ = (
        [("n", ctypes.c_int64), ("c", ctypes.c_int64), ("x_n", ctypes.c_int64)]
        + [(n, ctypes.c_int64 * 3) for n in ("x_step", "in_", "out", "kernel", "stride", "dilation", "pad", "pad_end")]
        + [("divisor", ctypes.c_int64), ("count_pad", ctypes.c_bool), ("p", ctypes.c_double)]
    )  # fmt: skip


def run(
    isa: str,
    kind: str,
    x: np.ndarray,
    out: Three,
    kernel: Three,
    stride: Three = ONE,
    dilation: Three = ONE,
    pad: Three = NONE,
    pad_end: Three = NONE,
    divisor: int = 0,
    count_pad: bool = False,
    p: float = 2,
) -> np.ndarray:
    """x [n, in0, in1, in2, c] in any layout with contiguous channels."""
    three = ctypes.c_int64 * 3
    steps = [s // x.itemsize for s in x.strides]
    params = Params(x.shape[0], x.shape[4], steps[0], three(*steps[1:4]), three(*x.shape[1:4]), three(*out))
    for field, value in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        setattr(params, field, three(*value))
    params.pad, params.pad_end, params.divisor = three(*pad), three(*pad_end), divisor
    params.count_pad, params.p = count_pad, p
    result = Guarded((x.shape[0], *out, x.shape[4]), np.float32 if x.dtype == np.float16 else x.dtype)
    call = compile_snippet(SOURCE, isa)[f"{kind}_{x.dtype}"]
    call(ctypes.byref(params), pointer(x), pointer(result.array), 2)
    result.check()
    return result.array


def _torch(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, 4, 1))).double()


def _last(y: torch.Tensor) -> np.ndarray:
    return np.moveaxis(y.numpy(), 1, 4)


def _outs(want: np.ndarray) -> Three:
    return (want.shape[1], want.shape[2], want.shape[3])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("c", [1, 16, 52, 67, 130])
@pytest.mark.parametrize("ceil", [False, True])
def test_against_torch(c: int, ceil: bool, isa: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.float16):
        x = rng.standard_normal((2, 3, 11, 14, c)).astype(dtype)
        size: tuple[Three, Three, Three] = ((1, 3, 3), (1, 2, 2), (0, 1, 1))
        k, s, pad = size
        want = _last(torch.nn.functional.max_pool3d(_torch(x), k, s, pad, ceil_mode=ceil))
        assert_close(run(isa, "max", x, _outs(want), k, s, pad=pad, pad_end=pad), want, dtype)
        for count in (False, True):
            want = _last(torch.nn.functional.avg_pool3d(_torch(x), k, s, pad, ceil, count))
            got = run(isa, "average", x, _outs(want), k, s, pad=pad, pad_end=pad, count_pad=count)
            assert_close(got, want, dtype)
        want = _last(torch.nn.functional.avg_pool3d(_torch(x), (2, 3, 2), 1, 0, False, True, 5))
        assert_close(run(isa, "average", x, _outs(want), (2, 3, 2), divisor=5), want, dtype)


@pytest.mark.parametrize("isa", ISAS)
def test_dilation_nan_and_global(isa: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 1, 13, 17, 70), np.float32)
    x[0, 0, 3, 4, 5], x[1, 0, 0, 0, 69], x[0, 0, 9, 9, 1] = np.nan, np.inf, -np.inf
    want = _last(torch.nn.functional.max_pool3d(_torch(x), (1, 3, 2), (1, 2, 3), (0, 1, 1), (1, 2, 3)))
    got = run(isa, "max", x, _outs(want), (1, 3, 2), (1, 2, 3), (1, 2, 3), (0, 1, 1), (0, 1, 1))
    np.testing.assert_array_equal(got, want)
    assert_close(run(isa, "max", x, ONE, (1, 13, 17)), x.max((1, 2, 3), keepdims=True), np.float32)
    y = rng.standard_normal((3, 1, 7, 7, 1000), np.float32)
    assert_close(run(isa, "average", y, ONE, (1, 7, 7)), y.mean((1, 2, 3), keepdims=True, dtype=np.float64))
    view = y[:, :, 1:6, ::2, 3:90]  # a slice: pixels and rows are not dense
    assert_close(run(isa, "average", view, ONE, (1, 5, 4)), view.mean((1, 2, 3), keepdims=True, dtype=np.float64))


def _windows(x: np.ndarray, kernel: Three, stride: Three, before: Three, after: Three, fill: float) -> np.ndarray:
    """[n, out0, out1, out2, c, taps]: a plain reading of what pooling is."""
    pads = [(0, 0), *zip(before, after, strict=True), (0, 0)]
    wide = np.pad(x, pads, constant_values=fill)
    taps = []
    for at in itertools.product(*(range(k) for k in kernel)):
        index = [slice(a, wide.shape[1 + d] - kernel[d] + a + 1, stride[d]) for d, a in enumerate(at)]
        taps.append(wide[:, index[0], index[1], index[2]])
    return np.stack(taps, -1)


@pytest.mark.parametrize("isa", ISAS)
def test_uneven_padding(isa: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 9, 8, 33), np.float32)
    k: Three = (2, 3, 2)
    s, a, b = (1, 2, 1), (0, 2, 1), (1, 0, 0)
    w = _windows(x, k, s, a, b, np.nan).astype(np.float64)
    out = (w.shape[1], w.shape[2], w.shape[3])
    assert_close(run(isa, "max", x, out, k, s, pad=a, pad_end=b), np.nanmax(w, -1), np.float32)
    assert_close(run(isa, "average", x, out, k, s, pad=a, pad_end=b), np.nanmean(w, -1), np.float32)
    got = run(isa, "average", x, out, k, s, pad=a, pad_end=b, count_pad=True)
    assert_close(got, np.nansum(w, -1) / 12, np.float32)


@pytest.mark.parametrize("isa", ISAS)
def test_average_of_padding_alone_is_zero(isa: str) -> None:
    x = np.ones((1, 1, 1, 1, 9), np.float32)
    got = run(isa, "average", x, (1, 1, 2), (1, 1, 1), (1, 1, 1), pad=(0, 0, 1))
    np.testing.assert_array_equal(got[0, 0, 0], [[0] * 9, [1] * 9])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("p", [1, 2, 3, 2.5])
def test_lp(p: float, isa: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 1, 9, 8, 33), np.float32)
    w = np.abs(_windows(x, (1, 3, 2), (1, 2, 1), (0, 1, 0), (0, 1, 0), 0).astype(np.float64))
    want = (w**p).sum(-1) ** (1 / p)
    for dtype in (np.float32, np.float64):
        got = run(isa, "lp", x.astype(dtype), _outs(want), (1, 3, 2), (1, 2, 1), pad=(0, 1, 0), p=p)
        assert_close(got, want, np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_integer_max(dtype: str, isa: str) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, (1, 1, 6, 9, 75), dtype, True)
    w = _windows(x, (1, 3, 3), (1, 1, 1), (0, 1, 1), (0, 1, 1), info.min)
    got = run(isa, "max", x, _outs(w), (1, 3, 3), pad=(0, 1, 1), pad_end=(0, 1, 1))
    np.testing.assert_array_equal(got, w.max(-1))
