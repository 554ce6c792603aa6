"""Lower bounds that nothing reaches."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module
from migraphx.passes.constants import is_constant, scalar_of
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute


def drop_clamps(module: Module) -> Refusals:
    """What is rectified or clipped and quantized is clamped from above alone.

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @1 = @literal{-128} -> float_type, {1}, {1}
        @2 = @literal{2} -> float_type, {1}, {1}
        @3 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@2)
        @4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1)
        @5 = relu(x)
        @6 = mul(@5,@3)
        @7 = nearbyint(@6)
        @8 = max(@7,@4)
        @9 = @return(@8)

    after:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @1 = @literal{2} -> float_type, {1}, {1}
        @2 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1) -> float_type, {2, 3}, {0, 0}
        @3 = relu(x) -> float_type, {2, 3}, {3, 1}
        @4 = mul(@3,@2) -> float_type, {2, 3}, {3, 1}
        @5 = nearbyint(@4) -> float_type, {2, 3}, {3, 1}
        @6 = @return(@5)
    """
    for ins in list(module):
        if ins.name == "max" and (kept := _bounded(*ins.inputs) or _bounded(*reversed(ins.inputs))):
            substitute(ins, kept)
            remove_unused(module, [ins])
    return []


def _bounded(x: Instruction, c: Instruction) -> Instruction | None:
    """`x`, where it is never below the constant `c`: it is at least 0, or NaN, and `c` at most."""
    bound = scalar_of(c)
    return x if bound is not None and bound <= 0 and is_nonnegative(x) else None


def is_nonnegative(ins: Instruction) -> bool:
    """Whether no number that comes out is below 0."""
    if ins.name == "mul":
        x, y = ins.inputs
        return any(is_nonnegative(i) and (scalar_of(j) or -1) > 0 for i, j in ((x, y), (y, x)))
    if ins.name == "clip":
        return (scalar_of(ins.inputs[1]) or 0) >= 0 and is_constant(ins.inputs[1])
    return ins.name == "relu" or (ins.name == "nearbyint" and is_nonnegative(ins.inputs[0]))
