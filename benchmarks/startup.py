"""python -m benchmarks.startup: how soon a saved program answers in a fresh process without torch.

One process saves a compiled model as .mxr; then fresh ones load it, answer once and report: seconds from the
start of the process, seconds of `import migraphx`, peak memory, error against eager. "memory ratio" is the growth
of the peak since `import migraphx` over the weights, as they are packed, and the arena.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.engines import Task, load_inputs
from tests.tolerances import relative_error

PROJECT = Path(__file__).resolve().parents[1]


def save(task: Task) -> None:
    """Compile the case's ONNX model and save it."""
    import migraphx

    program = migraphx.parse_onnx(str(task.folder / "model.onnx"))
    program.compile(migraphx.get_target("cpu"))
    program.run(dict(zip(program.get_parameter_names(), load_inputs(task), strict=True)))
    migraphx.save(program, str(task.folder / "model.mxr"))


def answer(task: Task, begin: float) -> dict[str, Any]:
    """Load, run, report; `begin` is the time.time() at which this process was started."""
    import numpy as np

    import migraphx

    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    program = migraphx.load(str(task.folder / "model.mxr"))
    inputs = dict(zip(program.get_parameter_names(), load_inputs(task), strict=True))
    result = np.array(program.run(inputs)[0])
    total = time.time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with np.load(task.folder / "case.npz") as arrays:
        error = relative_error(result, arrays["answer"])
    torch_loaded = "torch" in sys.modules
    executable: Any = program.executable
    held = sum(w.nbytes for w in executable.weights) + executable.arena_bytes
    ratio = (peak - base) / held
    return {"first_answer": total, "peak": peak, "ratio": ratio, "error": error, "torch": torch_loaded}


def import_seconds() -> float:
    """`import migraphx` and all it imports, in a fresh interpreter."""
    code = "import time; t = time.perf_counter(); import migraphx; print(time.perf_counter() - t)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True, cwd=PROJECT))


def measure(model: str, threads: int, rounds: int) -> list[dict[str, Any]]:
    """The reports of `rounds` fresh processes."""
    with tempfile.TemporaryDirectory(prefix="openmgx-startup-") as folder:
        tail = [model, folder, str(threads)]
        prepare = [sys.executable, "-m", "benchmarks.worker", "prepare", *tail, "--onnx"]
        subprocess.run(prepare, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
        own = [sys.executable, "-m", "benchmarks.startup", "--folder", folder, "--models", model]
        subprocess.run([*own, "--step", "save"], check=True, cwd=PROJECT)
        reports = []
        for _ in range(rounds):
            command = [*own, "--step", "answer", "--begin", repr(time.time())]
            report = json.loads(subprocess.check_output(command, text=True, cwd=PROJECT))
            reports.append(report | {"import": import_seconds()})
        size = Path(folder, "model.mxr").stat().st_size
    return [report | {"file": size} for report in reports]


def main() -> None:
    """Entry point; --step and what follows it are for the processes that this one starts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--models", default="resnet50", help="comma-separated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step", choices=["save", "answer"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        task = Task(given.models, given.folder, given.threads)
        print(json.dumps(answer(task, given.begin))) if given.step == "answer" else save(task)
        return
    print("| model | first answer, s | import, s | peak MB | memory ratio | file MB | error | torch loaded |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for model in given.models.split(","):
        reports = measure(model, given.threads, given.rounds)
        first, imported = (statistics.median(r[key] for r in reports) for key in ("first_answer", "import"))
        last = reports[-1]
        sizes = f"{last['peak'] / 1e6:.0f} | {last['ratio']:.2f} | {last['file'] / 1e6:.0f}"
        print(f"| {model} | {first:.3f} | {imported:.3f} | {sizes} | {last['error']:.1e} | {last['torch']} |")


if __name__ == "__main__":
    main()
