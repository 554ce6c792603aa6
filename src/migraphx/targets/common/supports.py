"""Whether a target can compile an instruction, asked before anything is compiled."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.interface import Pass
from migraphx.passes.manager import graphs, run_passes
from migraphx.targets.common.alone import alone
from migraphx.targets.common.lowerings import Lowerings
from migraphx.targets.common.specialise import is_deferred

Asked = dict[Hashable, str]
"""Why an instruction is refused, by operation and shapes; "" where it is not."""


def supported(
    ins: Instruction, lowerings: Lowerings, passes: Sequence[Pass], asked: Asked
) -> Refusal[Instruction] | None:
    """Why no lowering takes an instruction, or what the passes make of it; None where all of it is taken.

    A deferred instruction becomes other instructions, or runs on the host, as `on_host` ones do outside of modules.
    `asked` keeps the answers.
    """
    if lowerings.find(ins) is not None and not ins.modules:
        return None
    if ins.op.on_host:
        return None
    for inner in (i for m in ins.modules if not ins.op.fused for i in _working(m)):
        if inner.op.on_host:
            return Refusal(
                ins, f"target {lowerings.target}", f"{inner.name} in it: NumPy runs that, in no loop or branch"
            )
        if (refusal := supported(inner, lowerings, passes, asked)) is not None:
            return Refusal(ins, refusal.rule, f"{inner.name} in it: {refusal.why}")
    if ins.name.startswith("@") or is_deferred(ins) or any(map(is_deferred, ins.inputs)):
        return None
    name = "pointwise" if isinstance(ins.op, Pointwise) else "fused_reduce" if isinstance(ins.op, Reduction) else ""
    if (name and lowerings.has(name)) or lowerings.find(ins) is not None:
        return None
    key = (ins.op, *(i.shape for i in ins.inputs))
    if ins.modules or key not in asked:
        asked[key] = _what_becomes_of_it(ins, lowerings, passes)
    return Refusal(ins, f"target {lowerings.target}", asked[key]) if asked[key] else None


def _what_becomes_of_it(ins: Instruction, lowerings: Lowerings, passes: Sequence[Pass]) -> str:
    """Why the passes leave something that has no lowering, "" where they do not."""
    program = alone(ins)
    run_passes(program, passes)
    for left in (i for m in graphs(program.main) for i in _working(m)):
        if (refusal := lowerings.refusal(left)) is not None:
            return refusal.why if left.name == ins.name else f"{left.name}, which it becomes: {refusal.why}"
    return ""


def _working(module: Module) -> list[Instruction]:
    return [i for i in module if not i.name.startswith("@")]
