"""How long a lowered model takes, and each of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tabulate import tabulate
from torch import fx, nn
from torch.utils.benchmark import Measurement, Timer


@dataclass(frozen=True)
class MGXBenchmarkResults:
    """What `benchmark` measured; the submodules' times are by their names."""

    module: nn.Module
    batch_size: int
    full_mod_timer_result: Measurement
    submod_timer_results: Mapping[str, Measurement]

    def table(self) -> str:
        """Mean times in milliseconds, samples a second of the whole, each part's share in percent."""
        whole, parts = self.full_mod_timer_result.mean, self.submod_timer_results
        of_parts = sum(t.mean for t in parts.values())
        rows: list[tuple[Any, ...]] = [("whole model", whole * 1e3, self.batch_size / whole, None)]
        rows += [(name, t.mean * 1e3, None, t.mean / of_parts * 100) for name, t in parts.items()]
        return tabulate(rows, headers=["module", "ms a call", "samples/s", "% of the parts"], floatfmt=".2f")

    def print_tabular(self) -> None:
        """Print the table."""
        print(f"{self.table()}\n")  # noqa: T201  # that is what it is for


class _Noted(fx.Interpreter):
    """Notes what each submodule is called with."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.given: dict[str, tuple[Any, ...]] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.given[str(target)] = args
        return super().call_module(target, args, kwargs)


def benchmark(
    model: nn.Module,
    sample_inputs: Sequence[Any],
    n: int = 100,
    batch_size: int | None = None,
    benchmark_submods: bool = True,
    print_results: bool = True,
) -> MGXBenchmarkResults:
    """The mean time of `n` calls of a lowered model, and of each of its parts.

    `batch_size` is the first length of the tensors among the inputs, unless given; ValueError where they differ.
    """
    if batch_size is None:
        lengths = [x.size(0) for x in sample_inputs if isinstance(x, torch.Tensor) and x.dim()]
        if len(set(lengths)) != 1:
            raise ValueError(f"the batch size is not clear from the inputs, whose first lengths are {lengths}: give it")
        batch_size = lengths[0]
    with torch.no_grad():
        whole = _timed(model, sample_inputs, n)
        given: dict[str, tuple[Any, ...]] = {}
        if benchmark_submods and isinstance(model, fx.GraphModule):
            noted = _Noted(model)
            noted.run(*sample_inputs)
            given = noted.given
        parts = {name: _timed(model.get_submodule(name), args, n) for name, args in given.items()}
    results = MGXBenchmarkResults(model, batch_size, whole, parts)
    if print_results:
        results.print_tabular()
    return results


def _timed(module: nn.Module, inputs: Sequence[Any], n: int) -> Measurement:
    module(*inputs)
    threads = torch.get_num_threads()
    timer = Timer("module(*inputs)", globals={"module": module, "inputs": inputs}, num_threads=threads)
    return timer.timeit(n)
