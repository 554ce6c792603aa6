"""Target `cpu`: C++ for the whole program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from migraphx.ir.operation import Literal
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.text import instruction_text, names_of
from migraphx.ops.cost import flops
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.manager import Pass, run_passes
from migraphx.passes.pipeline import optimize
from migraphx.runtime.executable import Executable, Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.call import LOOP, Call
from migraphx.targets.common.constants import Constants
from migraphx.targets.common.dynamic import DynamicExecutable, restored
from migraphx.targets.common.lowering import Lowered, lower
from migraphx.targets.common.plan_memory import Lifetime, plan_memory
from migraphx.targets.common.progress import Stages
from migraphx.targets.common.specialise import is_dynamic
from migraphx.targets.common.views import Buffer
from migraphx.targets.cpu.codegen import Layout, generate, numbered, table_of
from migraphx.targets.cpu.executable import CpuExecutable, restore, table_bytes
from migraphx.targets.cpu.threads import available
from migraphx.targets.cpu.toolchain import build

log = logging.getLogger(__name__)

PASSES: list[Pass] = [
    *optimize,
    fuse_epilogue,  # into the dot or convolution before
]


class CpuTarget:
    """Generates C++ for the whole program and compiles it; programs may have their constants in common."""

    name = "cpu"
    passes: Sequence[Pass] = PASSES

    def __init__(self, constants: Constants | None = None) -> None:
        self.constants = constants

    def compile(self, program: Program, options: CompileOptions) -> Executable:
        if is_dynamic(program):
            target = CpuTarget(Constants(lasting=lambda: literals(program)))
            return DynamicExecutable.of(target, program, options, available())
        parameters: dict[str, Shape] = {n: i.shape for n, i in program.main.parameters.items()}
        stages = Stages()
        with stages("passes"):
            run_passes(program, PASSES)
        with stages("lowering"):
            lowered = lower(program.main, options.fast_math, self.constants)
            arena = plan_memory(lifetimes(lowered.calls))
        layout = Layout(len(lowered.inputs), len(lowered.outputs), len(lowered.weights))
        outputs = [s.as_standard() for s in program.main.output_shapes]
        sizes = table_bytes(arena, parameters.values(), outputs, lowered.weights)
        with stages("C++ text"):
            kernels = numbered(lowered.calls)
            table, sources = table_of(lowered.calls, kernels, layout, sizes), generate(kernels)
        with stages("compiler or cache"):
            library = build(sources, "program")
        log.info("compiled in %s", stages)
        steps, checks, threads = steps_of(lowered), lowered.checks, options.num_threads
        return CpuExecutable(library, table, parameters, outputs, lowered.weights, arena, checks, threads, steps)

    def restore(
        self,
        data: dict[str, Any],
        tensors: dict[str, np.ndarray],
        trust_code: bool,
        program: Callable[[], Program],
        options: CompileOptions,
    ) -> Executable | None:
        if "dynamic" not in data:
            return restore(data, tensors, trust_code, options.num_threads)
        return restored(
            CpuTarget(Constants(tensors.values(), lambda: literals(program()))),
            data["dynamic"],
            tensors,
            lambda one, own: restore(one, own, trust_code, options.num_threads),
            program,
            options,
            available(),
        )


def literals(program: Program) -> list[np.ndarray]:
    """The constants of all modules."""
    modules = reachable(program.main)
    return [ins.op.value for module in modules for ins in module if isinstance(ins.op, Literal)]


def steps_of(lowered: Lowered) -> list[Step]:
    """What each call does; of several calls for one instruction, the last has its operations: the others prepare."""
    names = names_of(lowered.module)
    for module in lowered.inner:
        names |= names_of(module, f"{module.name}:")
    following = [*lowered.sources, None][1:]
    steps = []
    for call, ins, after in zip(lowered.calls, lowered.sources, following, strict=True):
        text = instruction_text(ins, names) if ins is not None else "copy to an output"
        work = flops(ins) if ins is not None and ins is not after else 0
        steps.append(Step(text, call.label, call.origin, call.bytes, work))
    return steps


def lifetimes(calls: Sequence[Call]) -> list[Lifetime]:
    """From the first call that touches an arena buffer to the last.

    What comes into a loop or leaves it lives as long as the loop.
    """
    spans: dict[Buffer, tuple[int, int]] = {}
    for n, call in enumerate(calls):
        for v in call.views:
            if v.buffer.kind == "arena":
                first, _ = spans.get(v.buffer, (n, n))
                spans[v.buffer] = (first, n)
    loops = [(n, call.target - 1) for n, call in enumerate(calls) if call.flow == LOOP]
    for begin, end in reversed(loops):  # inner ones first
        for buffer, (first, last) in spans.items():
            if first <= end and begin <= last and not begin <= first <= last <= end:
                spans[buffer] = (min(first, begin), max(last, end))
    return [Lifetime(b, *span) for b, span in spans.items()]
