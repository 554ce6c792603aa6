"""Where the time of a model goes on a GPU: kernel by kernel, and on the host.

`python -m benchmarks.gpu.profile [--cases vit_b16_b32,resnet50_b32/int8] [--output FILE]` lowers each case of
benchmarks.gpu.models, in the type behind the slash where there is one, each in a process of its own, and prints kernels
of one kind and size together: count, microseconds of each, share of the bandwidth or of the operations that the device
has. With `--calls` it measures the host instead: microseconds of a call that nobody waits for, of `lower_to_mgx`, of
`torch.compile` with and without `frozen`, and of a backend of Dynamo's that computes nothing.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import torch_migraphx.fx as fx
from benchmarks.gpu.models import CASES, ENGINES, quantized_module
from benchmarks.models import randomize
from migraphx.runtime.argument import Argument
from torch_migraphx.fx.mgx_module import MGXModule

RUNS, CALLS = 20, 100
SECONDS = 200


def made(case: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model and its inputs on the device."""
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    chosen = CASES[case.partition("/")[0]]
    with torch.device("cuda"):
        model = randomize(chosen.build()).to(chosen.dtype)
    inputs = tuple(x.to("cuda", chosen.dtype) if x.is_floating_point() else x.cuda() for x in chosen.inputs())
    return model, inputs


def milliseconds(run: Callable[[], Any]) -> dict[str, float]:
    """Of a call alone, of one among many, and of the host's part."""
    for _ in range(10):
        run()
    torch.cuda.synchronize()
    alone, host = [], []
    for _ in range(CALLS):
        begin = time.perf_counter()
        run()
        host.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        alone.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(CALLS):
        run()
    torch.cuda.synchronize()
    many = (time.perf_counter() - begin) / CALLS
    return {
        "alone": 1e3 * statistics.median(alone), "among_many": 1e3 * many, "host": 1e3 * statistics.median(host),
    }  # fmt: skip


def kernels(case: str) -> dict[str, Any]:
    """A case's kernels, the costliest first."""
    (model, inputs), narrow = made(case), case.partition("/")[2]
    if narrow:
        lowered, inputs = quantized_module(narrow, model, inputs)
    else:
        lowered = fx.lower_to_mgx(model, list(inputs), suppress_accuracy_check=True)
    found: dict[tuple[str, int, int], list[float]] = {}
    for module in lowered.modules():
        if not isinstance(module, MGXModule) or module.program is None:
            continue
        executable = module.program.executable
        given = dict(zip(module.input_names, inputs, strict=True))
        arguments = [Argument.of(np.ascontiguousarray(given[n].cpu().numpy())) for n in executable.parameters]
        times = executable.profile(arguments, RUNS)
        for step, seconds in zip(executable.steps, times, strict=True):
            found.setdefault((step.kernel, step.bytes, step.flops), []).append(seconds * 1e6)
    lines = [
        {
            "kernel": kernel, "count": len(times), "us": statistics.mean(times), "bytes": nbytes, "flops": flops,
            "GB/s": nbytes / statistics.mean(times) / 1e3, "TFLOP/s": flops / statistics.mean(times) / 1e6,
        }
        for (kernel, nbytes, flops), times in found.items()
    ]  # fmt: skip
    lines.sort(key=lambda line: -line["count"] * line["us"])
    total = sum(line["count"] * line["us"] for line in lines)
    return {"ms": milliseconds(lambda: lowered(*inputs)), "sum_us": total, "kernels": lines}


def calls(case: str) -> dict[str, Any]:
    """What calls of a case cost the host."""
    model, inputs = made(case)
    answer = model(*inputs)

    def nothing(graph: torch.fx.GraphModule, samples: Sequence[Any]) -> Callable[..., Any]:
        return lambda *args: (answer,)

    empty = torch.compile(model, backend=nothing)
    found: dict[str, Any] = {"dynamo": milliseconds(lambda: empty(*inputs))}
    torch._dynamo.reset()
    for engine in ("openmgx_fx", "openmgx", "openmgx_frozen"):
        run = ENGINES[engine](model, inputs)
        found[engine] = milliseconds(run)
        if engine != "openmgx_frozen":
            profiler = cProfile.Profile()
            profiler.enable()
            for _ in range(CALLS):
                run()
            profiler.disable()
            text = io.StringIO()
            pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(18)
            found[f"{engine} profile"] = text.getvalue().splitlines()[3:]
        torch._dynamo.reset()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="vit_b16_b32")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", metavar="CASE", help="in this process; prints one line of JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(calls(given.one) if given.calls else kernels(given.one)))
        return
    results: dict[str, Any] = {}
    for case in given.cases.split(","):
        command = [sys.executable, "-m", "benchmarks.gpu.profile", "--one", case, *(["--calls"] if given.calls else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            out, failed = done.stdout, done.stderr.strip()[-1500:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            out, failed = "", f"took more than {SECONDS} s"
        results[case] = {"failed": failed} if failed else json.loads(out.strip().splitlines()[-1])
        if failed or given.calls:
            print(case, json.dumps(results[case], indent=1)[:6000], flush=True)
        else:
            print(case, results[case]["ms"], f"{results[case]['sum_us']:.0f} us in kernels", flush=True)
            for n in results[case]["kernels"][:14]:
                rates = f"{n['GB/s']:7.0f} GB/s {n['TFLOP/s']:6.1f} TFLOP/s"
                print(f"  {n['count']:3} x {n['us']:7.1f} us {rates} {n['kernel'][:70]}", flush=True)
        if given.output:
            given.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
