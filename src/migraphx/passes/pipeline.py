"""The target-independent pipeline, read from top to bottom."""

from __future__ import annotations

from migraphx.ir.program import Program
from migraphx.passes.common_subexpressions import common_subexpressions
from migraphx.passes.dead_code import dead_code
from migraphx.passes.fold_constants import fold_constants
from migraphx.passes.fuse_attention import fuse_attention
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_pointwise import fuse_pointwise
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.layout import layout
from migraphx.passes.manager import Pass, Timing, Trace, run_passes
from migraphx.passes.simplify_algebra import simplify_algebra
from migraphx.passes.simplify_reshapes import simplify_reshapes

PIPELINE: tuple[Pass, ...] = (
    dead_code,  # before anything is spent on it
    fold_constants,  # so that rules see literals
    common_subexpressions,  # so that patterns meet each value once
    simplify_reshapes,  # views out of the way of the algebra
    simplify_algebra,  # batch norm into weights, chains of constants into one
    fold_constants,  # the weights that the algebra combined
    fuse_attention,  # while softmax is one operator
    layout,  # channels last for what slides windows
    simplify_reshapes,  # the layouts that meet
    common_subexpressions,
    fuse_reduce,  # norms and softmax, with what surrounds them
    fuse_pointwise,  # everything elementwise that is left
    fuse_epilogue,  # into the dot or convolution before
)


def optimize(program: Program, *, check: bool = False, trace: Trace | None = None) -> list[Timing]:
    """Run the pipeline; returns what each pass cost."""
    return run_passes(program, PIPELINE, check=check, trace=trace)
