"""What an instruction costs: floating-point (or integer) operations, a multiply and an add counted as two."""

from __future__ import annotations

import math

from migraphx.ir.module import Instruction
from migraphx.ops.pointwise import Pointwise

CONTRACTIONS = frozenset({"dot", "quant_dot"})
CONVOLUTIONS = frozenset({"convolution", "quant_convolution"})
PICKS = frozenset({"gather", "gather_elements", "gathernd"})  # of their first input read no more than they give


def flops(ins: Instruction) -> int:
    """Operations of one run. An elementwise function counts as one, whatever it takes; moving data as none."""
    elements = _elements(ins)
    if ins.name in CONTRACTIONS:
        return 2 * elements * ins.inputs[0].shape.lens[-1]
    if ins.name in CONVOLUTIONS:
        return 2 * elements * math.prod(ins.inputs[1].shape.lens[1:])
    if ins.name == "convolution_backwards":
        weights = ins.inputs[1].shape.lens
        return 2 * ins.inputs[0].shape.elements * math.prod(weights[1:])
    if ins.name == "attention":
        q, k, v = (i.shape.lens for i in ins.inputs[:3])
        return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])
    if ins.name == "pooling":
        return elements * math.prod(ins.op.attributes()["lengths"])
    if ins.name == "pointwise":
        return elements * sum(isinstance(i.op, Pointwise) for i in ins.modules[0])
    if ins.name in ("fused_reduce", "group"):
        return sum(flops(i) for m in ins.modules for i in m)
    if isinstance(ins.op, Pointwise):
        return elements
    if ins.name.startswith("reduce_") or ins.name in ("softmax", "logsoftmax"):
        return ins.inputs[0].shape.elements
    return 0


def _elements(ins: Instruction) -> int:
    return 0 if ins.shape.type == "tuple" or ins.shape.dyn_dims else ins.shape.elements
