from typing import Any

import numpy as np
import pytest

from tests.ops.one_composite import run
from tests.tolerances import assert_close

rng = np.random.default_rng(2)
Z = (rng.standard_normal((2, 9, 3)) + 1j * rng.standard_normal((2, 9, 3))).astype(np.complex64)
PARTS = np.stack([Z.real, Z.imag], -1)


def dft(x: np.ndarray, **attributes: Any) -> np.ndarray:
    return run([x], lambda b, v: b.dft(v, **attributes))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [None, 4, 12])
@pytest.mark.parametrize("inverse", [False, True])
def test_complex(axis, length, inverse):
    want = (np.fft.ifft if inverse else np.fft.fft)(Z, length, axis)
    got = dft(PARTS, axis=axis, length=length, inverse=inverse)
    assert_close(got, np.stack([want.real, want.imag], -1).astype(np.float32), scale=4)


@pytest.mark.parametrize("length", [None, 7, 14])
def test_real_signals_and_back(length):
    want = np.fft.rfft(Z.real, length, 1)
    half = dft(PARTS[..., :1], axis=1, length=length, onesided=True)
    assert_close(half, np.stack([want.real, want.imag], -1).astype(np.float32), scale=4)
    back = dft(half, axis=1, length=length or 9, inverse=True, onesided=True)
    assert_close(back[..., 0], np.fft.irfft(want, length or 9, 1).astype(np.float32), scale=4)


def test_the_last_axis_holds_parts():
    with pytest.raises(ValueError, match="dft: axis 3"):
        dft(PARTS, axis=3)
