"""Ranges of values from histograms of them: what a few codes can tell apart, and what is cut off.

Sources: entropy is S. Migacz, 8-bit Inference with TensorRT (GTC 2017); percentile and mean squared error as in H. Wu
et al., Integer Quantization for Deep Learning Inference (2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

BINS = 2048
CANDIDATES = np.linspace(0.02, 1.0, 99)
PERCENTILE = 99.99


class Histogram:
    """How often values occur, in bins of one width over their range, which grows as values come."""

    def __init__(self, bins: int = BINS) -> None:
        self.counts = np.zeros(bins)
        self.low, self.high = np.inf, -np.inf

    def add(self, values: np.ndarray) -> None:
        """Count values; ValueError where one is not finite."""
        if not values.size:
            return
        values = values.reshape(-1)
        low, high = float(values.min()), float(values.max())
        if not np.isfinite([low, high]).all():
            raise ValueError("calibration: a value is not finite")
        centers, counts, seen = self.centers, self.counts, self.seen
        self.low, self.high = min(self.low, low), max(self.high, high)
        span = (self.low, self.high if self.high > self.low else self.low + 1e-12 + abs(self.low) * 1e-6)
        self.counts = np.histogram(values, len(counts), span)[0].astype(np.float64)
        if seen:
            self.counts += np.histogram(centers, len(counts), span, weights=counts)[0]

    @property
    def seen(self) -> bool:
        """Whether there were values."""
        return self.low <= self.high

    @property
    def centers(self) -> np.ndarray:
        """The middle of each bin."""
        if not self.seen:
            return np.zeros(len(self.counts))
        edges = np.linspace(self.low, self.high, len(self.counts) + 1)
        return (edges[:-1] + edges[1:]) / 2


def percentile_range(h: Histogram, levels: int, symmetric: bool, percentile: float = PERCENTILE) -> tuple[float, float]:
    """The range that all but a few values lie in, as many cut off on either side."""
    if symmetric:
        order = np.argsort(np.abs(h.centers))
        share = np.cumsum(h.counts[order]) / h.counts.sum()
        top = float(np.abs(h.centers[order][np.searchsorted(share, percentile / 100)]))
        return -top, top
    share, cut = np.cumsum(h.counts) / h.counts.sum(), (1 - percentile / 100) / 2
    low, high = np.searchsorted(share, [cut, 1 - cut])
    return float(h.centers[low]), float(h.centers[min(high, len(h.counts) - 1)])


def squared_error(h: Histogram, low: float, high: float, levels: int) -> float:
    """The sum of the squared errors of all values, rounded to one of so many levels from low to high."""
    step = max(high - low, 1e-30) / (levels - 1)
    codes = np.clip(np.rint((h.centers - low) / step), 0, levels - 1)
    return float((h.counts * (low + codes * step - h.centers) ** 2).sum())


def mse_range(h: Histogram, levels: int, symmetric: bool) -> tuple[float, float]:
    """The range whose rounding and cutting off err least."""
    if symmetric:
        top = max(-h.low, h.high)
        best = min(CANDIDATES, key=lambda c: squared_error(h, -c * top, c * top, levels))
        return -best * top, best * top
    low, high = min(h.low, 0.0), max(h.high, 0.0)
    for _ in range(2):  # one end after the other, twice
        high = min(CANDIDATES * high, key=lambda t: squared_error(h, low, t, levels)) if high > 0 else high
        low = min(CANDIDATES * low, key=lambda t: squared_error(h, t, high, levels)) if low < 0 else low
    return float(low), float(high)


def entropy_range(h: Histogram, levels: int, symmetric: bool) -> tuple[float, float]:
    """The range whose codes tell most of how the values are distributed (least relative entropy)."""
    top = max(-h.low, h.high)
    magnitudes = np.histogram(np.abs(h.centers), BINS, (0.0, max(top, 1e-30)), weights=h.counts)[0]
    magnitudes[0] = 0.0  # zeros have a code of their own, and are so many behind a relu that they would decide alone
    two_sided = h.low < 0 < h.high
    own = levels // 2 if symmetric or two_sided else levels
    ends = range(own, BINS + 1, max(BINS // 256, 1))
    best = min(ends, key=lambda end: divergence(magnitudes, end, own)) * top / BINS
    if symmetric:
        return -best, best
    return max(h.low, -best), min(h.high, best)


def divergence(counts: np.ndarray, end: int, levels: int) -> float:
    """The relative entropy of a distribution cut off at `end`, given that only `levels` values are told apart."""
    kept = counts[:end].copy()
    reference = kept.copy()
    reference[-1] += counts[end:].sum()
    group = np.minimum(np.arange(end) * levels // end, levels - 1)
    present = (kept > 0).astype(np.float64)
    sums, members = np.bincount(group, kept, levels), np.bincount(group, present, levels)
    told = np.divide(sums, members, out=np.zeros(levels), where=members > 0)[group] * present
    p, q = (x / max(counts.sum(), 1e-30) for x in (reference, told))  # of all: what is cut off must count
    at = p > 0
    return float((p[at] * np.log(p[at] / np.maximum(q[at], 1e-12))).sum())


def minmax_range(h: Histogram, levels: int, symmetric: bool) -> tuple[float, float]:
    """All values."""
    return h.low, h.high


RANGES: dict[str, Callable[..., tuple[float, float]]] = {
    "minmax": minmax_range,
    "percentile": percentile_range,
    "mse": mse_range,
    "entropy": entropy_range,
}


class Calibrated:
    """What observers by histogram share: a mixin for torch.ao's and torchao's classes of uniform observers.

    `method` is a key of RANGES. `min_val` and `max_val` are the range of what was seen.
    """

    def __init__(self, method: str = "mse", **kwargs: Any) -> None:
        if method not in RANGES:
            raise ValueError(f"calibration is {', '.join(RANGES)}; got {method!r}")
        super().__init__(**kwargs)
        self.method = method
        self.histogram = Histogram()
        self.min_val = torch.tensor(float("inf"))
        self.max_val = torch.tensor(float("-inf"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Observe `x`, and give it."""
        self.histogram.add(x.detach().float().cpu().numpy())
        if self.histogram.seen:
            self.min_val.fill_(self.histogram.low)
            self.max_val.fill_(self.histogram.high)
        return x

    def calculate_qparams(self, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The scale and the zero point of the chosen range; ValueError where there were no values."""
        if not self.histogram.seen:
            raise ValueError("calibration: an observer has seen no data; run the prepared model on samples first")
        this: Any = self
        symmetric = this.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric)
        low, high = RANGES[self.method](self.histogram, this.quant_max - this.quant_min + 1, symmetric)
        return this._calculate_qparams(torch.tensor(low, dtype=torch.float32), torch.tensor(high, dtype=torch.float32))
