"""Products and look-ups of dequantized numbers are computed on their codes, the integers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.constants import (
    broadcast_literal,
    closed_value,
    compact,
    computed,
    is_constant,
    scalar_of,
    seen_through,
    without_repeats,
)
from migraphx.passes.integer_products import along, fits, integer_product
from migraphx.passes.interface import Refusals

PRODUCTS = {"dot": "quant_dot", "convolution": "quant_convolution"}
BYTES = ("int8", "uint8")
MULTIPLIED = ("float", "half", "bf16")


@dataclass(frozen=True)
class Weights:
    """Constant weights: 8-bit numbers, their zero points and scale, one or one an output channel."""

    codes: np.ndarray
    zeros: np.ndarray
    scale: np.ndarray
    lens: tuple[int, ...]


def simplify_qdq(module: Module) -> Refusals:
    """dot(dequantize(x), dequantize(w)) -> quant_dot(x, w) * scales, likewise for convolution.

    x is int8 or uint8 with one scale and one zero point, for a dot also with one of both a row, constant or computed in
    a run; w is constant with one of both an output channel. Everything else stays, and so computes with the rounded
    floats, as do convolutions of one or two inputs, or in groups of fewer than four. x may be moved after it is
    dequantized: then its codes are moved. What is gathered from a dequantized table, with one scale and one zero point,
    is dequantized afterwards.

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
        if ins.name not in PRODUCTS or ins.shape.type not in MULTIPLIED:
            continue
        if shallow(ins):
            why = Refuse("it has fewer than three inputs, or four in each of several groups: too few to gain")
            refusals.append(Refusal(ins, "simplify_qdq", why))
            continue
        weights = quantized_weights(ins.inputs[1], output_axis(ins), ins.op.attributes().get("group", 1))
        found = activation(ins.inputs[0], ins.name) if isinstance(weights, Weights) else None
        if isinstance(weights, Weights) and found is not None:
            b = Builder(module, before=ins, origin=ins.origin)
            put(b, ins, _product(b, ins, found, weights))
        elif isinstance(weights, Weights):
            refusals.append(
                Refusal(
                    ins, "simplify_qdq", Refuse("its input is not dequantized from 8 bits by one scale, or one a row")
                )
            )
        elif ins.inputs[0].name == "dequantizelinear":
            refusals.append(Refusal(ins, "simplify_qdq", weights))
    return refusals


def shallow(ins: Instruction) -> bool:
    """Whether a convolution sums so few products for a pixel that integers, taken by fours, gain nothing."""
    if not ins.op.spatial:
        return False
    (x, _), group = ins.inputs, ins.op.attributes().get("group", 1)
    return x.shape.lens[1] // group < (4 if group > 1 else 3)


def _gather_codes(module: Module, ins: Instruction) -> None:
    (codes, *given), b = ins.inputs[0].inputs, Builder(module, before=ins, origin=ins.origin)
    if all(scalar_of(i) is not None for i in given):
        some = b.gather(codes, ins.inputs[1], **ins.op.attributes())
        small = (broadcast_literal(b, compact(i), some.shape.lens) for i in given)
        module.replace(ins, b.dequantizelinear(some, *small))


@dataclass(frozen=True)
class Activation:
    """The left side of a product: what dequantizes 8-bit integers, and what moves them afterwards, last first."""

    dequantize: Instruction
    moves: tuple[Instruction, ...]

    def parts(self, b: Builder) -> list[Instruction]:
        """Codes, scale and perhaps zero point; the latter two of one element, or of one a row {.., M, 1}."""
        codes, *given = self.dequantize.inputs
        small = [i if scalar_of(i) is not None else _first(b, i) for i in given]
        for move in reversed(self.moves):
            codes = b.instruction(move.name, [codes], **move.op.attributes())
            rows = (*move.shape.lens[:-1], 1)
            small = [i if i.shape.elements == 1 or is_constant(i) else b.reshape(i, dims=rows) for i in small]
        return [codes, *small]


def _first(b: Builder, i: Instruction) -> Instruction:
    """What is broadcast, cut to length 1 where it is."""
    repeated = tuple(d for d, (n, s) in enumerate(zip(i.shape.lens, i.shape.strides, strict=True)) if not s and n > 1)
    return b.slice(i, axes=repeated, starts=(0,) * len(repeated), ends=(1,) * len(repeated)) if repeated else i


def activation(x: Instruction, product: str, types: Collection[str] = BYTES) -> Activation | None:
    """The left side of a product of codes of these types; None where it is none."""
    moves: list[Instruction] = []
    while x.op.data_movement and len(x.inputs) == 1:
        moves.append(x)
        x = x.inputs[0]
    if x.name != "dequantizelinear" or x.inputs[0].shape.type not in types:
        return None
    if all(map(_one, x.inputs[1:])) or (
        product == "dot" and all(map(_by_row, (*x.inputs[1:],))) and all(map(_keeps_rows, moves))
    ):
        return Activation(x, tuple(moves))
    return None


def _one(i: Instruction) -> bool:
    """Whether all elements are one number."""
    return scalar_of(i) is not None or all(s == 0 or n == 1 for n, s in zip(i.shape.lens, i.shape.strides, strict=True))


def _by_row(i: Instruction) -> bool:
    """Whether the elements of a row are one number."""
    return i.shape.strides[-1] == 0 or i.shape.lens[-1] == 1 or _one(i)


def _keeps_rows(move: Instruction) -> bool:
    """Whether the rows of the last dimension stay whole and in order: what becomes of their numbers."""
    lens, out = move.inputs[0].shape.lens, move.shape.lens
    if not out or out[-1] != lens[-1] or prod(out) != prod(lens):
        return False
    numbers = np.arange(prod(lens[:-1]))
    moved = move.op.compute(np.broadcast_to(numbers.reshape(*lens[:-1], 1), lens))
    return np.array_equal(moved, np.broadcast_to(numbers.reshape(*out[:-1], 1), out))


def output_axis(ins: Instruction) -> int:
    """Which dimension of the weights of a dot or a convolution its output channels are."""
    return 0 if ins.op.spatial else -1


def quantized_weights(y: Instruction, channel: int, groups: int, types: Collection[str] = BYTES) -> Weights | Refuse:
    """The weights of a product, where they are constants of these types seen through views and dequantized.

    They have one scale, or one for each index of the dimension `channel`.
    """
    views, lens = list[Instruction](), y.shape.lens
    while y.op.view and len(y.inputs) == 1:
        views.append(y)
        y = y.inputs[0]
    if y.name != "dequantizelinear":
        return Refuse("its weights are not dequantized")
    codes, scale, *zeros = (closed_value(i) if is_constant(i) else computed(i) for i in y.inputs)
    if codes is None or scale is None or dtypes.from_numpy(codes.dtype) not in types or (zeros and zeros[0] is None):
        return Refuse("its weights are not constants of 8 bits")
    point = np.zeros(1, codes.dtype) if not zeros or zeros[0] is None else zeros[0]
    parts = [codes, *(np.broadcast_to(part, codes.shape) for part in (point, scale))]
    for view in reversed(views):
        parts = [seen_through(view, part) for part in parts]
    codes, point, scale = (without_repeats(part) for part in parts)
    if any(part.size != part.shape[channel] for part in (point, scale)):
        return Refuse("the scales of its weights change along the depth")
    if groups > 1 and not fits(codes, point):
        return Refuse("its weights are in groups, and need 9 bits without their zero points")
    return Weights(codes, point, scale, lens)


def _product(b: Builder, ins: Instruction, found: Activation, weights: Weights) -> Instruction:
    codes, step, *zero = found.parts(b)
    name, attributes = PRODUCTS[ins.name], ins.op.attributes()
    sums = integer_product(
        b, name, codes, zero[0] if zero else 0, weights.codes, weights.zeros, weights.lens, **attributes
    )
    return scaled(b, ins, sums, step, weights.scale)


def put(b: Builder, ins: Instruction, y: Instruction) -> None:
    """The float `y` in the place of the product `ins`; who made a float of it takes y without a rounding between."""
    for user in list(ins.users):
        if user.name == "convert" and user.shape.type == y.shape.type:
            b.module.replace(user, y)
    b.module.replace(ins, b.cast(y, ins.shape.type))


def scaled(b: Builder, ins: Instruction, sums: Instruction, step: Instruction, scale: np.ndarray) -> Instruction:
    """The sums of codes times both scales, in float, for the product `ins`."""
    lens, channel = sums.shape.lens, sums.shape.ndim - 1 if ins.name == "dot" else 1
    factor, known = scale.reshape(-1).astype(np.float32), scalar_of(step)
    if known is not None:
        return b.mul(b.cast(sums, "float"), along(b, np.float32(known) * factor, lens, channel))
    step = b.cast(step, "float")
    one = b.reshape(step, dims=(1,) * len(lens)) if step.shape.elements == 1 else step
    return b.mul(b.mul(b.cast(sums, "float"), b.broadcast_to(one, lens)), along(b, factor, lens, channel))
