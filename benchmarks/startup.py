"""python -m benchmarks.startup: how soon a saved program answers in a fresh process, without torch unless `--lowered`.

One process saves a compiled model as .mxr; then fresh ones load it, answer once and report medians: seconds from the
start of the process until Python has imported NumPy, until it has imported migraphx, and until the first answer; peak
memory, error against eager. "memory ratio" is the growth of the peak since `import migraphx` over the weights, as they
are packed, and the arena.

`--lowered` saves what `lower_to_mgx` returns by `torch.save`: seconds until Python has imported torch, until it has
imported torch_migraphx, and until the first answer.
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

LOWERED = """
import sys, time
begin, folder = float(sys.argv[1]), sys.argv[2]
import torch
marks = {"torch": time.time() - begin}
import torch_migraphx
marks["import"] = time.time() - begin
module = torch.load(folder + "/lowered.pt", weights_only=False)
import numpy as np
with np.load(folder + "/case.npz") as case:
    given = [torch.from_numpy(case[name]) for name in sorted(case.files) if name != "answer"]
with torch.no_grad():
    result = module(*given)
marks["answer"] = time.time() - begin
import json
np.save(folder + "/result.npy", result.numpy())
print(json.dumps(marks))
"""


def save_lowered(task: Task) -> None:
    """Lower the case's model and save the module."""
    import torch

    from benchmarks.models import build  # imports torch
    from torch_migraphx.fx import lower_to_mgx

    model, inputs = build(task.model)
    torch.save(lower_to_mgx(model, inputs, num_threads=task.threads), task.folder / "lowered.pt")


def save(task: Task) -> None:
    """Compile the case's ONNX model and save it."""
    import migraphx

    program = migraphx.parse_onnx(str(task.folder / "model.onnx"))
    program.compile(migraphx.get_target("cpu"), num_threads=task.threads)
    program.run(dict(zip(program.get_parameter_names(), load_inputs(task), strict=True)))
    migraphx.save(program, str(task.folder / "model.mxr"))


def measure(model: str, threads: int, rounds: int, lowered: bool) -> list[dict[str, Any]]:
    """The reports of `rounds` fresh processes."""
    code, file, more = (LOWERED, "lowered.pt", ["--lowered"]) if lowered else (ANSWER, "model.mxr", [])
    with tempfile.TemporaryDirectory(prefix="openmgx-startup-") as folder:
        tail = [model, folder, str(threads)]
        prepare = [sys.executable, "-m", "benchmarks.worker", "prepare", *tail, "--onnx"]
        subprocess.run(prepare, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
        own = ["--folder", folder, "--models", model, "--threads", str(threads), *more]
        subprocess.run([sys.executable, "-m", "benchmarks.startup", *own], check=True, cwd=PROJECT)
        reports = []
        with np.load(Path(folder, "case.npz")) as arrays:
            want = arrays["answer"]
        for _ in range(rounds):
            command = [sys.executable, "-c", code, repr(time.time()), folder]
            report = json.loads(subprocess.check_output(command, text=True, cwd=PROJECT))
            error = relative_error(np.load(Path(folder, "result.npy")), want)
            reports.append(report | {"error": error})
        size = Path(folder, file).stat().st_size
    return [report | {"file": size} for report in reports]


def main() -> None:
    """Entry point; --folder is for the process that this one starts to save the program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--models", default="resnet50", help="comma-separated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lowered", action="store_true", help="a lowered module, in a process with torch")
    given = parser.parse_args()
    if given.folder:
        task = Task(given.models, given.folder, given.threads)
        (save_lowered if given.lowered else save)(task)
        return
    first, own = ("torch", "torch_migraphx") if given.lowered else ("numpy", "migraphx")
    memory = () if given.lowered else ("peak MB", "memory ratio", "torch loaded")
    heads = ["model", f"{first}, s", f"{own}, s", "first answer, s", "file MB", "error", *memory]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    for model in given.models.split(","):
        reports = measure(model, given.threads, given.rounds, given.lowered)
        last = reports[-1]
        cells = [model, *(f"{statistics.median(r[key] for r in reports):.3f}" for key in (first, "import", "answer"))]
        cells += [f"{last['file'] / 1e6:.0f}", f"{last['error']:.1e}"]
        if not given.lowered:
            cells += [f"{last['peak'] / 1e6:.0f}", f"{last['ratio']:.2f}", str(last["torch"])]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
