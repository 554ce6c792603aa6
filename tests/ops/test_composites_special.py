"""Special functions in double against torch, at ordinary and at extreme arguments."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.ops.one_composite import run
from tests.tolerances import assert_close

S = torch.special
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bessel_i0e": S.i0e,
    "bessel_i1e": S.i1e,
    "bessel_k0": S.modified_bessel_k0,
    "bessel_k0e": S.scaled_modified_bessel_k0,
    "bessel_k1": S.modified_bessel_k1,
    "bessel_k1e": S.scaled_modified_bessel_k1,
    "spherical_bessel_j0": S.spherical_bessel_j0,
    "erfc": S.erfc,
    "erfcx": S.erfcx,
    "log_ndtr": S.log_ndtr,
}
NARROW = {"bessel_j0": S.bessel_j0, "bessel_j1": S.bessel_j1, "bessel_y0": S.bessel_y0, "bessel_y1": S.bessel_y1}
"""Of which torch knows six digits only."""
SIZES = np.logspace(-30, 2.8, 60)
X = np.concatenate([np.linspace(-30, 30, 401), SIZES, -SIZES, [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0, 8.0]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_torchs(name: str) -> None:
    with np.errstate(all="ignore"):
        got = run([X], lambda b, x: getattr(b, name)(x))
    want = FUNCTIONS[name](torch.from_numpy(X)).numpy()
    assert_close(
        got[np.isfinite(want)] / np.where(want == 0, 1, want)[np.isfinite(want)],
        np.sign(np.abs(want[np.isfinite(want)])),
    )
    np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])


@pytest.mark.parametrize("name", NARROW)
def test_as_torchs_to_six_digits(name: str) -> None:
    x = np.linspace(0.01, 60, 400)
    with np.errstate(all="ignore"):
        got = run([x], lambda b, x: getattr(b, name)(x))
    assert_close(got.astype(np.float32), NARROW[name](torch.from_numpy(x)).numpy().astype(np.float32), scale=4)


def test_infinite_where_torch_has_nan() -> None:
    x = np.array([math.inf, -math.inf, 700.0, -700.0])
    np.testing.assert_array_equal(run([x], lambda b, x: b.bessel_i0(x))[:2], [math.inf, math.inf])
    np.testing.assert_array_equal(run([x], lambda b, x: b.bessel_i1(x))[:2], [math.inf, -math.inf])
    assert_close(run([x], lambda b, x: b.bessel_i0(x))[2:], torch.i0(torch.from_numpy(x)).numpy()[2:], scale=8)


def test_ndtri() -> None:
    p = np.concatenate([np.linspace(0.01, 0.99, 100), np.logspace(-300, -3, 60), [0.0, 1.0, -1.0, 2.0, math.nan]])
    with np.errstate(all="ignore"):
        got = run([p], lambda b, x: b.ndtri(x))
    assert_close(got, S.ndtri(torch.from_numpy(p)).numpy(), scale=8)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_polygamma(n: int) -> None:
    x = np.concatenate([np.linspace(-4.03, 30, 300), [0.0, -1.0, -2.0, 1e8, math.nan]])
    with np.errstate(all="ignore"):
        got = run([x], lambda b, x: b.polygamma(x, n=n))
    want = torch.polygamma(n, torch.from_numpy(x)).numpy()
    finite = np.isfinite(want)
    assert_close(got[finite] / want[finite], np.ones(finite.sum()), scale=64)
    np.testing.assert_array_equal(got[~finite], want[~finite])
