"""Run times in numbers: percentiles, and whether two sets of runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.driver.terminal import milliseconds

FEWEST = 5  # processes on either side: with fewer, no order of their medians is as rare as ALPHA by chance
ALPHA = 0.01
THRESHOLD = 0.02
TEST = (
    "Mann-Whitney U, exact and two-sided, of the processes' medians; a change is significant where p < {alpha:g} and "
    "the medians differ by more than {threshold:.0%}. What the machine did otherwise between the two reports is not "
    "told from a change: measure one after the other"
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
    """Whether b differs from a, each the medians of processes; ValueError with fewer than FEWEST of them.

    Runs of one process are alike (placement of memory, clock, neighbours) and differ from the next process's: the
    process is what is drawn anew, and so what counts. Mann and Whitney (1947): ranks, because times have long tails.
    """
    if min(len(a), len(b)) < FEWEST:
        raise ValueError(
            f"{len(a)} and {len(b)} processes are too few to tell a change from chance: "
            f"`perf --processes {FEWEST}` or more, on either side"
        )
    p = mann_whitney(a, b)
    change = float(np.median(b) / np.median(a) - 1)
    return Comparison(change, p, p < alpha and abs(change) > threshold)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p-value of the Mann-Whitney U test: the share of all ways to draw a's ranks that are as extreme."""
    _, place, counts = np.unique([*a, *b], return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(counts) - counts + 1)[place]  # doubled, so that those of ties are whole
    n, total = len(a), int(ranks.sum())
    ways = np.zeros((n + 1, total + 1))  # to draw so many ranks with such a sum
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : total + 1 - rank]
    away = np.abs(np.arange(total + 1) - n * total / len(ranks))
    extreme = away >= away[ranks[:n].sum()]
    return float(ways[n, extreme].sum() / ways[n].sum())
