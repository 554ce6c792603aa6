"""Target `gpu`: Triton kernels, compiled ahead, on a device's memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape
from migraphx.ir.size import Sizes
from migraphx.passes.add_late import add_late
from migraphx.passes.add_to_parts import add_to_parts
from migraphx.passes.broadcast_first import broadcast_first
from migraphx.passes.fold_norms import fold_norms
from migraphx.passes.fuse_attention import fuse_attention
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.passes.narrow_products import narrow_products
from migraphx.passes.pipeline import optimize
from migraphx.passes.rotate_halves import rotate_halves
from migraphx.passes.simplify_algebra import simplify_algebra
from migraphx.passes.split_gates import split_gates
from migraphx.passes.widen_late import widen_late
from migraphx.runtime.device import HOST, Device, Peaks
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common import dynamic
from migraphx.targets.common.call import Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.lowering import LoweringContext, lower
from migraphx.targets.common.plan_memory import plan_memory
from migraphx.targets.common.progress import Stages
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.specialise import runs_in_parts
from migraphx.targets.common.steps import lifetimes, literals, steps_of
from migraphx.targets.common.supports import Asked, supported
from migraphx.targets.gpu.accelerator import ALIGNMENT, Accelerator
from migraphx.targets.gpu.choices import Choices
from migraphx.targets.gpu.diagnose import CHECKS
from migraphx.targets.gpu.emit.emitter import TritonEmitter
from migraphx.targets.gpu.executable import GpuExecutable, restored
from migraphx.targets.gpu.facts import facts_of
from migraphx.targets.gpu.forms import GpuForm, has_sizes
from migraphx.targets.gpu.kernel import Kernel, Launch
from migraphx.targets.gpu.libraries.blas import algorithms_on
from migraphx.targets.gpu.libraries.dnn import plans_on
from migraphx.targets.gpu.libraries.find import versions
from migraphx.targets.gpu.lower import GPU
from migraphx.targets.gpu.lower.alike import merge_alike
from migraphx.targets.gpu.lower.reduce import drop_unread
from migraphx.targets.gpu.peaks import measure_peaks
from migraphx.targets.gpu.plan import Plan
from migraphx.targets.gpu.slots import Slots
from migraphx.targets.gpu.tables import shipped
from migraphx.targets.gpu.tune import Tuner
from migraphx.targets.target import Target

log = logging.getLogger(__name__)

SIMPLE, FUSING = optimize.index(fuse_attention), optimize.index(fuse_reduce)
PASSES: list[Pass] = [
    narrow_products,  # before constants are folded into floats
    *optimize[:SIMPLE],
    fold_norms,  # of narrow floats, into weights that libraries take
    simplify_algebra,  # the biases of both sides of an addition meet
    *optimize[SIMPLE:FUSING],
    widen_late,  # a norm reads half what a product would store
    add_late,  # a norm adds what libraries do not
    split_gates,  # one kernel computes a gate and what it lets through
    add_to_parts,  # positions, before patches stand beside a token
    rotate_halves,  # no kernels for what is a view
    broadcast_first,  # a launch for a few numbers takes longer than to compute them again
    *optimize[FUSING:],
    fuse_epilogue,  # into the dot or convolution before
]


class GpuTarget(Target):
    """Compiles programs for one accelerator; they may have their constants in common.

    `device` is where the programs' arguments lie.
    """

    name = "gpu"
    passes: Sequence[Pass] = PASSES
    tunes = True

    def __init__(
        self,
        accelerator: Accelerator,
        constants: Constants | None = None,
        device: Device | None = None,
        slots: Slots | None = None,
    ) -> None:
        """`slots`: where its programs run, in turn; without it each has memory of its own."""
        self.accelerator, self.constants, self._slots = accelerator, constants, slots
        self.device: Device = device or accelerator
        self._asked: Asked = {}

    def supports(self, ins: Instruction) -> Refusal[Instruction] | None:
        return supported(ins, GPU, PASSES, self._asked)

    def refusals(self, program: Program, options: CompileOptions) -> Sequence[Refusal[Instruction]]:
        found: list[Refusal[Instruction]] = []
        run_passes(program, PASSES, refusals=found)
        return [*found, *self._lowered(program, replace(options, exhaustive_tune=False)).refusals]

    def peaks(self, threads: int) -> Peaks:
        return measure_peaks(self.accelerator)

    def diagnose(self) -> Mapping[str, Callable[[], str]]:
        return CHECKS

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        if runs_in_parts(program):
            target = self._dynamic(Constants(lasting=lambda: literals(program)), options)
            return dynamic.DynamicExecutable.of(target, program, options, 1, target)
        stages = Stages()
        parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        with stages("passes"):
            run_passes(program, PASSES)
        with self.accelerator.ahead() as want:
            with stages("lowering"):
                lowered = self._lowered(program, options, want)
                arena = plan_memory(lifetimes(lowered.calls), ALIGNMENT)
                plan = Plan.of(lowered.calls, arena, lowered.slots)
            outputs = [s.as_standard() for s in program.main.output_shapes]
            with stages("compiler or cache, and weights"):
                outline = Outline(parameters, outputs, steps_of(lowered), lowered.checks, arena)
                copies, slots = options.offload_copy, self._slots
                keep = self.constants is not None
                made = GpuExecutable(self.accelerator, plan, outline, lowered.weights, copies, (), slots, keep)
        log.info("compiled in %s", stages)
        return made

    def form(self, program: Program, options: CompileOptions, sizes: Sizes) -> GpuForm | None:
        """The program, whose lens are made of `sizes`, for all lengths of which their guards hold.

        None where candidates are timed, which is done at lengths.
        """
        if options.exhaustive_tune or self._slots is None:
            return None
        stages = Stages()
        parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        with stages("passes"):
            run_passes(program, PASSES)
        device = self.accelerator
        with device.ahead() as want:
            with stages("lowering"):
                lowered = self._lowered(program, options, want)
            outputs = [s.as_standard() for s in program.main.output_shapes]
            with stages("compiler or cache"):
                outline = Outline(parameters, outputs, steps_of(lowered), lowered.checks, 0)
                copies, calls = options.offload_copy, lowered.calls
                made = GpuForm(device, sizes, calls, lowered.slots, outline, lowered.weights, copies, self._slots)
        log.info("compiled in %s", stages)
        return made

    def choices(self, options: CompileOptions) -> Choices:
        """What is known of the device and of problems that were measured; of others the best guess is taken."""
        device = self.accelerator
        facts = facts_of(device.chip, device.identity())
        if not options.fast_math:  # floats are multiplied as they are
            facts = replace(facts, third_flops=0)
        choices = Choices(facts, shipped(device.chip, versions()), recall=Tuner(device).recall)
        choices.algorithms, choices.plans = algorithms_on(device), plans_on(device)
        return choices

    def _lowered(
        self, program: Program, options: CompileOptions, want: Callable[[Kernel], None] = lambda _: None
    ) -> LoweringContext:
        """The calls of an optimised program, with the kernels that suit the device; `want` is told of these early."""

        def watch(call: Call[Any]) -> None:
            if isinstance(call.kernel, Launch) and not has_sizes(call.kernel.kernel):
                want(call.kernel.kernel)

        choices = self.choices(options)
        if options.exhaustive_tune:
            tuner = Tuner(self.accelerator)
            choices.measure = tuner.want
            lower(program.main, GPU, TritonEmitter(choices), options.fast_math, self.constants)
            tuner.compile()
            choices.made.clear()
            choices.measure = tuner.winner
        lowered = lower(program.main, GPU, TritonEmitter(choices), options.fast_math, self.constants, watch)
        drop_unread(lowered)
        merge_alike(lowered)
        return lowered

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        def one(data: dict[str, Any], own: dict[str, np.ndarray], slots: Slots | None = None) -> Executable | None:
            return restored(self.accelerator, data, own, trust_code, options.offload_copy, slots)

        if "dynamic" not in data:
            return one(data, tensors)
        target = self._dynamic(Constants(tensors.values(), lambda: literals(program())), options)
        one = partial(one, slots=target._slots)
        return dynamic.restored(target, data["dynamic"], tensors, one, program, options, 1, target)

    def _dynamic(self, constants: Constants, options: CompileOptions) -> GpuTarget:
        """For one program at several lengths."""
        device = HOST if options.offload_copy else self.accelerator
        return GpuTarget(self.accelerator, constants, device, Slots(self.accelerator))
