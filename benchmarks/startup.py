"""python -m benchmarks.startup: how soon a saved program answers in a fresh process without torch.

One process saves a compiled model as .mxr; then fresh ones load it, answer once and report medians: seconds from the
start of the process until Python has imported NumPy, until it has imported migraphx, and until the first answer; peak
memory, error against eager. "memory ratio" is the growth of the peak since `import migraphx` over the weights, as they
are packed, and the arena.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import Task, load_inputs
from tests.tolerances import relative_error

PROJECT = Path(__file__).resolve().parents[1]
ANSWER = """
import sys, time
begin, folder = float(sys.argv[1]), sys.argv[2]
import numpy as np
marks = {"numpy": time.time() - begin}
import migraphx
marks["import"] = time.time() - begin
import resource
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
program = migraphx.load(folder + "/model.mxr")
with np.load(folder + "/case.npz") as case:
    given = [case[name] for name in sorted(case.files) if name != "answer"]
result = np.array(program.run(dict(zip(program.get_parameter_names(), given)))[0])
marks["answer"] = time.time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
import json
np.save(folder + "/result.npy", result)
held = sum(w.nbytes for w in program.executable.weights) + program.executable.arena_bytes
print(json.dumps({**marks, "peak": peak, "ratio": (peak - base) / held, "torch": "torch" in sys.modules}))
"""


def save(task: Task) -> None:
    """Compile the case's ONNX model and save it."""
    import migraphx

    program = migraphx.parse_onnx(str(task.folder / "model.onnx"))
    program.compile(migraphx.get_target("cpu"), num_threads=task.threads)
    program.run(dict(zip(program.get_parameter_names(), load_inputs(task), strict=True)))
    migraphx.save(program, str(task.folder / "model.mxr"))


def measure(model: str, threads: int, rounds: int) -> list[dict[str, Any]]:
    """The reports of `rounds` fresh processes."""
    with tempfile.TemporaryDirectory(prefix="openmgx-startup-") as folder:
        tail = [model, folder, str(threads)]
        prepare = [sys.executable, "-m", "benchmarks.worker", "prepare", *tail, "--onnx"]
        subprocess.run(prepare, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
        own = ["--folder", folder, "--models", model, "--threads", str(threads)]
        subprocess.run([sys.executable, "-m", "benchmarks.startup", *own], check=True, cwd=PROJECT)
        reports = []
        with np.load(Path(folder, "case.npz")) as arrays:
            want = arrays["answer"]
        for _ in range(rounds):
            command = [sys.executable, "-c", ANSWER, repr(time.time()), folder]
            report = json.loads(subprocess.check_output(command, text=True, cwd=PROJECT))
            error = relative_error(np.load(Path(folder, "result.npy")), want)
            reports.append(report | {"error": error})
        size = Path(folder, "model.mxr").stat().st_size
    return [report | {"file": size} for report in reports]


def main() -> None:
    """Entry point; --folder is for the process that this one starts to save the program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--models", default="resnet50", help="comma-separated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        save(Task(given.models, given.folder, given.threads))
        return
    print(
        "| model | numpy, s | migraphx, s | first answer, s | peak MB | memory ratio | file MB | error | torch loaded |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for model in given.models.split(","):
        reports = measure(model, given.threads, given.rounds)
        times = [f"{statistics.median(r[key] for r in reports):.3f}" for key in ("numpy", "import", "answer")]
        last = reports[-1]
        sizes = f"{last['peak'] / 1e6:.0f} | {last['ratio']:.2f} | {last['file'] / 1e6:.0f}"
        print(f"| {model} | {' | '.join(times)} | {sizes} | {last['error']:.1e} | {last['torch']} |")


if __name__ == "__main__":
    main()
