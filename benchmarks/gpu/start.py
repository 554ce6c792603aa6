"""How soon a saved model answers in a fresh process that has neither torch nor Triton.

`python -m benchmarks.gpu.start [--case resnet50_b1] [--rounds 5]`: one process lowers the case of benchmarks.gpu.models
and saves its program; fresh ones load it, answer once and say when they had come how far, in seconds since their start.
Medians, as JSON. `wrong` is the largest error against the process that saved it.
"""

from __future__ import annotations

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

PROJECT = Path(__file__).resolve().parents[2]
ANSWER = """
import json, sys, time
begin = float(sys.argv[1])
marks = {"python": time.time() - begin}
import numpy as np
marks["numpy"] = time.time() - begin
import migraphx
marks["migraphx"] = time.time() - begin
folder = sys.argv[2]
migraphx.get_target("gpu")
marks["device"] = time.time() - begin
program = migraphx.load(folder + "/model.mxr")
marks["loaded"] = time.time() - begin
given = np.load(folder + "/case.npz")
inputs = {n: given[n] for n in program.get_parameter_names()}
answer = np.asarray(program.run(inputs)[0])
marks["answered"] = time.time() - begin
wrong = float(np.abs(answer.astype(np.float64) - given["answer"]).max())
print(json.dumps({**marks, "wrong": wrong, "torch": "torch" in sys.modules, "triton" : "triton" in sys.modules}))
"""


def save(case: str, folder: Path) -> None:
    """Compile the case with arguments in main memory; save it, its inputs and its answer."""
    import migraphx
    from benchmarks.gpu.profile import made
    from torch_migraphx.fx import MGXInterpreter
    from torch_migraphx.fx.tracer.acc_tracer import acc_tracer

    model, inputs = made(case)
    interpreter = MGXInterpreter(acc_tracer.trace_leaves(model, list(inputs)), list(inputs))
    program = interpreter.run()
    program.compile(migraphx.get_target("gpu"))
    arrays = {n: x.cpu().numpy() for n, x in zip(interpreter.get_input_names(), inputs, strict=True)}
    answer = np.asarray(program.run(dict(arrays))[0])
    migraphx.save(program, str(folder / "model.mxr"))
    np.savez(folder / "case.npz", answer=answer, **arrays)  # pyright: ignore[reportArgumentType]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="resnet50_b1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", metavar="FOLDER", help="the first process's part")
    given = parser.parse_args()
    if given.save:
        save(given.case, Path(given.save))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.gpu.start", "--case", given.case, "--save", folder]
        subprocess.run(command, check=True, cwd=PROJECT)
        rounds: list[dict[str, Any]] = []
        for _ in range(given.rounds):
            done = subprocess.run(
                [sys.executable, "-c", ANSWER, str(time.time()), folder], capture_output=True, text=True, check=True
            )
            rounds.append(json.loads(done.stdout.strip().splitlines()[-1]))
    middle = {k: statistics.median(r[k] for r in rounds) for k in rounds[0] if k not in ("torch", "triton")}
    print(json.dumps({"case": given.case, **middle, **{k: any(r[k] for r in rounds) for k in ("torch", "triton")}}))


if __name__ == "__main__":
    main()
