"""Answers a second: one caller with all threads, many callers with one thread each, and batches.

python -m examples.throughput [resnet18]
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from benchmarks.models import import_torchvision
from torch_migraphx.fx import lower_to_mgx

CORES = len(os.sched_getaffinity(0))


def model_of(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A model with random weights, and the shape of one input."""
    if name == "resnet18":
        return import_torchvision().models.resnet18().eval(), (3, 224, 224)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).eval(), (16,)


def rate(run: Callable[[Tensor], Tensor], x: Tensor, callers: int, seconds: float) -> float:
    """Inputs answered in a second by callers that do not wait for each other."""
    until = time.perf_counter() + seconds

    def call(_: int) -> int:
        count = 0
        while time.perf_counter() < until:
            run(x)
            count += 1
        return count

    with torch.no_grad(), ThreadPoolExecutor(callers) as pool:
        start = time.perf_counter()
        calls = sum(pool.map(call, range(callers)))
        return calls * len(x) / (time.perf_counter() - start)


def main(arguments: Sequence[str] = ()) -> None:
    """Print a line for each way."""
    name = arguments[0] if arguments else ""
    seconds = 4.0 if name else 0.1
    model, shape = model_of(name)
    ways = [(1, 1, 0), (CORES, 1, 0), (CORES, 1, 1), (1, 8, 0), (CORES, 8, 1)]
    print(f"{CORES} cores\n{'callers':>8}{'threads a run':>15}{'batch':>7}{'inputs/s':>10}")
    for callers, batch, threads in ways:
        x = torch.randn(batch, *shape)
        lowered = lower_to_mgx(model, [x], num_threads=threads)
        speed = rate(lowered, x, callers, seconds)
        print(f"{callers:8}{threads or 'all':>15}{batch:7}{speed:10.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
