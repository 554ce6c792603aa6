"""resize.hpp against torch's interpolate in float64."""

import ctypes

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, compile_snippet, pointer
from tests.tolerances import assert_close

SOURCE = r"""
#include "resize.hpp"
#include "put.hpp"
#include <omp.h>
#include <vector>
using namespace mgx;
#define RUN(NAME, TAPS, T) \
    extern "C" void NAME(const Resize* p, const T* x, const Samples<TAPS>* h, \
                         const Samples<TAPS>* w, float* y) { \
        _Pragma("omp parallel num_threads(2)") \
        resize<TAPS>(Team{omp_get_thread_num(), 2}, *p, x, *h, *w, Put{y, p->c}); \
    }
RUN(nearest_float32, 1, float)
RUN(linear_float32, 2, float)
RUN(linear_float16, 2, half)
RUN(cubic_float32, 4, float)
#define PLANES(NAME, TAPS, T) \
    extern "C" void planes_##NAME(const Resize* p, const T* x, const Samples<TAPS>* h, \
                                  const Samples<TAPS>* w, float* y) { \
        _Pragma("omp parallel num_threads(2)") { \
            const Team t{omp_get_thread_num(), 2}; \
            std::vector<char> scratch(planes_scratch<TAPS>(*p)); \
            resize_planes<TAPS>(t, *p, x, *h, *w, Put{y, p->out_w}, scratch.data()); \
        } \
    }
PLANES(nearest_float32, 1, float)
PLANES(linear_float32, 2, float)
PLANES(linear_float16, 2, half)
PLANES(cubic_float32, 4, float)
"""


class Taps(ctypes.Structure):
    _fields_ = [("index", ctypes.c_void_p), ("weight", ctypes.c_void_p)]


class Params(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("n", "c", "out_h", "out_w", "x_n", "x_h", "x_w")]


def _taps(mode: str, size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights of pixel centres (half_pixel; nearest: asymmetric, floor), as torch has them."""
    o = np.arange(out)
    if mode == "nearest":
        return (o * size // out)[:, None].astype(np.int64), np.full((out, 1), np.nan, np.float32)
    at = (o + 0.5) * size / out - 0.5
    if mode == "linear":
        at = np.maximum(at, 0)
        low = np.floor(at)
        index, t = low[:, None] + [0, 1], at - low
        weight = np.stack([1 - t, t], 1)
    else:
        low, a = np.floor(at), -0.75
        index = low[:, None] + [-1, 0, 1, 2]
        d = np.abs(at[:, None] - index)
        inner, outer = ((a + 2) * d - (a + 3)) * d * d + 1, a * (((d - 5) * d + 8) * d - 4)
        weight = np.where(d <= 1, inner, outer)
    return np.clip(index, 0, size - 1).astype(np.int64), weight.astype(np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("c", [3, 16, 67])
@pytest.mark.parametrize("out", [(14, 22), (5, 40), (3, 4), (1, 1)])
def test_against_torch(mode: str, c: int, out: tuple[int, int], isa: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float16):
        if dtype == np.float16 and mode != "linear":
            continue
        x = rng.standard_normal((2, 7, 11, c + 2)).astype(dtype)[..., :c]
        n, h, w, _ = x.shape
        tx = torch.from_numpy(x.astype(np.float64)).permute(0, 3, 1, 2)
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        want = torch.nn.functional.interpolate(tx, out, mode=name).permute(0, 2, 3, 1).numpy()
        steps = [s // x.itemsize for s in x.strides]
        params = Params(n, c, *out, *steps[:3])
        (ih, wh), (iw, ww) = _taps(mode, h, out[0]), _taps(mode, w, out[1])
        taps = [Taps(i.ctypes.data, v.ctypes.data) for i, v in ((ih, wh), (iw, ww))]
        result = Guarded((n, *out, c), np.float32)
        call = compile_snippet(SOURCE, isa)[f"{mode}_{np.dtype(dtype)}"]
        call(ctypes.byref(params), pointer(x), ctypes.byref(taps[0]), ctypes.byref(taps[1]), pointer(result.array))
        result.check()
        assert_close(result.array, want, np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [(5, 7), (9, 30), (1, 1), (4, 16)])
@pytest.mark.parametrize("out", [(10, 14), (13, 61), (7, 33), (3, 4), (1, 1), (20, 5)])
def test_planes_against_torch(mode: str, size: tuple[int, int], out: tuple[int, int], isa: str) -> None:
    """Fewer columns than a register has, as many, and more; columns near each other and far apart."""
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float16) if mode == "linear" else (np.float32,):
        x = np.asarray(rng.standard_normal((3, *size)), dtype)
        name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        want = torch.nn.functional.interpolate(torch.from_numpy(x.astype(np.float64))[None], out, mode=name)[0].numpy()
        params = Params(3, 1, *out, size[0] * size[1], size[1], 1)
        samples = [_taps(mode, n, m) for n, m in zip(size, out, strict=True)]
        taps = [Taps(i.ctypes.data, v.ctypes.data) for i, v in samples]
        result = Guarded((3, *out), np.float32)
        call = compile_snippet(SOURCE, isa)[f"planes_{mode}_{np.dtype(dtype)}"]
        call(ctypes.byref(params), pointer(x), ctypes.byref(taps[0]), ctypes.byref(taps[1]), pointer(result.array))
        result.check()
        assert_close(result.array, want, np.float32)
