"""What a new length costs on a GPU.

`python -m benchmarks.gpu.lengths [--lengths 40] [--types half,float] [--engines openmgx_fx,openmgx] [--output FILE]`:
an encoder of MiniLM's size (6 layers of 384, random weights) is lowered once with dynamic tokens, or compiled by
`torch.compile(dynamic=True)`, and runs at so many lengths in random order, each three times in a row, synchronised.
`new` is the first run less the second, in ms (median, 90th percentile, largest); `again` the third; `compiled` the
lengths at which the cache took kernels, which `new` leaves out; `growth` the MB of device memory from the tenth length
to the last; `alone` runs over those of a program that was lowered for the length alone, medians; `error` the largest
difference to eager.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import torch_migraphx.dynamo  # noqa: F401
import torch_migraphx.fx as fx
from benchmarks.lengths import encoder
from benchmarks.models import import_transformers
from migraphx.targets.common.cache import entries

LEAST, MOST = 8, 511
SETTLED, COMPARED, RUNS = 10, 4, 30
TYPES = {"half": torch.float16, "float": torch.float32, "bf16": torch.bfloat16}
Run = Callable[[Tensor, Tensor], Tensor]


def minilm(dtype: torch.dtype, device: str) -> nn.Module:
    library = import_transformers()
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return encoder(library.BertModel(library.BertConfig(**sizes), add_pooling_layer=False)).to(device, dtype)


def sample(length: int, device: str) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 30000, (1, length), device=device)
    return ids, torch.ones_like(ids)


def lowered(model: nn.Module, args: tuple[Tensor, Tensor]) -> Run:
    tokens = torch.export.Dim("tokens", min=2, max=512)
    return fx.lower_to_mgx(model, list(args), dynamic_shapes=({1: tokens}, {1: tokens}), suppress_accuracy_check=True)


def compiled(model: nn.Module, args: tuple[Tensor, Tensor]) -> Run:
    return torch.compile(model, backend="migraphx", dynamic=True, options={"frozen": True})


ENGINES: dict[str, Callable[[nn.Module, tuple[Tensor, Tensor]], Run]] = {"openmgx_fx": lowered, "openmgx": compiled}


def timed(run: Run, args: tuple[Tensor, Tensor]) -> float:
    """Milliseconds of a run, with what it leaves on the device."""
    synchronise()
    begin = time.perf_counter()
    run(*args)
    synchronise()
    return 1e3 * (time.perf_counter() - begin)


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measured(engine: str, dtype: torch.dtype, count: int, device: str) -> dict[str, Any]:
    """One engine at these lengths."""
    model = minilm(dtype, device)
    lengths = np.random.default_rng(0).permutation(np.arange(LEAST, MOST + 1))[:count].tolist()
    begin = time.perf_counter()
    run = ENGINES[engine](model, sample(lengths[0], device))
    new: list[float] = []
    again: list[float] = []
    at: list[int] = []
    free: list[int] = []
    error, kernels = 0.0, sum(1 for _ in entries())
    for k, length in enumerate(lengths):
        args = sample(length, device)
        first, second, third = (timed(run, args) for _ in range(3))
        before, kernels = kernels, sum(1 for _ in entries())
        again.append(third)
        if k and kernels == before:
            new.append(first - second)
        else:
            at.append(length)
        if k % 8 == 0:
            error = max(error, float((run(*args).float() - model(*args).float()).abs().max()))
        free.append(torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0)
    spent = time.perf_counter() - begin
    ratios = [ratio(run, model, sample(n, device)) for n in lengths[:COMPARED]] if engine == "openmgx_fx" else []
    return {
        "new": percentiles(new), "again": percentiles(again), "compiled": at, "error": error, "alone": ratios,
        "growth": round((free[min(SETTLED, count - 1)] - free[-1]) / 1e6, 1), "seconds": round(spent, 1),
    }  # fmt: skip


def ratio(run: Run, model: nn.Module, args: tuple[Tensor, Tensor]) -> float:
    """The run over that of a program for this length alone, in turn."""
    alone = fx.lower_to_mgx(model, list(args), suppress_accuracy_check=True)
    spent: list[list[float]] = [[], []]
    for _ in range(RUNS):
        for own, one in zip(spent, (run, alone), strict=True):
            own.append(timed(one, args))
    return round(statistics.median(spent[0]) / statistics.median(spent[1]), 3)


def percentiles(ms: list[float]) -> list[float]:
    return [round(float(np.percentile(ms, p)), 3) for p in (50, 90, 100)] if ms else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, default=40)
    parser.add_argument("--types", default="half,float")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    found: dict[str, Any] = {}
    for engine in given.engines.split(","):
        for name in given.types.split(","):
            torch._dynamo.reset()
            found[f"{engine} {name}"] = measured(engine, TYPES[name], given.lengths, given.device)
            print(f"{engine} {name}", json.dumps(found[f"{engine} {name}"]), flush=True)
            if given.output:
                given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
