"""conv.hpp against torch in float64, both instruction sets."""

from __future__ import annotations

import ctypes
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, aligned, compile_snippet, pack, pointer
from tests.tolerances import assert_close

SOURCE = r"""
#include "conv.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
template <class T, class TA> void run(const Conv* c, const void* x, const void* w, void* y, int threads) {
    parallel(threads, conv_scratch(*c, sizeof(TA)), [&](const Team& t, char* s) {
        conv<T>(t, *c, static_cast<const TA*>(x), static_cast<const TA*>(w), Put<T>{static_cast<T*>(y), c->oc}, s);
    });
}
extern "C" {
int columns() { return NR; }
#define CONV(NAME, T, TA) \
    void NAME(const Conv* c, const void* x, const void* w, void* y, int threads) \
    { run<T, TA>(c, x, w, y, threads); }
CONV(conv_f32, float, float)
CONV(conv_f64, double, double)
CONV(conv_f16, float, half)
CONV(conv_s8, int32_t, int8_t)
}
"""
TYPES: dict[str, tuple[Any, Any]] = {
    "f32": (np.float32, np.float32),
    "f64": (np.float64, np.float64),
    "f16": (np.float16, np.float32),
    "s8": (np.int8, np.int32),
}


@dataclass(frozen=True)
class Case:
    """A convolution; spatial tuples have 1 to 3 axes, `after` is the padding at the end."""

    n: int
    ic: int
    oc: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    groups: int = 1
    gap: int = 0  # elements between pixels beyond ic


CASES = [
    Case(1, 3, 64, (20, 23), (7, 7), stride=2, before=3, after=3),
    Case(2, 3, 24, (9, 8), (3, 3), stride=2, before=0, after=1),
    Case(1, 3, 40, (32, 32), (16, 16), stride=16),
    Case(1, 1, 5, (2, 2), (5, 5), before=4, after=4),
    Case(1, 3, 33, (12, 13), (3, 3), before=1, after=1, gap=2),
    Case(1, 64, 64, (14, 14), (1, 1)),
    Case(2, 40, 70, (7, 9), (1, 1), stride=2),
    Case(1, 30, 65, (6, 7), (1, 1), before=1, after=2),
    Case(1, 70, 90, (11, 10), (3, 3), before=1, after=1),
    Case(2, 130, 33, (5, 6), (3, 3), stride=2, before=1, after=0),
    Case(1, 16, 20, (13, 13), (3, 3), dilation=2, before=2, after=3),
    Case(1, 12, 40, (17,), (5,), stride=2, before=2, after=1),
    Case(2, 20, 24, (40,), (3,), dilation=4, before=4, after=4, gap=5),
    Case(1, 6, 10, (5, 6, 7), (3, 2, 3), before=1, after=1),
    Case(1, 40, 34, (4, 5, 6), (3, 3, 3), stride=2, before=1, after=1),
    Case(1, 32, 64, (8, 8), (3, 3), before=1, after=1, groups=4),
    Case(2, 24, 120, (6, 5), (1, 1), groups=3),
    Case(1, 66, 66, (6, 5), (3, 3), before=1, after=1, groups=2, gap=1),
    Case(1, 100, 40, (14, 15), (3, 3), dilation=12, before=12, after=12),
    Case(2, 400, 36, (7, 9), (3, 3), dilation=6, before=6, after=6),
    Case(1, 1000, 20, (5, 6), (3, 3), dilation=4, before=4, after=4),
    Case(1, 40, 34, (3, 4), (2, 2), before=5, after=6),  # of some pixels every tap is outside
    Case(1, 40, 70, (2, 6, 5), (3, 3, 3), before=1, after=1),
    Case(1, 900, 40, (4, 4), (1, 1)),
    Case(1, 1000, 20, (3, 3), (3, 3), before=1, after=1),
]


def _three(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    return (fill,) * (3 - len(values)) + values


def _numbers(case: Case, out: tuple[int, ...]) -> list[int]:
    rank = len(case.size)
    axes = [
        _three(case.size, 1),
        _three(out, 1),
        _three(case.kernel, 1),
        _three((case.stride,) * rank, 1),
        _three((case.dilation,) * rank, 1),
        _three((case.before,) * rank, 0),
    ]
    return [case.n, case.ic, case.oc, case.groups, case.ic + case.gap, *(i for axis in axes for i in axis)]


def pack_weights(w: np.ndarray, groups: int, nr: int) -> np.ndarray:
    """(oc, icg, k...) -> [groups][panels][k...][icg][nr]."""
    oc, icg, *kernel = w.shape
    taps = int(np.prod(kernel))
    flat = w.reshape(groups, oc // groups, icg, taps).transpose(0, 3, 2, 1)
    return pack(flat.reshape(groups, taps * icg, oc // groups), nr)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, astuple(c))).replace(" ", ""))
def test_conv(isa: str, kind: str, case: Case) -> None:
    ta, tc = TYPES[kind]
    lib, rng, rank = compile_snippet(SOURCE, isa), np.random.default_rng(5), len(case.size)
    shape_x = (case.n, *case.size, case.ic)
    shape_w = (case.oc, case.ic // case.groups, *case.kernel)
    if kind == "s8":
        x, w = (rng.integers(-128, 127, shape, ta) for shape in (shape_x, shape_w))
    else:
        x, w = (rng.standard_normal(shape).astype(ta) for shape in (shape_x, shape_w))
    tx = torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float64))
    tx = torch.nn.functional.pad(tx, (case.before, case.after) * rank)
    call = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    tw = torch.from_numpy(w.astype(np.float64))
    want = np.moveaxis(call(tx, tw, None, case.stride, 0, case.dilation, case.groups).numpy(), 1, -1)
    wide = np.full((*x.shape[:-1], case.ic + case.gap), np.nan if kind != "s8" else 99, ta)
    wide[..., : case.ic] = x
    packed, numbers = pack_weights(w, case.groups, lib.columns()), _numbers(case, want.shape[1:-1])
    for threads in (1, 2, 3):
        wide_in, out = aligned(wide), Guarded(want.shape, tc)
        sizes = (ctypes.c_int64 * len(numbers))(*numbers)
        getattr(lib, f"conv_{kind}")(sizes, pointer(wide_in), pointer(packed), pointer(out.array), threads)
        out.check()
        assert_close(out.array, want, scale=max(1.0, np.sqrt(case.ic * np.prod(case.kernel)) / 32))
