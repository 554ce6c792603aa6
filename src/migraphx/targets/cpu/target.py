"""Target `cpu`: C++ for the whole program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape
from migraphx.ir.size import Sizes
from migraphx.passes.concat_late import concat_late
from migraphx.passes.fuse_attention import fuse_attention_but_of
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.interface import Pass
from migraphx.passes.layout import layout
from migraphx.passes.manager import run_passes
from migraphx.passes.pipeline import optimize_with
from migraphx.passes.pixels_first import pixels_first
from migraphx.passes.scale_weights import scale_weights
from migraphx.runtime.cores import available
from migraphx.runtime.device import HOST, Device, Peaks
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.dynamic import DynamicExecutable, restored
from migraphx.targets.common.form_table import FormTable
from migraphx.targets.common.lowering import LoweringContext, lower
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.progress import Stages
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.specialise import runs_in_parts
from migraphx.targets.common.steps import constants_of, lifetimes, literals, steps_of
from migraphx.targets.common.supports import Asked, supported
from migraphx.targets.cpu.choices import Choices
from migraphx.targets.cpu.codegen import Table, generate, numbered, shared_sources, table_of
from migraphx.targets.cpu.diagnose import CHECKS
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.executable import CpuExecutable, Idle, restore, table_bytes
from migraphx.targets.cpu.forms import CpuForm, restore_form, with_plain_kernels
from migraphx.targets.cpu.headers import constant
from migraphx.targets.cpu.helpers import library_path
from migraphx.targets.cpu.isa import check_processor
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.peaks import measure_peaks
from migraphx.targets.cpu.table import Layout
from migraphx.targets.cpu.toolchain import Features, build, build_objects, features
from migraphx.targets.cpu.tune import Timer, Tuner, seconds
from migraphx.targets.cpu.work import nanoseconds
from migraphx.targets.target import Target, UnsupportedOperator

log = logging.getLogger(__name__)
MOST_LOOPS, MOST_VIEWS = (constant(name, "program.hpp") for name in ("MOST_LOOPS", "MOST_VIEWS"))

_shared = optimize_with(fuse_attention_but_of("double"))  # attention.hpp sums in float
_layout_at, _fuse_at = _shared.index(layout), _shared.index(fuse_reduce)
PASSES: list[Pass] = [
    *_shared[:_layout_at],
    scale_weights,  # no pass over the image for its gates
    *_shared[_layout_at:_fuse_at],
    pixels_first,  # before norms become kernels
    *_shared[_fuse_at:],
    concat_late,  # before what it joins has an epilogue
    fuse_epilogue,  # into the dot or convolution before
]


class CpuTarget(Target):
    """Generates C++ for the whole program and compiles it; programs may have their constants in common."""

    name = "cpu"
    device: Device = HOST
    passes: Sequence[Pass] = PASSES
    tunes = True
    levels = True

    def __init__(self, constants: Constants | None = None, timer: Timer = seconds) -> None:
        """`timer` times the ways of `exhaustive_tune`."""
        self.constants, self.timer = constants, timer
        self._asked: Asked = {}
        self._memory = Idle()  # of all forms of a program: they run one after the other

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        return supported(ins, CPU, PASSES, self._asked)

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        found: list[Refusal[Instruction]] = []
        run_passes(program, PASSES, refusals=found)
        choices = self._tuner(options).choices(program.main) if options.exhaustive_tune else Choices()
        emitter = CppEmitter(features(options.isa), choices)
        return [*found, *lower(program.main, CPU, emitter, options.fast_math).refusals]

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        if runs_in_parts(program):
            target = CpuTarget(constants_of(program, options), self.timer)
            return DynamicExecutable.of(target, program, options, available(), target)
        check_processor(options.isa)
        stages = Stages()

        def choose(main: Module) -> Choices:
            if not options.exhaustive_tune:
                return Choices()
            with stages("tuning"):
                return self._tuner(options).choices(main)

        made = translate(program, options, features(options.isa), self.constants, stages, choose)
        with stages("compiler or cache"):
            library = build(made.sources, "program", options.isa)
        log.info("compiled in %s", stages)
        weights = made.lowered.weights
        return CpuExecutable(library, made.table, made.outline, weights, options.num_threads, options.isa)

    def compile_ahead(self, program: Program, options: CompileOptions) -> None:
        """And first what is no program's: whoever compiles ahead asks whether weights were written before it runs."""
        check_processor(options.isa)
        library_path()
        lowered = _lowered(program, options, features(options.isa), None, Stages())
        build_objects(shared_sources(numbered(lowered.calls)), options.isa)

    def form(self, program: Program, options: CompileOptions, sizes: Sizes) -> CpuForm | None:
        """The program, whose lens are made of `sizes`, for all lengths of which their guards hold.

        None where the ways of its lowerings are measured, which is done at lengths.
        """
        if options.exhaustive_tune:
            return None
        check_processor(options.isa)
        stages = Stages()
        table, sources, weights = translate_form(program, options, features(options.isa), sizes, self.constants, stages)
        with stages("compiler or cache"):
            library = build(sources, "program", options.isa)
        log.info("compiled in %s", stages)
        return CpuForm(library, table, weights, options.num_threads, options.isa, self._memory)

    def peaks(self, threads: int) -> Peaks:
        return measure_peaks(threads)

    def diagnose(self) -> Mapping[str, Callable[[], str]]:
        return CHECKS

    def _tuner(self, options: CompileOptions) -> Tuner:
        threads = options.num_threads or available()
        return Tuner(features(options.isa), threads, options.fast_math, self.timer, options.isa)

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        check_processor(options.isa)
        if "dynamic" not in data:
            return restore(data, tensors, trust_code, options)
        target = CpuTarget(Constants(tensors.values(), lambda: literals(program())))
        return restored(
            target,
            data["dynamic"],
            tensors,
            lambda one, own: restore(one, own, trust_code, options),
            program,
            options,
            available(),
            target,
            lambda one, own: target.restore_form(one, own, trust_code, options),
        )

    def restore_form(
        self, data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions
    ) -> CpuForm | None:
        """What `CpuForm.sections` described; None where its code is neither in the cache nor trusted."""
        return restore_form(data, tensors, trust_code, options, self._memory)


def _check_limits(lowered: LoweringContext) -> None:
    """UnsupportedOperator for what program.hpp has no room for."""
    calls = zip(lowered.sources, lowered.calls, strict=True)
    refusals = [
        Refusal(ins, "target cpu", f"it has more than {MOST_VIEWS} operands: {call.label}")
        for ins, call in calls
        if ins is not None and len(call.views) > MOST_VIEWS
    ]
    if lowered.slots > MOST_LOOPS:
        why = f"it runs at most {MOST_LOOPS} loops in one program, this has {lowered.slots}"
        refusals += [Refusal(ins, "target cpu", why) for ins in lowered.module if ins.modules and not ins.op.fused]
    if refusals:
        raise UnsupportedOperator("cpu", refusals)


@dataclass(frozen=True)
class Translation:
    """A program as C++ sources and a table of steps: what a compiler and an executable make a run of."""

    lowered: LoweringContext
    outline: Outline
    layout: Layout
    table: np.ndarray
    sources: list[str]


def translate(
    program: Program,
    options: CompileOptions,
    features: Features,
    constants: Constants | None = None,
    stages: Stages | None = None,
    choose: Callable[[Module], Choices] = lambda _: Choices(),
) -> Translation:
    """Optimise, lower and generate: all of `compile` that needs no C++ compiler. Changes the program.

    `choose` says of the optimised program which of several ways lowerings go. The result depends on the arguments
    alone, whatever the processor and its threads. UnsupportedOperator where an instruction has no kernel.
    """
    stages = stages or Stages()
    parameters = {n: i.shape for n, i in program.main.parameters.items()}
    lowered = _lowered(program, options, features, constants, stages, choose)
    arena = plan_memory(lifetimes(lowered.calls))
    outline, layout, table, sources = _written(parameters, lowered, arena, stages)
    return Translation(lowered, outline, layout, table.array(), sources)


def translate_form(
    program: Program,
    options: CompileOptions,
    features: Features,
    sizes: Sizes,
    constants: Constants | None = None,
    stages: Stages | None = None,
) -> tuple[FormTable, list[str], list[np.ndarray]]:
    """As `translate`, of a program whose lens are made of `sizes`: the table, the sources, the weights."""
    stages = stages or Stages()
    parameters = {n: i.shape for n, i in program.main.parameters.items()}
    lowered = _lowered(program, options, features, constants, stages)
    lowered.calls = with_plain_kernels(lowered.calls, sizes)
    outline, _, table, sources = _written(parameters, lowered, 0, stages)
    made = FormTable(sizes, table.entries, table.placed, outline, lifetimes(lowered.calls))
    return made, sources, lowered.weights


def _lowered(
    program: Program, options: CompileOptions, features: Features, constants: Constants | None, stages: Stages,
    choose: Callable[[Module], Choices] = lambda _: Choices(),
) -> LoweringContext:  # fmt: skip
    """The program's calls; as `translate`."""
    with stages("passes"):
        run_passes(program, PASSES)
    choices = choose(program.main)
    with stages("lowering"):
        lowered = lower(program.main, CPU, CppEmitter(features, choices), options.fast_math, constants)
        _check_limits(lowered)
    return lowered


def _written(
    parameters: dict[str, Shape], lowered: LoweringContext, arena: int, stages: Stages
) -> tuple[Outline, Layout, Table, list[str]]:
    """What the calls are as an outline, a table, and sources; `arena`: bytes."""
    layout = Layout(len(lowered.inputs), len(lowered.outputs), len(lowered.weights))
    outputs = [s.as_standard() for s in lowered.module.output_shapes]
    sizes = table_bytes(arena, parameters.values(), outputs, lowered.weights)
    with stages("C++ text"):
        kernels, steps = numbered(lowered.calls), steps_of(lowered)
        work = list(map(nanoseconds, lowered.calls, lowered.sources, (s.flops for s in steps)))
        table, sources = table_of(lowered.calls, kernels, layout, sizes, work), generate(kernels)
    return Outline(parameters, outputs, steps, lowered.checks, arena, lowered.in_place), layout, table, sources
