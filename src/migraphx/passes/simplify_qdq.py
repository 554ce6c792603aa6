"""Products of dequantized numbers are products of the integers that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.passes.constants import broadcast_literal, compact, is_constant, is_zero, scalar_of, value_of, without_repeats

PRODUCTS = {"dot": "quant_dot", "convolution": "quant_convolution"}


@dataclass(frozen=True)
class Weights:
    """Constant weights: int8 numbers, and their scale, one or one an output channel."""

    codes: np.ndarray
    scale: np.ndarray
    lens: tuple[int, ...]


def simplify_qdq(module: Module) -> None:
    """dot(dequantize(x), dequantize(w)) -> quant_dot(x, w) * scales, likewise for convolution.

    x is int8 or uint8 with one scale and one zero point, w constant int8 with one scale an output channel and
    without zero points; everything else stays, and so computes with the rounded floats.

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
    for ins in module:
        if ins.name not in PRODUCTS or ins.shape.type != "float":
            continue
        x, y = ins.inputs
        weights = quantized_weights(y, ins.name)
        if weights is not None and _one_scale(x):
            b = Builder(module, before=ins, origin=ins.origin)
            module.replace(ins, _product(b, ins, x.inputs, weights))


def _one_scale(x: Instruction) -> bool:
    """Whether 8-bit integers are dequantized by one number, which is constant."""
    if x.name != "dequantizelinear" or x.inputs[0].shape.type not in ("int8", "uint8"):
        return False
    return all(scalar_of(i) is not None for i in x.inputs[1:])


def quantized_weights(y: Instruction, product: str) -> Weights | None:
    """The weights of a product, where they are constant int8 seen through views and dequantized."""
    views = []
    while y.op.view and len(y.inputs) == 1:
        views.append(y.op)
        y = y.inputs[0]
    if y.name != "dequantizelinear" or any(not is_zero(i) for i in y.inputs[2:]):
        return None
    codes, scale = (_known(i) for i in y.inputs[:2])
    if codes is None or scale is None or codes.dtype != np.int8:
        return None
    scale = np.broadcast_to(scale, codes.shape)
    for op in reversed(views):
        codes, scale = op.compute(codes), op.compute(scale)
    channel = scale.ndim - 1 if product == "dot" else 0
    small = without_repeats(scale)
    if small.size != small.shape[channel]:
        return None  # its scale changes along the depth
    return Weights(without_repeats(codes), small, codes.shape)


def _known(ins: Instruction) -> np.ndarray | None:
    """A constant, or constants quantized."""
    if is_constant(ins):
        return value_of(ins)
    if ins.name == "quantizelinear" and all(map(is_constant, ins.inputs)):
        return ins.op.compute(*map(value_of, ins.inputs))
    return None


def _product(b: Builder, ins: Instruction, given: Sequence[Instruction], weights: Weights) -> Instruction:
    codes, step, *zero = given
    point = scalar_of(zero[0]) if zero else 0
    attributes = ins.op.attributes()
    if point and any(attributes.get("padding", ())):  # padding stands for 0, which is the zero point
        before, behind = attributes["padding"][: codes.shape.ndim - 2], attributes["padding"][-(codes.shape.ndim - 2) :]
        codes = b.pad(codes, pads=(0, 0, *before, 0, 0, *behind), value=float(point))
        attributes["padding"] = (0,) * (codes.shape.ndim - 2)
    w = broadcast_literal(b, weights.codes, weights.lens)
    sums = b.instruction(PRODUCTS[ins.name], [codes, w], **attributes)
    lens, channel = sums.shape.lens, sums.shape.ndim - 1 if ins.name == "dot" else 1
    if point:
        axes = tuple(range(w.shape.ndim - 1)) if ins.name == "dot" else tuple(range(1, w.shape.ndim))
        total = point * weights.codes.sum(axes, dtype=np.int32)
        sums = b.sub(sums, along(b, total.astype(np.int32), lens, channel))
    factor = np.float32(compact(step).reshape(())) * weights.scale.reshape(-1).astype(np.float32)
    return b.mul(b.cast(sums, "float"), along(b, factor, lens, channel))


def along(b: Builder, values: np.ndarray, lens: Sequence[int], axis: int) -> Instruction:
    """A constant of one number, or of one for each index of `axis`, as `lens`."""
    if values.size > 1:
        values = values.reshape(-1, *(1,) * (len(lens) - 1 - axis))
    return b.broadcast_to(b.literal(values), lens)
