"""A pipeline is one list of passes, read from top to bottom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.program import Program, reachable
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.verify import VerifyError, verify
from migraphx.passes.dead_code import dead_code
from migraphx.passes.interface import Pass, Refusals
from migraphx.passes.rewrite import remove_unused
from migraphx.passes.shapes import same_memory

log = logging.getLogger(__name__)
Trace = Callable[[str, Program], None]


@dataclass(frozen=True)
class Timing:
    """What one pass cost and did, over all modules."""

    name: str
    seconds: float
    instructions_before: int
    instructions_after: int


def run_passes(
    program: Program,
    passes: Sequence[Pass],
    *,
    check: bool = False,
    trace: Trace | None = None,
    refusals: list[Refusal[Instruction]] | None = None,
) -> list[Timing]:
    """Run each pass on every module, outermost first; dead code is removed after each.

    What a module returns keeps its layout whatever the passes do inside. `check` verifies every module after
    every pass (VerifyError names the pass); `trace` is called with each pass's name and the program after it;
    `refusals` takes what the passes refused.
    """
    timings: list[Timing] = []
    for one in passes:
        name = getattr(one, "__name__", str(one))
        start, before = time.perf_counter(), sum(map(len, graphs(program.main)))
        for module in graphs(program.main):
            refused = run_pass(module, one)
            if refusals is not None:
                refusals += refused
        program.drop_unused_modules()
        after = sum(map(len, graphs(program.main)))
        timings.append(Timing(name, time.perf_counter() - start, before, after))
        log.debug("%s: %.1f ms, %d -> %d instructions", name, timings[-1].seconds * 1e3, before, after)
        if check:
            for module in graphs(program.main):
                try:
                    verify(module)
                except VerifyError as error:
                    raise VerifyError(f"after pass {name}: {error}") from error
        if trace is not None:
            trace(name, program)
    return timings


def run_pass(module: Module, one: Pass) -> Refusals:
    """One pass on one module, then what it left unused is removed and the outputs' layout restored."""
    shapes = module.output_shapes
    refused = one(module)
    dead_code(module)
    _keep_output_layout(module, shapes)
    return refused or ()


def graphs(module: Module) -> list[Module]:
    """`module` and the modules of its control flow, outermost first."""
    return reachable(module, kernels=False)


def _keep_output_layout(module: Module, shapes: Sequence[Shape]) -> None:
    outputs = list(module.outputs)
    if [o.shape for o in outputs] == list(shapes):
        return
    b = Builder(module, before=module.last)
    kept = [_laid_out(b, o, want) for o, want in zip(outputs, shapes, strict=True)]
    if kept != outputs:
        module.replace_return(kept)
        remove_unused(module, outputs)


def _laid_out(b: Builder, x: Instruction, want: Shape) -> Instruction:
    """`x` in the order of `want`; an output that was a view with gaps or broadcasts may be packed instead."""
    packed = permuted(want.type, want.lens, want.permutation)
    same = x.shape == want or want.broadcasted or same_memory(x.shape, packed)
    return x if same else b.layout(x, permutation=want.permutation)
