"""Run times in numbers: percentiles, and whether two sets of runs differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.driver.terminal import milliseconds

FEWEST = 10  # runs on either side: below this the normal approximation of U is too coarse
ALPHA = 0.01
THRESHOLD = 0.02
TEST = (
    "Mann-Whitney U, two-sided, normal approximation with correction for ties and continuity; a change is "
    "significant where p < {alpha:g} and the medians differ by more than {threshold:.0%}"
)


def described(seconds: Sequence[float]) -> dict[str, float]:
    """Of run times in seconds: min, max, mean, median, percentiles."""
    p90, p95, p99 = (float(v) for v in np.percentile(seconds, (90, 95, 99)))
    middle = {"mean": float(np.mean(seconds)), "median": float(np.median(seconds))}
    return {"min": min(seconds), "max": max(seconds), **middle, "p90": p90, "p95": p95, "p99": p99}


def summary_lines(found: dict[str, float], batch: int) -> list[str]:
    """As `perf` and `time` print them; the total time, and so the rate, is the median."""
    extremes = ", ".join(f"{n.capitalize()}: {milliseconds(found[n])}" for n in ("min", "max", "mean", "median"))
    tails = ", ".join(milliseconds(found[p]) for p in ("p90", "p95", "p99"))
    return [
        f"Batch size: {batch}",
        f"Rate: {batch / found['median']:.6g} inferences/sec",
        f"Total time: {milliseconds(found['median'])} ({extremes})",
        f"Percentiles (90%, 95%, 99%): ({tails})",
    ]


@dataclass(frozen=True)
class Comparison:
    """`change` is b's median over a's, less one; `p` the probability of ranks so far apart by chance alone."""

    change: float
    p: float
    significant: bool

    @property
    def verdict(self) -> str:
        if not self.significant:
            return "no significant change"
        return "slower" if self.change > 0 else "faster"


def compare(a: Sequence[float], b: Sequence[float], alpha: float = ALPHA, threshold: float = THRESHOLD) -> Comparison:
    """Whether the runs of b differ from those of a; ValueError with fewer than FEWEST runs.

    Mann and Whitney (1947): ranks, because run times have long tails and outliers of their own. Runs of one process
    are not independent (clock, neighbours, placement of memory), which makes p too small; so a change counts only where
    it is also larger than `threshold`, and two runs of the same code should be compared first.
    """
    if min(len(a), len(b)) < FEWEST:
        raise ValueError(f"{len(a)} and {len(b)} runs are too few to compare; at least {FEWEST} each")
    p = mann_whitney(a, b)
    change = float(np.median(b) / np.median(a) - 1)
    return Comparison(change, p, p < alpha and abs(change) > threshold)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p-value of the Mann-Whitney U test, by the normal approximation."""
    both = np.concatenate([np.asarray(a, np.float64), np.asarray(b, np.float64)])
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    n, m = len(a), len(b)
    u = float(ranks[:n].sum()) - n * (n + 1) / 2
    ties = float((counts**3 - counts).sum()) / ((n + m) * (n + m - 1))
    variance = n * m / 12 * (n + m + 1 - ties)
    if variance <= 0:  # all runs took exactly as long
        return 1.0
    distance = max(abs(u - n * m / 2) - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance))
