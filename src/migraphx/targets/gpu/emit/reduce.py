"""Fused reductions: rows in registers where they fit, else passes over blocks of them; few long rows in parts.

A tile has rows down and the elements that are reduced across. What is the same for a whole row is one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.ir.size import hint_of, is_open
from migraphx.ops.reduce import ReduceMax, ReduceMean, ReduceSum
from migraphx.targets.common.stages import FusedReduction
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.also import Also
from migraphx.targets.gpu.emit.pieces import whole_vectors
from migraphx.targets.gpu.emit.plans import Plan, in_one_pass, plan_at
from migraphx.targets.gpu.emit.reducers import accumulated
from migraphx.targets.gpu.emit.rows import Row, RowKernel
from migraphx.targets.gpu.emit.spread import is_side_by_side, spread_calls
from migraphx.targets.gpu.emit.tiles import power_of_two
from migraphx.targets.gpu.kernel import GpuCall


def reduce_calls(
    module: Module,
    axes: Sequence[int],
    reads: Sequence[View],
    write: View,
    temporary: Callable[[Shape], View],
    origin: str = "",
    also: Also | None = None,
) -> list[GpuCall]:
    """The body of a `fused_reduce` over `axes`: one kernel, or one for each stage and one that finishes.

    `also`: what one kernel that computes every element stores as well.
    """
    found = FusedReduction.of(module, axes, reads, write)
    rows, length = prod(found.kept.lens), prod(found.reduced.lens)
    held = [*zip(found.kept.strides[:-1], found.reduced.strides[:-1], strict=True)]
    varied = [any(kept) and any(reduced) for kept, reduced in held]
    varying = sum(varied)
    itemsize = max(v.itemsize for v in (*reads, write))
    run = found.reduced.lens[-1] if found.reduced.rank > 1 and not is_open(found.reduced.lens) else 0
    narrow = all(v.itemsize <= 2 for v, own in zip((*reads, write), (*varied, True), strict=True) if own)
    narrow = narrow and found.rowwise and found.full_output and not run
    vector = whole_vectors(found, reads, write) if found.rowwise and not run else 0
    shared = any(any(across) and not any(down) for down, across in held)
    chosen = plan_at(rows, length, varying, itemsize, found.rowwise, run, narrow, vector, shared)
    names = [i.name for i in module if not i.name.startswith("@")]
    label = " ".join(w for w in names if w != "multibroadcast")
    reductions = [i for stage in found.stages for i in stage.reductions]
    floats = all(accumulated(i) == "float" for i in reductions)
    if not also and floats and is_side_by_side(found) and is_spread(*reductions):
        mean, spread = reductions
        return spread_calls(found, mean, spread, temporary, label, origin)
    pair = floats and (is_spread(*reductions) or is_softmax(*reductions))
    if chosen.parts == 1:
        once = pair and chosen.loop and not chosen.run
        chosen = in_one_pass(chosen) if once else chosen
        return [RowKernel(found, chosen, {}, also, once=once).call(found.stages, reads, write, label, origin)]
    calls, given = [], dict[Instruction, View]()
    passes, last = [[s] for s in found.stages if s.reductions], [s for s in found.stages if not s.reductions]
    once = bool(last) and (chosen.run > 0 or not chosen.loop) and pair
    if once:
        passes = [[stage for own in passes for stage in own]]
    for own in passes:
        reductions = [i for stage in own for i in stage.reductions]
        lens = (rows, chosen.parts) if found.rowwise else (chosen.parts, rows)
        parts = [temporary(Shape(accumulated(i), lens)) for i in reductions]
        calls.append(RowKernel(found, chosen, dict(given), parts=chosen.parts).part(own, reads, parts, label, origin))
        given |= zip(reductions, parts, strict=True)
    finish = chosen if last else Plan(min(max(4096 // chosen.parts, 1), 64, power_of_two(hint_of(rows))), 1, 4)
    calls.append(RowKernel(found, finish, given, parts=chosen.parts, once=once).call(last, reads, write, label, origin))
    return calls


def is_spread(*reductions: Instruction) -> bool:
    """Whether these are a mean and the mean of squares of what differs from it, as norms have them.

    Both are made of those of parts, each about the mean of its own (Chan, Golub, LeVeque: Updating Formulae and a
    Pairwise Algorithm for Computing Sample Variances, 1979): a kernel has both, whose second pass finds its part in the
    cache. On an H200 that gains where a pass costs little: where runs have lanes of their own.
    """
    if len(reductions) != 2 or not all(isinstance(i.op, ReduceMean) for i in reductions):
        return False
    mean, spread = reductions
    square = spread.inputs[0]
    if square.name != "mul" or len({*square.inputs}) != 1 or square.inputs[0].name != "sub":
        return False
    (apart,) = {*square.inputs}
    value, taken = apart.inputs
    while taken.name == "multibroadcast":
        (taken,) = taken.inputs
    return taken is mean and value is mean.inputs[0] and value.shape.type in dtypes.FLOATS


def is_softmax(*reductions: Instruction) -> bool:
    """Whether these are a maximum and the sum of exponentials of what is less than it, as softmax has them."""
    if [i.op.__class__ for i in reductions] != [ReduceMax, ReduceSum] or reductions[1].inputs[0].name != "exp":
        return False
    (less,) = reductions[1].inputs[0].inputs
    if less.name != "sub" or less.inputs[0] is not reductions[0].inputs[0] or accumulated(reductions[1]) != "float":
        return False
    taken = less.inputs[1]
    while taken.name == "multibroadcast":
        (taken,) = taken.inputs
    return taken is reductions[0]


def row_of(module: Module, axes: Sequence[int], reads: Sequence[View], write: View) -> Row | None:
    """The body of a `fused_reduce` as a function for other kernels; None where its output is no single, whole row.

    Nor where there are several reductions, one after another (layer norms): on an H200 their barriers in each program
    take longer than a kernel (GPT-2's token 0.311 and 0.301 ms; with a single one, as Llama's, 0.87 and 0.90 ms).
    """
    found = FusedReduction.of(module, axes, reads, write)
    length = prod(found.reduced.lens)
    if (
        is_open((*found.kept.lens, length))
        or prod(found.kept.lens) > 1
        or not found.full_output
        or length > MOST_ROW
        or not found.rowwise
        or sum(bool(stage.reductions) for stage in found.stages) > 1
    ):
        return None
    return RowKernel(found, Plan(1, power_of_two(length), 4), {}).row_text(reads)


MOST_ROW = 4096  # elements of a row that many programs compute for themselves
