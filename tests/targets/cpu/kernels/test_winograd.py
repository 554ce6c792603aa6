"""winograd.hpp against torch in float64, both instruction sets; errors are relative to the largest output."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest
import torch

from tests.targets.cpu.kernels.harness import ISAS, Guarded, aligned, compile_snippet, pack, pointer
from tests.tiers import few
from tests.tolerances import relative_error

SOURCE = r"""
#include "winograd.hpp"
#include "parallel.hpp"
#include "put.hpp"
using namespace mgx;
extern "C" {
int columns() { return NR; }
void run(const Conv* c, const float* x, const float* u, float* y, int threads, bool taps) {
    const int64_t bytes = taps ? winograd_of_taps_scratch(*c) : winograd_scratch(*c);
    parallel(threads, bytes, [&](const Team& t, char* s) {
        if (taps)
            winograd_of_taps(t, *c, x, u, Put{y, c->oc}, s);
        else
            winograd(t, *c, x, u, Put{y, c->oc}, s);
    });
}
}
"""
P, Q = 5 / 8, 3 / 2
II, JJ = 2 * P**2 * (P**2 - Q**2), 2 * Q**2 * (Q**2 - P**2)
G = np.array(
    [
        [1 / (P * Q) ** 2, 0, 0],
        [1 / II, P / II, P**2 / II],
        [1 / II, -P / II, P**2 / II],
        [1 / JJ, Q / JJ, Q**2 / JJ],
        [1 / JJ, -Q / JJ, Q**2 / JJ],
        [0, 0, 1],
    ]
)
# n, height, width, ic, oc, padding before, padding after, elements between pixels beyond ic
CASES = [
    (1, 56, 56, 64, 64, 1, 1, 0),
    (1, 28, 28, 128, 32, 1, 1, 0),
    (1, 14, 14, 256, 70, 1, 1, 0),
    (2, 7, 7, 512, 33, 1, 1, 0),
    (1, 9, 5, 101, 100, 1, 1, 3),
    (3, 4, 4, 16, 16, 0, 0, 0),
    (1, 8, 7, 150, 70, 1, 1, 3),
    (1, 3, 3, 1, 1, 0, 0, 1),
    (1, 6, 13, 20, 40, 2, 0, 0),
    (1, 1, 1, 5, 7, 1, 1, 0),
    (2, 11, 30, 33, 65, 0, 2, 5),
]


# n, frames, height, width, ic, oc, the kernel's frames, their stride, dilation, padding before and behind, gap
FRAMES = [
    (1, 8, 56, 56, 64, 64, 3, 1, 1, 1, 1, 0),
    (2, 4, 14, 13, 37, 70, 3, 1, 1, 1, 1, 3),
    (1, 2, 7, 9, 20, 33, 3, 1, 1, 1, 1, 0),
    (2, 5, 6, 5, 16, 16, 2, 2, 1, 0, 1, 0),
    (1, 7, 9, 4, 5, 20, 5, 2, 2, 3, 5, 1),
    (1, 3, 5, 6, 18, 24, 1, 2, 1, 1, 0, 0),
    (1, 2, 4, 4, 9, 17, 2, 1, 1, 4, 3, 0),  # some frames are made of padding alone
]


def transform_weights(w: np.ndarray, nr: int) -> np.ndarray:
    """(oc, ic, 3, 3) -> [36][panels][ic][nr]."""
    oc, ic = w.shape[:2]
    u = np.einsum("ai,ocij,bj->abco", G, w.astype(np.float64), G)
    return pack(u.reshape(36, ic, oc).astype(np.float32), nr)


def taps(w: np.ndarray, nr: int) -> np.ndarray:
    """(oc, ic, 3, 3) -> [ic / 64][panels][64][9][nr]; the last part of ic is as long as it is."""
    parts = (w[:, k : k + 64].reshape(len(w), -1, 9) for k in range(0, w.shape[1], 64))
    return aligned(np.concatenate([pack(part.transpose(2, 1, 0), nr).transpose(1, 2, 0, 3).ravel() for part in parts]))


def check(got: np.ndarray, want: np.ndarray) -> None:
    """What is not finite stands where it should; the rest is close to the largest output."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want))
    finite = np.isfinite(want)
    assert finite.any() and relative_error(got[finite], want[finite]) <= 5e-6


PACKINGS = {"places": transform_weights, "taps": taps}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_winograd(isa: str, case: tuple[int, ...]) -> None:
    n, height, width, ic, oc, before, after, gap = case
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(7)
    x = rng.standard_normal((n, height, width, ic)).astype(np.float32)
    w = rng.standard_normal((oc, ic, 3, 3)).astype(np.float32)
    tx = torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float64))
    tx = torch.nn.functional.pad(tx, (before, after) * 2)
    want = np.moveaxis(torch.conv2d(tx, torch.from_numpy(w.astype(np.float64))).numpy(), 1, -1)
    wide = np.full((n, height, width, ic + gap), np.nan, np.float32)
    wide[..., :ic] = x
    spatial = [1, height, width, 1, *want.shape[1:3], 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, before, before]
    numbers = [n, ic, oc, 1, ic + gap, *spatial]
    for threads, kind in product((1, 2, 3), PACKINGS):
        source, out = aligned(wide), Guarded(want.shape, np.float32)
        sizes, packed = (ctypes.c_int64 * len(numbers))(*numbers), PACKINGS[kind](w, lib.columns())
        lib.run(sizes, pointer(source), pointer(packed), pointer(out.array), threads, kind == "taps")
        out.check()
        assert relative_error(out.array, want) <= 5e-6


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("special", few([False, True], False), ids=["finite", "special"])
@pytest.mark.parametrize("case", FRAMES, ids=str)
def test_frames(isa: str, case: tuple[int, ...], special: bool) -> None:
    """3-D kernels of k0 x 3 x 3; NaN and infinities reach the pixels that read them."""
    n, frames, height, width, ic, oc, kernel, stride, dilation, before, behind, gap = case
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(13)
    x = rng.standard_normal((n, frames, height, width, ic)).astype(np.float32)
    if special:
        x = np.where(rng.random(x.shape) < 0.01 / ic, rng.choice(np.array([np.nan, np.inf], np.float32), x.shape), x)
    w = rng.standard_normal((oc, ic, kernel, 3, 3)).astype(np.float32)
    tx, tw = torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float64)), torch.from_numpy(w.astype(np.float64))
    tx = torch.nn.functional.pad(tx, (1, 1, 1, 1, before, behind))
    want = np.moveaxis(torch.conv3d(tx, tw, None, (stride, 1, 1), 0, (dilation, 1, 1)).numpy(), 1, -1)
    wide = np.full((*x.shape[:-1], ic + gap), np.nan, np.float32)
    wide[..., :ic] = x
    spatial = [frames, height, width, *want.shape[1:4], kernel, 3, 3, stride, 1, 1, dilation, 1, 1, before, 1, 1]
    numbers = [n, ic, oc, 1, ic + gap, *spatial]
    packed = transform_weights(w.swapaxes(1, 2).reshape(oc, kernel * ic, 3, 3), lib.columns())
    for threads in (1, 2, 3):
        source, out = aligned(wide), Guarded(want.shape, np.float32)
        sizes = (ctypes.c_int64 * len(numbers))(*numbers)
        lib.run(sizes, pointer(source), pointer(packed), pointer(out.array), threads, False)
        out.check()
        check(out.array, want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize("kind", PACKINGS)
def test_values_that_are_not_finite(isa: str, share: float, kind: str) -> None:
    """NaN and infinities reach what a direct convolution lets them reach."""
    lib, rng = compile_snippet(SOURCE, isa), np.random.default_rng(11)
    n, height, width, ic, oc = 2, 13, 18, 20, 37
    x = rng.standard_normal((n, height, width, ic)).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    x = np.where(rng.random(x.shape) < share / ic, rng.choice(special, x.shape), x)
    w = rng.standard_normal((oc, ic, 3, 3)).astype(np.float32)
    tx, tw = torch.from_numpy(np.moveaxis(x, -1, 1).astype(np.float64)), torch.from_numpy(w.astype(np.float64))
    want = np.moveaxis(torch.conv2d(tx, tw, padding=1).numpy(), 1, -1)
    numbers = [n, ic, oc, 1, ic, 1, height, width, 1, height, width, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 1]
    out, source = Guarded(want.shape, np.float32), aligned(x)
    sizes, packed = (ctypes.c_int64 * len(numbers))(*numbers), PACKINGS[kind](w, lib.columns())
    lib.run(sizes, pointer(source), pointer(packed), pointer(out.array), 2, kind == "taps")
    out.check()
    check(out.array, want)
