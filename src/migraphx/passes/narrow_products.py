"""Products of dequantized fp8 are computed on fp8."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.constants import broadcast_literal, is_zero
from migraphx.passes.interface import Refusals
from migraphx.passes.simplify_qdq import MULTIPLIED, Weights, activation, output_axis, put, quantized_weights, scaled

FP8 = ("fp8e4m3fn", "fp8e5m2")  # that tensor cores multiply


def narrow_products(module: Module) -> Refusals:
    """dot(dequantize(x), dequantize(w)) -> quant_dot(x, w) * scales, of one type of fp8 without zero points.

    Scales are as `simplify_qdq` takes them. Products are exact in float, and so summed.

    before:
        x = @param:x -> fp8e4m3fn_type, {2, 3}, {3, 1}
        @1 = @literal{0.5} -> half_type, {1}, {1}
        @2 = @literal{1, 2, 3, -4, -5, 6} -> fp8e4m3fn_type, {3, 2}, {2, 1}
        @3 = @literal{0.25} -> half_type, {1}, {1}
        @4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1)
        @5 = multibroadcast[out_lens={3, 2},out_dyn_dims={}](@3)
        @6 = dequantizelinear(x,@4)
        @7 = dequantizelinear(@2,@5)
        @8 = dot(@6,@7)
        @9 = @return(@8)

    after:
        @0 = @literal{0.125} -> float_type, {1}, {1}
        @1 = @literal{1, 2, 3, -4, -5, 6} -> fp8e4m3fn_type, {3, 2}, {2, 1}
        x = @param:x -> fp8e4m3fn_type, {2, 3}, {3, 1}
        @3 = quant_dot(x,@1) -> float_type, {2, 2}, {2, 1}
        @4 = multibroadcast[out_lens={2, 2},out_dyn_dims={}](@0) -> float_type, {2, 2}, {0, 0}
        @5 = mul(@3,@4) -> float_type, {2, 2}, {2, 1}
        @6 = convert[target_type=half](@5) -> half_type, {2, 2}, {2, 1}
        @7 = @return(@6)
    """
    refusals: list[Refusal[Instruction]] = []
    for ins in module:
        if ins.name != "dot" or ins.shape.type not in MULTIPLIED:
            continue
        found = activation(ins.inputs[0], ins.name, FP8)
        if found is None:
            continue
        weights = quantized_weights(ins.inputs[1], output_axis(ins), 1, FP8)
        if isinstance(weights, Refuse):
            refusals.append(Refusal(ins, "narrow_products", weights))
            continue
        if why := _unlike(found.dequantize, weights):
            refusals.append(Refusal(ins, "narrow_products", why))
            continue
        b = Builder(module, before=ins, origin=ins.origin)
        codes, step, *_ = found.parts(b)
        sums = b.quant_dot(codes, broadcast_literal(b, weights.codes, weights.lens))
        put(b, ins, scaled(b, ins, sums, step, weights.scale))
    return refusals


def _unlike(dequantize: Instruction, weights: Weights) -> Refuse | None:
    """Why fp8 of one side cannot be multiplied with that of the other."""
    codes, _, *zero = dequantize.inputs
    if codes.shape.type != dtypes.from_numpy(weights.codes.dtype):
        return Refuse("its operands are two types of fp8")
    if (zero and not is_zero(zero[0])) or weights.zeros.astype(float).any():
        return Refuse("its operands have zero points")
    return None
