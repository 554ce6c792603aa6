"""Resampling, and normalisation over neighbouring channels."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ops.vision import Resize
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.resample import lrn_call, pick_call, resize_call
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of("resize")
def resize(ctx: LoweringContext, ins: Instruction) -> None:
    """All dimensions at once: images have few taps, and their rows stay in the cache."""
    op = ins.op
    assert isinstance(op, Resize)
    view, write = ctx.view(ins.inputs[0]), ctx.result(ins)
    taps = {d: t for d in range(len(view.lens)) if (t := op.taps(view.lens, d)) is not None}
    if not taps:
        ctx.copy(view, write, ins.origin)
        return
    if op.repeats(view.lens):
        ctx.copy(view.expanded(write.lens), write, ins.origin)
        return
    wide = np.float64 if view.type == "double" else np.float32
    indices = {d: _table(ctx, op, view, d, t[0], np.dtype(np.int32)) for d, t in taps.items()}
    if op.mode == "nearest":
        ctx.call(pick_call(view, indices, write, ins.origin))
        return
    weights = {d: _table(ctx, op, view, d, t[1], np.dtype(wide)) for d, t in taps.items()}
    ctx.call(resize_call(view, {d: (indices[d], weights[d]) for d in taps}, write, ins.origin))


def _table(ctx: LoweringContext, op: Resize, view: View, d: int, values: np.ndarray, dtype: np.dtype) -> View:
    """Values {taps, out} as a constant {out, taps}."""
    return ctx.packed(("resize", op, view.lens, d, dtype), lambda: np.ascontiguousarray(values.T, dtype))


@GPU.of("lrn")
def lrn(ctx: LoweringContext, ins: Instruction) -> None:
    a = ins.op.attributes()
    view, write = ctx.view(ins.inputs[0]), ctx.result(ins)
    ctx.call(lrn_call(view, write, a["size"], a["alpha"], a["beta"], a["bias"], ins.origin))
