"""`exhaustive_tune`: the ways that lowerings have are timed on this machine, and the fastest are kept in the cache.

Each dot and convolution of an optimised program, with its epilogue, is lowered alone in every way that it has
(Winograd or direct, of floats and of bytes, AMX or vectors, rows in blocks of this or that many, narrow floats as they
are or widened, rows copied together or not); equal ones once. The ways take turns, and the least time of each counts.
Before each run a copy drives weights out of the caches of the cores, for in a whole program other layers do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import program_text
from migraphx.passes.manager import graphs
from migraphx.runtime.argument import Argument
from migraphx.runtime.options import NATIVE
from migraphx.targets.common.alone import alone
from migraphx.targets.common.cache import digest, folder, lookup, obtain
from migraphx.targets.common.lowering import LoweringContext, lower
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.steps import lifetimes, steps_of
from migraphx.targets.cpu.choices import Choices, Trial, Ways
from migraphx.targets.cpu.codegen import generate, numbered, table_of
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.executable import CpuExecutable, table_bytes
from migraphx.targets.cpu.isa import instruction_set
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.table import Layout
from migraphx.targets.cpu.toolchain import Features, build, identity

log = logging.getLogger(__name__)
FORMAT = "2"  # of what the cache holds: counts on when its meaning changes
SUFFIX = ".tuned"
ROUNDS = 5
ROUND = 0.01  # seconds that a way's turn takes, about
MOST_RUNS = 50
DRIVEN_OUT = 4 << 20  # bytes that are copied before each run


@dataclass(frozen=True)
class Candidate:
    """A program of one instruction, lowered in one way of each question."""

    program: Program
    ways: Ways
    lowered: LoweringContext


Timer = Callable[[Sequence[Candidate], int, str], Sequence[float]]
"""How many seconds each candidate takes on so many threads, in code for an instruction set."""


def candidates(program: Program, features: Features, fast_math: bool) -> list[Candidate]:
    """Every combination of ways, the one that lowering expects to be fastest first."""
    told: list[Ways] = [{}]
    found: list[Candidate] = []
    while told:
        trial = Trial(told=told.pop(0))
        lowered = lower(program.main, CPU, CppEmitter(features, trial), fast_math)
        found.append(Candidate(program, dict(trial.went), lowered))
        before: Ways = {}
        for question, way in trial.went.items():
            if question not in trial.told:
                told += [before | {question: other} for other in trial.others[question]]
            before = before | {question: way}
    return found


# ---- timing ----


def seconds(tried: Sequence[Candidate], threads: int, isa: str = NATIVE) -> list[float]:
    """The least time of each, in turns: what its own calls take, without the copy of its output."""
    for candidate in tried:
        _drive_out_first(candidate.lowered)
    kernels = numbered([call for c in tried for call in c.lowered.calls])
    library = build(generate(kernels), "candidates", isa)
    machines = [_executable(library, kernels, c, threads) for c in tried]
    inputs = [_random(i.shape) for i in tried[0].program.main.parameters.values()]
    own = [[n for n, ins in enumerate(c.lowered.sources) if ins is not None] for c in tried]
    turns = [(machine, steps, _runs(machine, inputs)) for machine, steps in zip(machines, own, strict=True)]
    least = [float("inf")] * len(tried)
    for _ in range(ROUNDS):
        for k, (machine, steps, runs) in enumerate(turns):
            spent = machine.profile(inputs, runs)
            least[k] = min(least[k], sum(spent[n] for n in steps))
    return least


def _runs(machine: CpuExecutable, inputs: Sequence[Argument]) -> int:
    return max(1, min(MOST_RUNS, int(ROUND / max(sum(machine.profile(inputs, 1)), 1e-9))))


def _drive_out_first(lowered: LoweringContext) -> None:
    read, write = (lowered.temporary(Shape("uint8", (DRIVEN_OUT,))) for _ in range(2))
    lowered.calls.insert(0, lowered.emit.copy(read, write))
    lowered.sources.insert(0, None)


def _executable(library: Path, kernels: dict[Kernel, int], candidate: Candidate, threads: int) -> CpuExecutable:
    lowered, main = candidate.lowered, candidate.program.main
    parameters = {n: i.shape for n, i in main.parameters.items()}
    outputs = [s.as_standard() for s in main.output_shapes]
    arena = plan_memory(lifetimes(lowered.calls))
    layout = Layout(len(lowered.inputs), len(lowered.outputs), len(lowered.weights))
    sizes = table_bytes(arena, parameters.values(), outputs, lowered.weights)
    table = table_of(lowered.calls, kernels, layout, sizes, [0] * len(lowered.calls)).array()
    outline = Outline(parameters, outputs, steps_of(lowered), lowered.checks, arena)
    return CpuExecutable(library, table, outline, lowered.weights, threads)


def _random(shape: Shape) -> Argument:
    """Numbers round 0; integers of few bits."""
    made = Argument.empty(shape)
    numbers = np.random.default_rng(0).standard_normal(shape.lens)
    made.array[...] = (numbers if shape.type in dtypes.FLOATS else numbers * 4).astype(shape.numpy_dtype)
    return made


# ---- choosing ----


@dataclass(frozen=True)
class Tuner:
    """Chooses by measurement, or by an earlier one of the same instruction on a processor and compiler like these."""

    features: Features
    threads: int
    fast_math: bool = True
    timer: Timer = seconds
    isa: str = NATIVE

    def choices(self, module: Module) -> Choices:
        """The fastest ways of every dot and convolution of an optimised main module."""
        same: dict[str, list[Instruction]] = {}
        programs: dict[str, Program] = {}
        for ins in _products(module):
            program = alone(ins)
            text = program_text(program)
            programs.setdefault(text, program)
            same.setdefault(text, []).append(ins)
        winners: dict[Instruction, Ways] = {}
        for text, instructions in same.items():
            winners |= dict.fromkeys(instructions, self._ways(programs[text], text, instructions[0]))
        return Choices(winners)

    def _ways(self, program: Program, text: str, ins: Instruction) -> Ways:
        asked = (str(self.features), str(self.threads), str(self.fast_math), text)
        key = digest("tuned", FORMAT, instruction_set(), *identity(self.isa), *asked)
        kept = _kept(key)
        if kept is not None:
            return kept
        tried = candidates(program, self.features, self.fast_math)
        if len(tried) == 1:
            return {}
        times = self.timer(tried, self.threads, self.isa)
        best = min(range(len(tried)), key=times.__getitem__)
        took = [{"ways": c.ways, "seconds": float(t)} for c, t in zip(tried, times, strict=True)]
        log.info("%s: %s", " ".join((*_named(ins), ins.origin)).strip(), _told(tried, times))
        content = json.dumps({"ways": tried[best].ways, "tried": took})
        obtain(key, SUFFIX, lambda path: path.write_text(content))
        return tried[best].ways


def _products(module: Module) -> Iterator[Instruction]:
    for ins in (i for m in graphs(module) for i in m):
        if ins.op.contraction or (ins.op.fused and any(i.op.contraction for m in ins.modules for i in m)):
            yield ins


def _named(ins: Instruction) -> list[str]:
    """The operator, and those that are fused to it."""
    inner = [i for m in ins.modules for i in m if not i.name.startswith("@")]
    return [i.name for i in inner] or [ins.name]


def _told(tried: Sequence[Candidate], times: Sequence[float]) -> str:
    ranked = sorted(zip(times, tried, strict=True), key=lambda pair: pair[0])
    return ", ".join(f"{' '.join(c.ways.values())} {t * 1e3:.3f} ms" for t, c in ranked)


def _kept(key: str) -> Ways | None:
    """The winners of an earlier measurement; a damaged entry is removed, and the log says so."""
    path = folder() / f"{key}{SUFFIX}"
    if not path.exists():
        return None
    try:
        if lookup(key, SUFFIX) is None:
            raise ValueError("its checksum is wrong, or the folder is not used")
        ways = json.loads(path.read_text())["ways"]
        if not all(isinstance(word, str) for pair in ways.items() for word in pair):
            raise ValueError("its ways are no texts")
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        log.warning("%s is ignored, and measured again: %s", path, error)
        path.unlink(missing_ok=True)
        return None
    return ways
