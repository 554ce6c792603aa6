"""The shipped table of target gpu: configurations that make a whole model fastest.

`python -m benchmarks.gpu.tune_model [--case resnet50_b1] [--problems 'product .*'] [--seconds 300] [--output FILE]`
begins with what the table says, tries other configurations of each contraction whose key begins so in the compiled
model, one contraction at a time, and writes those with which synchronised runs are shorter into the table of this
device's chip. A kernel that is timed among copies of itself (benchmarks.gpu.tune_table) is not what it is in a model of
batch 1: there the ends of other kernels overlap with its begin, and libraries' kernels with nothing.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

from benchmarks.gpu.models import timed
from benchmarks.gpu.profile import made
from migraphx.ir.program import Program
from migraphx.passes.manager import run_passes
from migraphx.runtime.argument import Argument
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.steps import literals
from migraphx.targets.gpu.accelerator import Accelerator
from migraphx.targets.gpu.binaries import CompilerError, binaries
from migraphx.targets.gpu.choices import LIBRARIES, Build, Choices, Config, Problem
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.executable import GpuExecutable
from migraphx.targets.gpu.kernel import Kernel
from migraphx.targets.gpu.tables import path_of, read, table_text, written
from migraphx.targets.gpu.target import PASSES, GpuTarget
from migraphx.targets.gpu.tune import kernels_of
from torch_migraphx.fx import MGXInterpreter
from torch_migraphx.fx.tracer.acc_tracer import acc_tracer

BEST_GUESSES, OF_ONE_TILE, OF_LIBRARIES, MOST = 8, 3, 4, 16  # configurations of a problem that are tried
SECONDS, ROUNDS = 0.15, 3  # of runs of one configuration; of them and of what was best before, in turn
GAIN, SHARE = 0.25e-6, 5e-4  # seconds of a model, and its share of them, from which on a configuration is taken


class Trying(GpuTarget):
    """Compiles with the configurations `given`, else with what the table says; notes what there is to try."""

    def __init__(self, accelerator: Accelerator, program: Program) -> None:
        super().__init__(accelerator, Constants(lasting=partial(literals, program)))
        self.given: dict[str, Config] = {}
        self.used: dict[str, Config] = {}
        self.others: dict[str, list[Config]] = {}
        self.kernels: dict[Kernel, None] = {}

    def choices(self, options: CompileOptions) -> Choices:
        choices = super().choices(options)

        def measure(problem: Problem, candidates: Sequence[Config], build: Build) -> Config:
            config = self.given.get(problem.key) or choices.known(problem)
            if config is None or config not in candidates:
                config = candidates[0]
            if problem.key not in self.others and config.kernel != "vector":
                self.used[problem.key] = config
                self.others[problem.key] = worth_trying(config, candidates)
                for other in self.others[problem.key]:
                    self.kernels |= dict.fromkeys(kernels_of(build(other)))
            return config

        choices.measure = measure
        return choices


def worth_trying(config: Config, candidates: Sequence[Config]) -> list[Config]:
    """Other parts of the depth with the same tile, other tiles with as many, the best guesses, of libraries too."""
    own = [c for c in candidates if c.kernel not in LIBRARIES and c != config]
    tile = (config.kernel, config.m, config.n, config.k, config.warps, config.stages)
    same = [c for c in own if (c.kernel, c.m, c.n, c.k, c.warps, c.stages) == tile][:OF_ONE_TILE]
    as_many = [c for c in own if (c.split, c.tail) == (config.split, 1)][: BEST_GUESSES + 1]
    library = [c for c in candidates if c.kernel in LIBRARIES and c != config][:OF_LIBRARIES]
    return list(dict.fromkeys([*library, *same, *as_many, *own[:BEST_GUESSES]]))[:MOST]


class Model:
    """A case's program with arguments on the device."""

    def __init__(self, case: str, device: Accelerator) -> None:
        model, inputs = made(case)
        interpreter = MGXInterpreter(acc_tracer.trace_leaves(model, list(inputs)), list(inputs))
        self.program, self.inputs = interpreter.run().graph, inputs
        run_passes(self.program, PASSES)  # once: they leave an optimised program as it is
        self.target = Trying(device, self.program)

    def compiled(self) -> GpuExecutable:
        executable = self.target.compile(self.program.clone(), CompileOptions(offload_copy=False))
        assert isinstance(executable, GpuExecutable)
        return executable

    def seconds(self, executable: GpuExecutable) -> float:
        """Of a synchronised run: the median."""
        device = self.target.accelerator
        with device.current():
            results = [Argument.empty(s, device) for s in executable.outputs]
        places = [x.data_ptr() for x in self.inputs], [a.pointer for a in results]
        stream = torch.cuda.current_stream().cuda_stream
        return 1e-3 * timed(lambda: executable.run_at(*places, stream), "cuda", SECONDS)["ms"]


def improvements(
    model: Model, best: GpuExecutable, keys: re.Pattern[str], end: float
) -> Iterator[tuple[str, Config, float]]:
    """Problems with configurations that are faster than in `best`, and the seconds that each takes off."""
    target = model.target
    with suppress(CompilerError):  # what does not compile is passed over below
        binaries(list(target.kernels), target.accelerator.chip)
    for problem, configs in [*target.others.items()]:  # others bring problems of their own
        if not keys.match(problem):
            continue
        if time.perf_counter() > end:
            print("no time left for", problem)
            return
        known, found = dict(target.given), list[tuple[float, int, Config, GpuExecutable]]()
        for n, config in enumerate(configs):
            target.given = {**known, problem: config}
            with suppress(CompilerError):
                tried = model.compiled()
                found.append((model.seconds(tried), n, config, tried))
        target.given = known
        if not found:
            continue
        _, _, config, other = min(found, key=lambda f: f[:2])
        times = [(model.seconds(best), model.seconds(other)) for _ in range(ROUNDS)]
        gain = statistics.median(before - after for before, after in times)
        if gain > max(GAIN, SHARE * times[0][0]):
            best, target.given[problem] = other, config
            yield problem, config, gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="resnet50_b1")
    parser.add_argument("--problems", type=re.compile, default=re.compile(""), help="what their keys begin with")
    parser.add_argument("--seconds", type=float, default=300, help="begin no contraction after these")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    end, device = time.perf_counter() + given.seconds, current_device()
    model = Model(given.case, device)
    before, found = model.compiled(), dict[str, Config]()
    for problem, config, gain in improvements(model, before, given.problems, end):
        print(f"{problem}: {model.target.used[problem]} -> {config}, {1e6 * gain:.2f} us less", flush=True)
        found[problem] = config
    after = model.compiled()
    times = [[1e6 * model.seconds(e) for _ in range(ROUNDS)] for e in (before, after)]
    print("microseconds before and after:", *(f"{statistics.median(t):.1f}" for t in times))
    output = given.output or path_of(device.chip)
    output.parent.mkdir(exist_ok=True)
    output.write_text(table_text(written(device.chip), {**read(device.chip), **found}))


if __name__ == "__main__":
    main()
