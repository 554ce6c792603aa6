"""Users' operators, whose Triton body computes blocks of the output."""

from __future__ import annotations

import textwrap
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.kernel import generated_call
from migraphx.targets.gpu.emit.tiles import blocks
from migraphx.targets.gpu.kernel import GpuCall
from migraphx.targets.gpu.lower.registry import GPU

BLOCK = 1024


@GPU.of_custom
def custom(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, CustomOperation)
    reads = [ctx.standard(v, ins.origin) for v in ctx.reads(ins)]
    ctx.row_major(ins, lambda out: ctx.call(_call(op, reads, out, ins.origin)))


def _call(op: CustomOperation, reads: list[View], out: View, origin: str) -> GpuCall:
    views = {**{f"in{k}": v for k, v in enumerate(reads)}, "out": out}
    numbers, lines = {"out_elements": out.elements}, []
    for name, view in views.items():
        lens = {f"{name}_len{d}": n for d, n in enumerate(view.lens)}
        numbers |= lens
        lines += [f"{name}_lens = ({''.join(f'{n}, ' for n in lens)})"] if lens else []
    lines += [_constant(op, key, value) for key, value in op.attributes().items()]
    lines.append("i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
    lines.append("inside = i < out_elements")
    lines += textwrap.dedent(op.triton).strip("\n").splitlines()
    given = {name: v for name, v in views.items() if name != "out"}
    programs = blocks(out.elements, BLOCK)
    return generated_call("custom", lines, given, {"out": out}, numbers, {"BLOCK": BLOCK}, programs, op.name, origin)


def _constant(op: CustomOperation, key: str, value: Any) -> str:
    """An attribute as a constant of its name."""
    whole = isinstance(value, tuple) and all(isinstance(v, int) for v in value)
    if not (whole or isinstance(value, (bool, int, float, str))):
        raise ValueError(f"{op.name}: the Triton body cannot have the attribute {key}={value!r}")
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        return f'{key}: tl.constexpr = float("{value}")'
    return f"{key} = {value!r}" if isinstance(value, tuple) else f"{key}: tl.constexpr = {value!r}"
