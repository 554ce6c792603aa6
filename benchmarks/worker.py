"""One engine, one model, one process: compile, answer, then take timed turns as asked on standard input.

Each line read is a number of seconds; each line written is JSON. Started by `benchmarks.__main__` only.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.engines import ENGINES, Run, Task, prepare, prepare_int8
from benchmarks.machine import busy_seconds
from tests.tolerances import relative_error

LEAST_RUNS = 5


def start(task: Task, engine: str) -> tuple[Run, dict[str, Any]]:
    """Import and build, then compile and answer; seconds of both, error against eager, memory."""
    entry = time.perf_counter()
    run = ENGINES[engine](task)
    ready = time.perf_counter()
    answer = np.asarray(run())
    done = time.perf_counter()
    with np.load(task.folder / "case.npz") as arrays:
        error = max(relative_error(a, arrays["answer"]) for a in (answer, np.asarray(run())))
    return run, {"build": ready - entry, "first": done - ready, "error": error, "peak_rss": peak_rss()}


def peak_rss() -> int:
    """The most memory this process has held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def turn(run: Run, seconds: float) -> dict[str, Any]:
    """Run for about that long; seconds of a run (median, percentiles, least), and the share that others took."""
    for _ in range(2):
        run()
    times: list[float] = []
    busy, mine, begin = busy_seconds(), time.process_time(), time.perf_counter()
    while len(times) < LEAST_RUNS or time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    wall = time.perf_counter() - begin
    used, after = time.process_time() - mine, busy_seconds()
    foreign = None
    if busy is not None and after is not None:
        foreign = max(0.0, (after - busy - used) / wall / (os.cpu_count() or 1))
    p90, p99 = map(float, np.percentile(times, (90, 99)))
    return {
        "median": statistics.median(times),
        "p90": p90,
        "p99": p99,
        "least": min(times),
        "runs": len(times),
        "foreign": foreign,
    }


def serve(run: Run, report: dict[str, Any], out: TextIO) -> None:
    """Write the report, then answer each request for a turn until standard input ends."""
    print(json.dumps(report), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(run, float(line)) | {"peak_rss": peak_rss()}), file=out, flush=True)


def own_output() -> TextIO:
    """Standard output for our JSON alone: what libraries print there goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def main() -> None:
    """Entry point: see __main__.py for the arguments' meaning."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=["prepare", *ENGINES])
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--int8", action="store_true")
    arguments = parser.parse_args()
    task = Task(arguments.model, arguments.folder, arguments.threads, arguments.batch)
    out = own_output()
    if arguments.engine == "prepare":
        prepare(task, arguments.onnx)
        if arguments.int8:
            prepare_int8(task)
    else:
        run, report = start(task, arguments.engine)
        serve(run, report, out)


if __name__ == "__main__":
    main()
