"""planar.hpp against torch in float64, both instruction sets."""

from __future__ import annotations

import ctypes
from dataclasses import astuple, dataclass

import numpy as np
import pytest
import torch

from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.structs import Planar
from migraphx.targets.cpu.pack.conv import pack_planar
from tests.targets.cpu.kernels.harness import ISAS, Guarded, compile_snippet, pointer
from tests.tolerances import assert_close

SOURCE = r"""
#include "planar.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
struct Long : Put<float> {};
struct Short : Put<float> {
    static constexpr bool in_registers = true;
};
template <int K, int S, int FEW, int MANY, class Epi>
void run(const Planar& p, const float* x, const float* w, float* y, int threads) {
    parallel(threads, planar_scratch<K, S, FEW, MANY>(p), [&](const Team& t, char* scratch) {
        planar<K, S, FEW, MANY>(t, p, x, w, Epi{{y, p.oc}}, scratch);
    });
}
extern "C" int columns() { return NR; }
extern "C" void run_planar(
    const Planar* p, const float* x, const float* w, float* y, int k, int s, bool brief, int threads) {
#define WAY(K, S, FEW, MANY) \
    if (k == K && s == S) { \
        if (brief) run<K, S, FEW, MANY, Short>(*p, x, w, y, threads); \
        else run<K, S, FEW, MANY, Long>(*p, x, w, y, threads); \
    }
    WAY(3, 2, 6, 14) WAY(7, 2, 5, 8) WAY(2, 3, 4, 9) WAY(1, 1, 6, 13)
}
"""


@dataclass(frozen=True)
class Case:
    """A convolution of a picture; `before` and `after`: padding of both axes; `gap`: elements behind each row."""

    n: int
    ic: int
    oc: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)
    gap: int = 0


CASES = [
    Case(1, 3, 32, (40, 61), (3, 3), (2, 2), (1, 1), (1, 1)),
    Case(2, 3, 24, (9, 8), (3, 3), (2, 2), (0, 0), (1, 1), gap=3),
    Case(1, 4, 70, (33, 40), (7, 7), (2, 2), (3, 3), (3, 3)),
    Case(3, 1, 17, (8, 29), (5, 2), (1, 3), (2, 1), (0, 2)),
    Case(1, 2, 5, (1, 2), (3, 3), (2, 2), (4, 9), (5, 30)),  # some tiles and rows lie outside altogether
    Case(1, 3, 33, (6, 45), (1, 1), (1, 1)),
    Case(2, 3, 16, (4, 6), (3, 1), (2, 1), (0, 2), (3, 1), gap=1),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, astuple(c))).replace(" ", ""))
def test_planar(isa: str, brief: bool, case: Case) -> None:
    lib, rng, (h, w) = compile_snippet(SOURCE, isa), np.random.default_rng(3), case.size
    wide = np.full((case.n, case.ic, h, w + case.gap), np.nan, np.float32)
    x = wide[..., :w]
    x[...] = rng.standard_normal(x.shape)
    weights = rng.standard_normal((case.oc, case.ic, *case.kernel), np.float32)
    (top, left), (bottom, right) = case.before, case.after
    padded = torch.nn.functional.pad(torch.from_numpy(x.astype(np.float64)), (left, right, top, bottom))
    want = torch.conv2d(padded, torch.from_numpy(weights.astype(np.float64)), None, case.stride).permute(0, 2, 3, 1)
    image, plane, row, _ = (s // 4 for s in wide.strides)
    _, out_h, out_w, _ = want.shape
    kernel, stride = case.kernel[0], case.stride[0]
    params = Planar(case.n, case.ic, case.oc, image, plane, row, h, w, out_h, out_w, kernel, stride, top, left)
    numbers, packed = Numbers(), pack_planar(weights, lib.columns())
    params.cpp(numbers)
    sizes = (ctypes.c_int64 * len(numbers))(*numbers.values)
    for threads in (1, 2, 3):
        out = Guarded(tuple(want.shape), np.float32)
        k, s, y = case.kernel[1], case.stride[1], pointer(out.array)
        lib.run_planar(sizes, pointer(wide), pointer(packed), y, k, s, brief, threads)
        out.check()
        assert_close(out.array, want.numpy())


def test_tiles_suit_rows() -> None:
    def tiles(width: int) -> tuple[int, int]:
        return Planar(1, 3, 32, 0, 0, 0, 0, 0, 0, width, 3, 2, 1, 1).tiles

    assert tiles(112) == (6, 14)  # 19 tiles, the last of 4 pixels, and 8
    assert tiles(160) == (6, 10)
    assert tiles(8) == (4, 8)
    assert tiles(1) == (4, 8)
