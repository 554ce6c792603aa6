"""Weights for images before nearest neighbours made them larger, beside torch's convolution of the large ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from migraphx.targets.common.upsampled import UpsampledWindow, summed
from tests.tolerances import assert_close

EVEN = [(times, kernel) for times in range(1, 5) for kernel in range(1, 8) if UpsampledWindow(times, kernel, 0).even]


@pytest.mark.parametrize(("times", "kernel"), EVEN)
def test_sums_of_weights(times: int, kernel: int) -> None:
    """In double: a convolution of repeated pixels is one of each phase's sums, put together."""
    rng = np.random.default_rng(times * 8 + kernel)
    x, w = rng.standard_normal((2, 3, 7)), rng.standard_normal((4, 3, kernel))
    before, behind = (kernel - 1) // 2, kernel // 2
    spread = UpsampledWindow(times, kernel, before)
    large = np.pad(np.repeat(x, times, 2), ((0, 0), (0, 0), (before, behind)))
    want = torch.nn.functional.conv1d(torch.from_numpy(large), torch.from_numpy(w)).numpy()
    weights = summed(w, [spread]).reshape(times, 4, 3, spread.taps)
    got = np.empty_like(want)
    small = torch.from_numpy(np.pad(x, ((0, 0), (0, 0), (spread.pad, 2 * spread.taps))))
    for phase in range(times):
        sums = torch.nn.functional.conv1d(small, torch.from_numpy(weights[phase])).numpy()
        late = (phase + spread.late) // times
        got[..., phase::times] = sums[..., late : late + x.shape[2]]
    assert_close(got, want)
