"""python -m benchmarks.weights: what torch.compile's look at the weights costs, and its call over lower_to_mgx.

For each model, in microseconds, medians of calls in turn: the look alone (by pages, by comparison), a call of
lower_to_mgx, of torch.compile with and without frozen=True, and what the calls cost when the program runs nothing;
"dynamo" is torch.compile with a backend that does nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import migraphx
from benchmarks.models import build
from torch_migraphx.dynamo import write_tracking
from torch_migraphx.dynamo.write_tracking import Tracker, Watch
from torch_migraphx.fx import lower_to_mgx


def medians(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Microseconds of each call; they take turns, so that each finds the caches as the others leave them."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            took[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds[rounds // 5 :]) * 1e6 for name, seconds in took.items()}


def looks(tensors: Sequence[torch.Tensor]) -> dict[str, Callable[[], Any]]:
    """A look at the tensors, each way that this system has."""
    by_pages, by_comparison = write_tracking.tracker(), Tracker()
    by_comparison.pages = None
    watches = {"comparison": Watch(tensors, by_comparison)}
    if by_pages.pages is not None:
        watches["pages"] = Watch(tensors, by_pages)
    return {name: watch.clean for name, watch in watches.items()}


def of_its_own(function: Any, line: int) -> Any:
    """With code that no other function has: Dynamo tries what it compiled for a code one after the other."""
    function.__code__ = function.__code__.replace(co_firstlineno=line)
    return function


def measure(name: str, rounds: int) -> None:
    model, inputs = build(name)
    calls: dict[str, Any] = {"lower_to_mgx": lower_to_mgx(model, list(inputs))}
    answer = model(*inputs)
    for kind, backend in {
        "torch.compile": {"backend": "migraphx"},
        "frozen": {"backend": "migraphx", "options": {"frozen": True}},
        "dynamo": {"backend": lambda gm, inputs: lambda *args: [answer]},
    }.items():
        calls[kind] = torch.compile(of_its_own(lambda *x: model(*x), len(calls)), **backend)
        calls[kind](*inputs)
    bound = {kind: lambda call=call: call(*inputs) for kind, call in calls.items()}
    full = medians(bound, rounds)
    full |= medians(looks([*model.parameters(), *model.buffers()]) | {"between": bound["lower_to_mgx"]}, rounds)
    run, migraphx.program.run_at = migraphx.program.run_at, lambda *_: None  # type: ignore[method-assign]
    empty = medians(bound, 10 * rounds)
    migraphx.program.run_at = run
    full.pop("between")
    print(name, *(f"{k} {v:.0f}" for k, v in full.items()), flush=True)
    print(name, "running nothing:", *(f"{k} {v:.0f}" for k, v in empty.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mobilenet_v2,resnet50,bert,gpt2")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    with torch.no_grad():
        for name in arguments.models.split(","):
            measure(name, arguments.rounds)


if __name__ == "__main__":
    main()
