"""python -m benchmarks: every engine on every model, each in a process of its own, in turn.

For each model and engine one process compiles with empty caches and answers once (cold); a second one does so with
the caches that the first left (warm) and stays. The warm processes then take short timed turns, one at a time, round
after round. A turn is taken again where other programs used the machine meanwhile, or where its multiply-adds or AMX
tiles, before or behind the turn, are slower than they were before. The latency is the median of the rounds' medians,
and so are its percentiles and its spread, a turn's 90th percentile over its least: of all rounds together it would
tell which engines met the machine's slow seconds. With --busy, so many processes that never rest run beside every
turn. With --isa every engine is held to AVX2 or AVX-512, as far as it lets itself be (engines.py says how; ONNX
Runtime does not). Engines that like channels-last are measured both ways on pictures, and the faster way counts.
"""

import argparse
import contextlib
import fcntl
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import ENGINES, IMAGES_ALSO, ISAS, NOT_HELD, READS_INT8, READS_ONNX, held_to
from benchmarks.machine import Meter, describe
from benchmarks.models import CASES, MAIN
from benchmarks.table import markdown

PROJECT = Path(__file__).resolve().parents[1]
PEERS = "eager,dynamo,inductor,inductor_freezing,onnxruntime,openvino,openmgx"
QUIET = 0.03  # of the machine: a turn with more foreign load than this is taken again
SLOWED = 0.1  # of the multiply-adds, and of the tiles: the same
NEIGHBOUR = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000): pass
"""
REST = 0.3  # seconds between turns, so that the spinning threads of the last engine are asleep


@dataclass(frozen=True)
class Options:
    """What the command line asks for; `lock` is a file locked while anything is timed."""

    models: list[str]
    peers: list[str]
    threads: int
    batch: int
    rounds: int
    seconds: float
    busy: int
    retries: int
    lock: Path | None
    output: Path | None
    isa: str = "native"


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that want a core all the time, and end with this one, however it ends."""
    busy = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(os.getpid())]) for _ in range(count)]
    try:
        yield busy
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextlib.contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Hold the lock file, so that benchmarks of several people on one machine take turns."""
    if lock is None:
        yield
        return
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def worker_command(engine: str, model: str, folder: Path, options: Options) -> list[str]:
    """How a process of worker.py is started."""
    words = ["benchmarks.worker", engine, model, str(folder), str(options.threads), "--batch", str(options.batch)]
    return [sys.executable, "-m", *words]


class Worker:
    """One engine's process; a line to it is a turn, a line from it a JSON object."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("a") as file:
            self.process = subprocess.Popen(
                command, stdin=-1, stdout=-1, stderr=file, text=True, cwd=PROJECT, env=os.environ | environment
            )

    def read(self) -> Any:
        """The next object; RuntimeError with the end of the log when the process died."""
        assert self.process.stdout
        if line := self.process.stdout.readline():
            return json.loads(line)
        self.process.wait()  # until then it writes why it ends
        raise RuntimeError(self.log.read_text()[-2000:])

    def turn(self, seconds: float) -> Any:
        """One timed turn."""
        assert self.process.stdin
        print(seconds, file=self.process.stdin, flush=True)
        return self.read()

    def stop(self) -> None:
        """End the process."""
        self.process.communicate()


def engines_of(model: str, peers: list[str]) -> list[str]:
    """The engines to run: for pictures, the channels-last forms too."""
    also = [IMAGES_ALSO[p] for p in peers if CASES[model].image and p in IMAGES_ALSO]
    return [*peers, *also]


def start_worker(engine: str, model: str, folder: Path, options: Options) -> Worker:
    """A process of worker.py, with caches that later ones of the same engine find."""
    cache = folder / "cache" / engine
    cache.mkdir(parents=True, exist_ok=True)
    environment = {
        "OMP_NUM_THREADS": str(options.threads),
        "OPENMGX_CACHE": str(cache / "openmgx"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TMPDIR": str(cache),
        **held_to(options.isa),
    }
    return Worker(worker_command(engine, model, folder, options), folder / f"{engine}.log", environment)


def start_engine(engine: str, model: str, folder: Path, options: Options) -> tuple[Worker, dict[str, Any]]:
    """Cold process, then the warm one, which stays; their reports."""
    with alone(options.lock):
        cold = start_worker(engine, model, folder, options)
        first = cold.read()
        cold.stop()
        warm = start_worker(engine, model, folder, options)
        second = warm.read()
    report = {
        "cold_first_answer_s": first["first"],
        "warm_first_answer_s": second["first"],
        "error": max(first["error"], second["error"]),
        "peak_rss": second["peak_rss"],
        "turns": [],
    }
    return warm, report


def quiet_turn(worker: Worker, meter: Meter, options: Options) -> dict[str, Any]:
    """A turn that nobody disturbs but `busy` neighbours, or the least disturbed of the tries."""
    if options.busy:
        time.sleep(REST)
        return worker.turn(options.seconds) | {"slowed": None}
    tries = []
    for _ in range(options.retries + 1):
        time.sleep(REST)
        before = meter.slowed()
        taken = worker.turn(options.seconds)
        time.sleep(REST)
        tries.append(taken | {"slowed": max(before, meter.slowed())})
        if disturbed(tries[-1]) <= 1:
            break
    return min(tries, key=disturbed)


def disturbed(turn: dict[str, Any]) -> float:
    """How much others had of the machine, in units of what a turn may lose to them."""
    return max((turn["foreign"] or 0.0) / QUIET, turn["slowed"] / SLOWED)


def measure(model: str, meter: Meter, options: Options) -> dict[str, Any]:
    """Everything about one model."""
    engines = engines_of(model, options.peers)
    with tempfile.TemporaryDirectory(prefix=f"openmgx-bench-{model}-") as name:
        folder = Path(name)
        prepare = worker_command("prepare", model, folder, options)
        prepare += ["--onnx"] if READS_ONNX & set(engines) else []
        prepare += ["--int8"] if READS_INT8 & set(engines) else []
        subprocess.run(prepare, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
        result = json.loads((folder / "work.json").read_text())
        workers: dict[str, Worker] = {}
        reports: dict[str, dict[str, Any]] = {}
        try:
            for engine in engines:
                say(f"{model}: {engine}: compiling")
                try:
                    workers[engine], reports[engine] = start_engine(engine, model, folder, options)
                except RuntimeError as failure:
                    reports[engine] = {"failure": str(failure)}
            take_rounds(workers, reports, meter, options)
        finally:
            for worker in workers.values():
                worker.stop()
    return result | {"engines": reports}


def take_rounds(workers: dict[str, Worker], reports: dict[str, dict[str, Any]], meter: Meter, options: Options) -> None:
    """Interleaved turns; adds each engine's latency to its report."""
    for round_ in range(options.rounds):
        say(f"round {round_ + 1} of {options.rounds}")
        with alone(options.lock), neighbours(options.busy):
            for engine, worker in workers.items():
                reports[engine]["turns"].append(quiet_turn(worker, meter, options))
    for engine in workers:
        report, turns = reports[engine], reports[engine].pop("turns")
        report["latency_s"] = statistics.median(t["median"] for t in turns)
        report |= {f"{key}_s": statistics.median(t[key] for t in turns) for key in ("p90", "p99", "least")}
        report["spread"] = statistics.median(t["p90"] / t["least"] for t in turns)
        report["peak_rss"] = max(t["peak_rss"] for t in turns)
        report["rounds_s"] = [t["median"] for t in turns]
        report["foreign_load"] = [t["foreign"] for t in turns]
        report["slowed"] = [t["slowed"] for t in turns]


def dumps(value: Any) -> str:
    """JSON with four digits a number and a line a list of numbers."""
    rounded = json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.4g}"))
    text = json.dumps(rounded, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def parse() -> Options:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    main = ",".join(case.name for case in MAIN)
    parser.add_argument("--models", default=main, help=f"of {', '.join(CASES)}; default: {main}")
    parser.add_argument("--peers", default=PEERS, help=f"of {', '.join(ENGINES)}; default: {PEERS}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--busy", type=int, default=0, help="processes beside every turn that never rest")
    parser.add_argument("--isa", choices=ISAS, default="native", help="instruction set that engines are held to")
    parser.add_argument("--retries", type=int, default=3, help="of a turn disturbed by other programs")
    parser.add_argument("--lock", type=Path, help="file to hold locked while timing")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    given = vars(parser.parse_args())
    given["models"], given["peers"] = given["models"].split(","), given["peers"].split(",")
    for name, known in (("models", CASES), ("peers", ENGINES)):
        if unknown := set(given[name]) - set(known):
            parser.error(f"unknown {name} {sorted(unknown)}; known: {', '.join(known)}")
    return Options(**given)


def main() -> None:
    """Measure, print the table, write the JSON."""
    options = parse()
    meter = Meter(options.threads, held_to(options.isa).get("OPENMGX_CXXFLAGS", "-march=native"))
    result: dict[str, Any] = {
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe(),
        "threads": options.threads,
        "batch": options.batch,
        "busy": options.busy,
        "isa": options.isa,
        "not_held": sorted(NOT_HELD & set(options.peers)) if options.isa != "native" else [],
        "models": {},
    }
    for model in options.models:
        with alone(options.lock):
            meter.measure()
        result["models"][model] = measure(model, meter, options)
        result["floors"] = asdict(meter.floors)
        if options.output:
            options.output.write_text(dumps(result))
    print(markdown(result))


if __name__ == "__main__":
    main()
