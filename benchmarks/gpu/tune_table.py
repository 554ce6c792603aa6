"""The shipped table of target gpu: candidates timed for the products, convolutions and attention of the models.

`python -m benchmarks.gpu.tune_table [--cases resnet50_b1,bert_16x384/fp8] [--seconds 400] [--output FILE]` compiles
each case of benchmarks.gpu.models with `exhaustive_tune`, and writes the winners of the cache into the table of this
device's chip, beside those that it has. Winners that the cache holds are not timed again, so a call that ran out of
time goes on where it ended. `--times FILE` writes what every candidate took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import torch_migraphx.fx as fx
from benchmarks.gpu.models import CASES, quantized_module
from benchmarks.models import randomize
from migraphx.targets.common.cache import entries
from migraphx.targets.gpu.binaries import triton_version
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.libraries.blas import blas
from migraphx.targets.gpu.libraries.dnn import dnn
from migraphx.targets.gpu.tables import path_of, read, table_text
from migraphx.targets.gpu.tune import SUFFIX


def tune(case: str) -> None:
    """Compile a case with every candidate timed."""
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    name, _, narrow = case.partition("/")
    chosen = CASES[name]
    with torch.device("cuda"):
        model = randomize(chosen.build()).to(chosen.dtype)
        inputs = [x.to(chosen.dtype) if x.is_floating_point() else x for x in chosen.inputs()]
    if narrow:
        quantized_module(narrow, model, tuple(x.cuda() for x in inputs), exhaustive_tune=True)
        return
    fx.lower_to_mgx(model, [x.cuda() for x in inputs], exhaustive_tune=True, suppress_accuracy_check=True)


def winners() -> Iterator[dict[str, Any]]:
    """What the cache holds of this machine."""
    for entry in entries():
        if entry.whole and entry.path.suffix == SUFFIX:
            yield json.loads(entry.path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seconds", type=float, default=86400, help="begin no case after these")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--times", type=Path)
    parser.add_argument("--one", metavar="CASE", help="in this process")
    given = parser.parse_args()
    if given.one:
        tune(given.one)
        return
    device, end = current_device(), time.perf_counter() + given.seconds
    output = given.output or path_of(device.chip)
    for case in given.cases.split(","):
        if (left := end - time.perf_counter()) < 0:
            print(f"no time left for {case}", flush=True)
            continue
        begin = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.gpu.tune_table", "--one", case]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=left)
            why = done.stderr.strip()[-600:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            why = "ran out of time"
        found = list(winners())
        print(case, f"{time.perf_counter() - begin:.1f} s, {len(found)} winners", why, flush=True)
        with device.current():
            library, convolutions = blas(device.index), dnn(device.index)
        about = {
            "device": device.identity(), "triton": triton_version(), "cublasLt": library.version if library else None,
            "cudnn": convolutions.version if convolutions else None,
        }  # fmt: skip
        new = {w["problem"]: Config(**w["config"]) for w in found}
        output.parent.mkdir(exist_ok=True)
        output.write_text(table_text(about, {**read(device.chip), **new}))
        if given.times:
            given.times.write_text(json.dumps({"about": about, "problems": found}))


if __name__ == "__main__":
    main()
