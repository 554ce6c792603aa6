"""Products and look-ups of dequantized numbers are computed on their codes, the integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Operation
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.constants import broadcast_literal, compact, computed, scalar_of, without_repeats
from migraphx.passes.integer_products import along, fits, integer_product
from migraphx.passes.rewrite import Refusals

PRODUCTS = {"dot": "quant_dot", "convolution": "quant_convolution"}


@dataclass(frozen=True)
class Weights:
    """Constant weights: 8-bit numbers, their zero points and scale, one or one an output channel."""

    codes: np.ndarray
    zeros: np.ndarray
    scale: np.ndarray
    lens: tuple[int, ...]


def simplify_qdq(module: Module) -> Refusals:
    """dot(dequantize(x), dequantize(w)) -> quant_dot(x, w) * scales, likewise for convolution.

    x is int8 or uint8 with one scale and one zero point, w constant with one of both an output channel; everything
    else stays, and so computes with the rounded floats. What is gathered from a dequantized table, with one scale and
    one zero point, is dequantized afterwards.

    before:
        x = @param:x -> int8_type, {2, 3}, {3, 1}
        @1 = @literal{0.5} -> float_type, {1}, {1}
        @2 = @literal{1, 2, 3, -4, -5, 6} -> int8_type, {3, 2}, {2, 1}
        @3 = @literal{0.25} -> float_type, {1}, {1}
        @4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@1)
        @5 = multibroadcast[out_lens={3, 2},out_dyn_dims={}](@3)
        @6 = dequantizelinear(x,@4)
        @7 = dequantizelinear(@2,@5)
        @8 = dot(@6,@7)
        @9 = @return(@8)

    after:
        @0 = @literal{0.125} -> float_type, {1}, {1}
        @1 = @literal{1, 2, 3, -4, -5, 6} -> int8_type, {3, 2}, {2, 1}
        x = @param:x -> int8_type, {2, 3}, {3, 1}
        @3 = quant_dot(x,@1) -> int32_type, {2, 2}, {2, 1}
        @4 = convert[target_type=float](@3) -> float_type, {2, 2}, {2, 1}
        @5 = multibroadcast[out_lens={2, 2},out_dyn_dims={}](@0) -> float_type, {2, 2}, {0, 0}
        @6 = mul(@4,@5) -> float_type, {2, 2}, {2, 1}
        @7 = @return(@6)
    """
    refusals: list[Refusal[Instruction]] = []
    for ins in module:
        if ins.name == "gather" and ins.inputs[0].name == "dequantizelinear":
            _gather_codes(module, ins)
        if ins.name not in PRODUCTS or ins.shape.type != "float":
            continue
        x, y = ins.inputs
        weights = quantized_weights(y, ins.name, ins.op.attributes().get("group", 1))
        if isinstance(weights, Weights) and _one_scale(x):
            b = Builder(module, before=ins, origin=ins.origin)
            module.replace(ins, _product(b, ins, x.inputs, weights))
        elif isinstance(weights, Weights):
            refusals.append(
                Refusal(ins, "simplify_qdq", Refuse("its input is not dequantized from 8 bits by one constant scale"))
            )
        elif x.name == "dequantizelinear":
            refusals.append(Refusal(ins, "simplify_qdq", weights))
    return refusals


def _gather_codes(module: Module, ins: Instruction) -> None:
    (codes, *given), b = ins.inputs[0].inputs, Builder(module, before=ins, origin=ins.origin)
    if all(scalar_of(i) is not None for i in given):
        some = b.gather(codes, ins.inputs[1], **ins.op.attributes())
        small = (broadcast_literal(b, compact(i), some.shape.lens) for i in given)
        module.replace(ins, b.dequantizelinear(some, *small))


def _one_scale(x: Instruction) -> bool:
    """Whether 8-bit integers are dequantized by one number, which is constant."""
    if x.name != "dequantizelinear" or x.inputs[0].shape.type not in ("int8", "uint8"):
        return False
    return all(scalar_of(i) is not None for i in x.inputs[1:])


def quantized_weights(y: Instruction, product: str, groups: int) -> Weights | Refuse:
    """The weights of a product, where they are constant 8-bit integers seen through views and dequantized."""
    views: list[Operation] = []
    while y.op.view and len(y.inputs) == 1:
        views.append(y.op)
        y = y.inputs[0]
    if y.name != "dequantizelinear":
        return Refuse("its weights are not dequantized")
    codes, scale, *zeros = (computed(i, levels=1) for i in y.inputs)
    if (
        codes is None
        or scale is None
        or dtypes.from_numpy(codes.dtype) not in ("int8", "uint8")
        or (zeros and zeros[0] is None)
    ):
        return Refuse("its weights are not constant 8-bit integers")
    point = np.zeros(1, codes.dtype) if not zeros or zeros[0] is None else zeros[0]
    parts = [codes, *(np.broadcast_to(part, codes.shape) for part in (point, scale))]
    for op in reversed(views):
        parts = [op.compute(part) for part in parts]
    channel = parts[0].ndim - 1 if product == "dot" else 0
    lens = parts[0].shape
    codes, point, scale = (without_repeats(part) for part in parts)
    if any(part.size != part.shape[channel] for part in (point, scale)):
        return Refuse("the scales of its weights change along the depth")
    if groups > 1 and not fits(codes, point):
        return Refuse("its weights are in groups, and need 9 bits without their zero points")
    return Weights(codes, point, scale, lens)


def _product(b: Builder, ins: Instruction, given: Sequence[Instruction], weights: Weights) -> Instruction:
    codes, step, *zero = given
    name, attributes = PRODUCTS[ins.name], ins.op.attributes()
    sums = integer_product(
        b, name, codes, zero[0] if zero else 0, weights.codes, weights.zeros, weights.lens, **attributes
    )
    lens, channel = sums.shape.lens, sums.shape.ndim - 1 if ins.name == "dot" else 1
    factor = np.float32(compact(step).reshape(())) * weights.scale.reshape(-1).astype(np.float32)
    return b.mul(b.cast(sums, "float"), along(b, factor, lens, channel))
