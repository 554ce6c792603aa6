"""Ranges from histograms: against exhaustive search and NumPy on samples."""

import numpy as np
import pytest
import torch
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from torch_migraphx.fx.quantization import (
    get_migraphx_backend_config,
    get_migraphx_qconfig,
    get_migraphx_qconfig_mapping,
)
from torch_migraphx.fx.quantization.calibration import RANGES, Histogram
from torch_migraphx.fx.quantization.observer import CalibratedObserver

RNG = np.random.default_rng(0)
LAPLACE = RNG.laplace(size=60000)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def histogram(values: np.ndarray, parts: int = 4) -> Histogram:
    found = Histogram()
    for part in np.array_split(values, parts):
        found.add(part)
    return found


def error(values: np.ndarray, low: float, high: float, levels: int) -> float:
    step = (high - low) / (levels - 1)
    codes = np.clip(np.rint((values - low) / step), 0, levels - 1)
    return float(((low + codes * step - values) ** 2).mean())


def test_a_histogram_that_grows_counts_everything():
    found = histogram(np.sort(LAPLACE), 7)
    assert found.counts.sum() == pytest.approx(len(LAPLACE))
    assert (found.low, found.high) == (LAPLACE.min(), LAPLACE.max())
    below = found.counts[found.centers < 1].sum() / len(LAPLACE)
    assert below == pytest.approx((LAPLACE < 1).mean(), abs=0.01)


@pytest.mark.parametrize("levels", [16, 256])
def test_least_squared_error_is_that_of_a_search(levels):
    low, high = RANGES["mse"](histogram(LAPLACE), levels, True)
    tops = np.linspace(0.05, 1, 60) * np.abs(LAPLACE).max()
    best = min(error(LAPLACE, -t, t, levels) for t in tops)
    assert low == -high and error(LAPLACE, low, high, levels) < 1.05 * best
    assert high < 0.98 * np.abs(LAPLACE).max()


def test_percentiles_are_those_of_the_values():
    low, high = RANGES["percentile"](histogram(LAPLACE), 256, False, 99.0)
    np.testing.assert_allclose([low, high], np.percentile(LAPLACE, [0.5, 99.5]), atol=0.05)
    assert RANGES["percentile"](histogram(LAPLACE), 256, True, 99.0)[1] == pytest.approx(
        np.percentile(np.abs(LAPLACE), 99.0), abs=0.05
    )


def test_entropy_cuts_off_a_tail_and_nothing_else():
    """A few values far away cost a bit of all others; values of one kind are kept."""
    uniform = RNG.uniform(-1, 1, 50000)
    assert RANGES["entropy"](histogram(uniform), 256, True)[1] == pytest.approx(1, abs=0.02)
    with_outliers = np.append(uniform, [40.0, -40.0])
    assert RANGES["entropy"](histogram(with_outliers), 256, True)[1] < 10
    assert RANGES["entropy"](histogram(np.abs(uniform)), 256, False)[0] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("method", RANGES)
def test_a_constant_and_zero_have_a_range(method):
    for value in (0.0, 3.0):
        low, high = RANGES[method](histogram(np.full(10, value)), 256, True)
        assert np.isfinite([low, high]).all()


@pytest.mark.parametrize("method", RANGES)
def test_in_the_workflow_of_the_documents(method):
    torch.manual_seed(0)
    model, x = (
        torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval(),
        torch.randn(200, 16),
    )
    mapping, backend = get_migraphx_qconfig_mapping(calibration=method), get_migraphx_backend_config()
    prepared = prepare_fx(model, mapping, (x,), backend_config=backend)
    prepared(x)
    quantized = convert_fx(prepared, backend_config=backend)
    assert (quantized(x) - model(x)).norm() < 0.08 * model(x).norm()


def test_what_is_refused():
    with pytest.raises(ValueError, match="minmax, percentile, mse, entropy"):
        get_migraphx_qconfig(calibration="best")
    with pytest.raises(ValueError, match="has seen no data"):
        CalibratedObserver(dtype=torch.qint8).calculate_qparams()
    with pytest.raises(ValueError, match="not finite"):
        CalibratedObserver(dtype=torch.qint8)(torch.tensor([1.0, float("nan")]))
