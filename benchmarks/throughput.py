"""python -m benchmarks.throughput: answers a second of many callers at once, of ours and of its peers.

Each engine serves one model to one number of callers in a process of its own, kept to the same cores, which stays until
the last turn; so many threads ask, each again as soon as it has its answer. Ours is `migraphx.AsyncQueue`, ONNX Runtime
one session that all callers run, OpenVINO its throughput mode. The processes take turns, one at a time, round after
round; medians of the rounds count.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.__main__ import PROJECT, REST, Worker, dumps, say, worker_command
from benchmarks.engines import MODEL, Task, load_inputs
from benchmarks.machine import describe
from benchmarks.models import CASES
from benchmarks.worker import own_output

Ask = Callable[[], Any]


@contextmanager
def openmgx(task: Task, callers: int) -> Iterator[list[Ask]]:
    """A queue with a stream a core, at most one a caller."""
    import migraphx

    program = migraphx.parse_onnx(str(task.folder / MODEL))
    program.compile(migraphx.get_target("cpu"))
    inputs = dict(zip(program.get_parameter_names(), load_inputs(task), strict=True))
    with migraphx.AsyncQueue(program, streams=min(callers, task.threads), depth=callers) as queue:
        yield [lambda: queue.submit(inputs).result()] * callers


@contextmanager
def onnxruntime(task: Task, callers: int) -> Iterator[list[Ask]]:
    """One session, which every caller runs on all cores."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = task.threads
    session = ort.InferenceSession(str(task.folder / MODEL), options, providers=["CPUExecutionProvider"])
    inputs = dict(zip((i.name for i in session.get_inputs()), load_inputs(task), strict=True))
    yield [lambda: session.run(None, inputs)] * callers


@contextmanager
def openvino(task: Task, callers: int) -> Iterator[list[Ask]]:
    """Its throughput mode, a request a caller."""
    import openvino as ov

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": task.threads,
        "PERFORMANCE_HINT": "THROUGHPUT",
        "PERFORMANCE_HINT_NUM_REQUESTS": callers,
    }
    model = ov.Core().compile_model(task.folder / MODEL, "CPU", options)
    inputs = {i: ov.Tensor(x, shared_memory=True) for i, x in enumerate(load_inputs(task))}

    def ask() -> Ask:
        request = model.create_infer_request()
        return lambda: request.infer(inputs)

    yield [ask() for _ in range(callers)]


ENGINES = {f.__name__: f for f in (openmgx, onnxruntime, openvino)}


def answers_a_second(pool: ThreadPoolExecutor, asks: list[Ask], seconds: float) -> float:
    """Of all callers together, each in a thread of its own."""
    list(pool.map(lambda ask: ask(), asks))
    begin = time.perf_counter()
    end = begin + seconds

    def call(ask: Ask) -> int:
        count = 0
        while time.perf_counter() < end:
            ask()
            count += 1
        return count

    total = sum(pool.map(call, asks))
    return total / (time.perf_counter() - begin)


def serve(engine: str, task: Task, callers: int) -> None:
    """One engine's process: keep to so many cores, then write the rate of a turn for each line of seconds."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.threads])
    out = own_output()
    with ENGINES[engine](task, callers) as asks, ThreadPoolExecutor(callers) as pool:
        print(json.dumps("ready"), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(answers_a_second(pool, asks, float(line))), file=out, flush=True)


def start_worker(engine: str, task: Task, callers: int) -> Worker:
    """A process that serves so many callers."""
    words = ["--serve", engine, "--folder", str(task.folder), "--models", task.model]
    words += ["--threads", str(task.threads), "--callers", str(callers)]
    command = [sys.executable, "-m", "benchmarks.throughput", *words]
    return Worker(command, task.folder / f"{engine}-{callers}.log", {"OMP_NUM_THREADS": str(task.threads)})


@contextmanager
def servers(task: Task, callers: list[int]) -> Iterator[dict[tuple[int, str], Worker]]:
    """All of them, ready, by number of callers and engine; at most as many start at once as there are cores."""
    started: dict[tuple[int, str], Worker] = {}
    cases = [(count, engine) for count in callers for engine in ENGINES]
    try:
        for begin in range(0, len(cases), os.cpu_count() or 1):
            some = cases[begin:][: os.cpu_count() or 1]
            started |= {(count, engine): start_worker(engine, task, count) for count, engine in some}
            for case in some:
                started[case].read()
        yield started
    finally:
        for server in started.values():
            server.stop()


def measure(model: str, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """By number of callers and engine."""
    with tempfile.TemporaryDirectory(prefix=f"openmgx-throughput-{model}-") as name:
        task = Task(model, Path(name), given.threads)
        options: Any = argparse.Namespace(threads=given.threads, batch=1)
        prepare = [*worker_command("prepare", model, task.folder, options), "--onnx"]
        subprocess.run(prepare, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
        callers = [int(count) for count in given.callers.split(",")]
        with servers(task, callers) as ready:
            rates: dict[tuple[int, str], list[float]] = {case: [] for case in ready}
            for round_ in range(given.rounds):
                say(f"{model}: round {round_ + 1} of {given.rounds}")
                for case, server in ready.items():
                    time.sleep(REST)
                    rates[case].append(server.turn(given.seconds))
    return {str(c): {e: statistics.median(rates[c, e]) for e in ENGINES} for c in callers}


def markdown(result: dict[str, Any]) -> str:
    """A row a model and number of callers."""
    lines = [f"| model | callers | {' | '.join(ENGINES)} | ours / best peer |", "|---|---:|---:|---:|---:|---:|"]
    for model, callers in result["models"].items():
        for count, rates in callers.items():
            ours, peers = rates["openmgx"], [r for e, r in rates.items() if e != "openmgx"]
            shown = " | ".join(f"{r:.1f}" for r in rates.values())
            lines.append(f"| {model} | {count} | {shown} | {ours / max(peers):.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--models", default="resnet50,minilm", help=f"comma-separated, of {', '.join(CASES)}")
    parser.add_argument("--callers", default="1,2,4,8", help="comma-separated numbers")
    parser.add_argument("--threads", type=int, default=2, help="cores for each engine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--serve", choices=list(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, Task(given.models, given.folder, given.threads), int(given.callers))
        return
    result = {
        "command": shlex.join(["python", "-m", "benchmarks.throughput", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe(),
        "threads": given.threads,
        "models": {},
    }
    for model in given.models.split(","):
        result["models"][model] = measure(model, given)
        if given.output:
            given.output.write_text(dumps(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
