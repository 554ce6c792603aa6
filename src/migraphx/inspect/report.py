"""Where the time of a compiled program goes, and how much of the machine it uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from migraphx.inspect.running import arguments
from migraphx.runtime.argument import Argument
from migraphx.runtime.device import Peaks
from migraphx.runtime.executable import Executable, Step
from migraphx.targets.registry import get_target

PERCENTILES = (50, 90, 95, 99)
WARM_UP_RUNS = 3


@dataclass(frozen=True)
class StepReport:
    """One kernel call: what it is, its seconds, and `share`, its floor over its seconds.

    The floor is what the machine's peaks allow at best: the larger of bytes over bandwidth and operations over FLOP/s.
    Operands that are in cache, and AMX, can beat it.
    """

    text: str
    kernel: str
    origin: str
    bytes: int
    flops: int
    seconds: float
    share: float


@dataclass(frozen=True)
class Report:
    """`runs` are the seconds of each whole run, in order, `processes` how many of them each process made.

    `steps` were timed in runs of their own, in the first process.
    """

    target: str
    threads: int
    machine: str
    runs: tuple[float, ...]
    steps: tuple[StepReport, ...]
    peaks: Peaks
    processes: tuple[int, ...]

    @property
    def medians(self) -> list[float]:
        """The median of each process's runs."""
        return [float(np.median(part)) for part in np.split(self.runs, np.cumsum(self.processes)[:-1])]

    @property
    def seconds(self) -> float:
        """The median of the runs."""
        return float(np.median(self.runs))

    @property
    def percentiles(self) -> dict[str, float]:
        """Seconds: min, p50, p90, p95, p99, max."""
        middle = {f"p{q}": float(np.percentile(self.runs, q)) for q in PERCENTILES}
        return {"min": min(self.runs), **middle, "max": max(self.runs)}

    @property
    def bytes(self) -> int:
        return sum(s.bytes for s in self.steps)

    @property
    def flops(self) -> int:
        return sum(s.flops for s in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; `from_dict` reads it back."""
        derived = {"seconds": self.seconds, "percentiles": self.percentiles, "bytes": self.bytes, "flops": self.flops}
        return asdict(self) | {"summary": derived}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Read what `to_dict` gave, perhaps through JSON; ValueError names what is missing or too much."""
        try:
            made = cls(
                target=data["target"],
                threads=int(data["threads"]),
                machine=data["machine"],
                runs=tuple(map(float, data["runs"])),
                steps=tuple(StepReport(**s) for s in data["steps"]),
                peaks=Peaks(**data["peaks"]),
                processes=tuple(map(int, data["processes"])),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a performance report: {error}") from None
        if sum(made.processes) != len(made.runs) or min(made.processes, default=0) < 1:
            raise ValueError(f"not a performance report: {len(made.runs)} runs of processes that made {made.processes}")
        return made


def performance_report(executable: Executable, inputs: Mapping[str, np.ndarray], runs: int = 50) -> Report:
    """Run a compiled program `runs` times, time every step in as many runs more, and measure the machine's peaks."""
    if runs < 1:
        raise ValueError(f"performance_report: runs must be at least 1, is {runs}")
    given = arguments(executable, inputs)
    peaks = get_target(executable.target).peaks(executable.threads)
    seconds = _timed(executable, given, runs)
    spent = executable.profile(given, runs)  # before `steps`: those of a dynamic program are its last run's
    steps = [_step(s, t, peaks) for s, t in zip(executable.steps, spent, strict=True)]
    machine = executable.device.identity()
    return Report(executable.target, executable.threads, machine, seconds, tuple(steps), peaks, (runs,))


def measure_runs(executable: Executable, inputs: Mapping[str, np.ndarray], runs: int) -> tuple[float, ...]:
    """The runs alone of a report: seconds of each."""
    return _timed(executable, arguments(executable, inputs), runs)


def _timed(executable: Executable, given: Sequence[Argument], runs: int) -> tuple[float, ...]:
    dynamic = any(s.dynamic for s in executable.outputs)
    results = None if dynamic else [Argument.empty(s, executable.device) for s in executable.outputs]
    seconds = []
    for _ in range(WARM_UP_RUNS + runs):
        start = time.perf_counter()
        executable.run(given, results)
        executable.device.synchronise()
        seconds.append(time.perf_counter() - start)
    return tuple(seconds[WARM_UP_RUNS:])


def _step(step: Step, seconds: float, peaks: Peaks) -> StepReport:
    floor = max(step.bytes / peaks.bandwidth, step.flops / peaks.flops)
    return StepReport(**asdict(step), seconds=seconds, share=floor / seconds if seconds else 0.0)


def chrome_trace(report: Report) -> dict[str, Any]:
    """One run as events that chrome://tracing and Perfetto open: steps end to end, in microseconds.

    Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    return {"traceEvents": _events(report.steps), "displayTimeUnit": "ns"}


def _events(steps: Sequence[StepReport]) -> list[dict[str, Any]]:
    events, at = [], 0.0
    for n, s in enumerate(steps):
        shown = {"text": s.text, "origin": s.origin, "bytes": s.bytes, "flops": s.flops, "share": s.share}
        event = {"name": s.kernel or s.text, "ph": "X", "pid": 0, "tid": 0, "args": {"step": n, **shown}}
        events.append({**event, "ts": at * 1e6, "dur": s.seconds * 1e6})
        at += s.seconds
    return events
