"""Every reason for which a rule or a pass refuses something: a program that provokes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import migraphx.passes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Mismatch, Refusal, Refuse
from migraphx.ir.shape import Shape, permuted
from migraphx.passes.add_to_parts import add_to_parts
from migraphx.passes.fold_norms import fold_norms
from migraphx.passes.fuse_attention import fuse_attention, fuse_attention_but_of
from migraphx.passes.fuse_dots import fuse_dots
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_int4 import fuse_int4
from migraphx.passes.fuse_pointwise import fuse_pointwise
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.interface import Pass
from migraphx.passes.manager import run_passes
from migraphx.passes.narrow_products import narrow_products
from migraphx.passes.scale_weights import scale_weights
from migraphx.passes.simplify_algebra import simplify_algebra
from migraphx.passes.simplify_qdq import simplify_qdq
from migraphx.passes.simplify_reshapes import simplify_reshapes
from tests.passes.checking import program_of

Build = Callable[..., Instruction | list[Instruction]]
HALF, DOUBLE, BOOL = (lambda *lens, t=t: Shape(t, lens) for t in ("half", "double", "bool"))
RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A program, `build(b, *parameters)`, of which `rule`, a rule or a pass, refuses something: `why`."""

    rule: str
    why: str
    build: Build
    shapes: tuple[Any, ...]


def lit(b: Builder, *values: float, lens: tuple[int, ...] = (), type: str = "float") -> Instruction:
    """A constant: one number broadcast to `lens`, or numbers of these lens."""
    if len(values) == 1:
        return b.broadcast_to(b.literal(np.full(1, values[0]), type), lens or (1,))
    return b.literal(np.reshape(values, lens or (-1,)), type)


def weights(b: Builder, *lens: int, type: str = "float") -> Instruction:
    return b.literal(RNG.standard_normal(lens) + 2, type)


def numbers(b: Builder, *lens: int, type: str = "int8", low: int = -8, high: int = 8) -> Instruction:
    return b.literal(RNG.integers(low, high, lens), type)


def scaled(b: Builder, x: Instruction, *scale: float, axis: int = 0) -> Instruction:
    """Dequantized by one scale, or by one each along an axis."""
    lens = [1] * x.shape.ndim
    lens[axis] = len(scale)
    return b.dequantizelinear(x, b.broadcast_to(b.literal(np.reshape(scale, lens), "float"), x.shape.lens))


# ---- norms ----


def norm(
    b: Builder,
    x: Instruction,
    w: Instruction,
    scale: float | Instruction = 2.0,
    offset: float = 1.0,
    wide: str = "float",
) -> Instruction:
    """A convolution, a scale and an offset for each of its channels."""
    y = b.convolution(x, w, padding=(0, 0), stride=(1, 1), dilation=(1, 1))
    a = scale if isinstance(scale, Instruction) else lit(b, scale, lens=y.shape.lens, type=wide)
    c = b.broadcast_to(b.literal(np.full((w.shape.lens[0], 1, 1), offset), wide), y.shape.lens)
    return b.convert(b.add(b.mul(b.convert(y, target_type=wide), a), c), target_type=x.shape.type)


def shared_norm(b: Builder, x: Instruction) -> list[Instruction]:
    w = weights(b, 3, 2, 1, 1, type="half")
    other = b.convolution(x, w, padding=(1, 1), stride=(1, 1), dilation=(1, 1))
    return [norm(b, x, w, channels(b, 3)), other]


def channels(b: Builder, count: int, value: float = 2.0) -> Instruction:
    return b.broadcast_to(b.literal(np.full((count, 1, 1), value), "float"), (1, count, 4, 4))


def normed(b: Builder, x: Instruction, **how: Any) -> Instruction:
    return norm(b, x, weights(b, 3, 2, 1, 1, type=x.shape.type), **how)


IMAGES = HALF(1, 2, 4, 4)
NORMS = [
    Case("norm_of_convolution", "not a norm of a narrow convolution", lambda b, x: normed(b, x, wide="double"),
         (IMAGES,)),
    Case("norm_of_convolution", "the weights are shared", shared_norm, (IMAGES,)),
    Case("norm_of_convolution", "the norm is not one for each channel",
         lambda b, x: normed(b, x, scale=b.broadcast_to(lit(b, 1, 2, 3, 4, lens=(4, 1)), (1, 3, 4, 4))),
         (IMAGES,)),
    Case("norm_of_convolution", "the scaled weights or the offset overflow",
         lambda b, x: normed(b, x, scale=channels(b, 3), offset=1e6), (IMAGES,)),
    Case("norm_of_convolution", "the scaled weights underflow",
         lambda b, x: normed(b, x, scale=channels(b, 3, 1e-6)), (IMAGES,)),
    Case("norm_of_inputs", "not a norm of a narrow convolution",
         lambda b, x, w: norm(b, x, w, wide="double"), (IMAGES, HALF(3, 2, 1, 1))),
    Case("norm_of_inputs", "weights and norm are constants",
         lambda b, x: normed(b, x, scale=channels(b, 3, 1e-6)), (IMAGES,)),
    Case("norm_of_inputs", "the norm is not one for each channel", norm, (IMAGES, HALF(3, 2, 1, 1))),
    Case("norm_of_inputs", "the convolution is too small",
         lambda b, x, w: norm(b, x, w, channels(b, 3)), (IMAGES, HALF(3, 2, 1, 1))),
    Case("offsets_meet", "not two convolutions into which norms were folded",
         lambda b, x, w, y: b.add(*(b.add(b.convolution(i, w), y) for i in (x, b.exp(x)))),
         (IMAGES, HALF(3, 2, 1, 1), HALF(1, 3, 4, 4))),
]  # fmt: skip

# ---- gates ----

GATED, GATE = (1, 2, 4, 4), (1, 2, 1, 1)


def gated(b: Builder, x: Instruction, gate: Instruction, outputs: int = 2, kernel: int = 1) -> Instruction:
    spread = b.multibroadcast(gate, out_lens=x.shape.lens)
    return b.convolution(b.mul(x, spread), weights(b, outputs, 2, kernel, kernel))


def clamped(b: Builder, s: Instruction, high: float) -> Instruction:
    return b.min(b.max(s, lit(b, 0, lens=GATE)), lit(b, high, lens=GATE))


GATES = [
    Case("gate_before_convolution", "not a gate of the channels of one image",
         lambda b, x, s: gated(b, x, b.sigmoid(s)), ((2, *GATED[1:]), GATE)),
    Case("gate_before_convolution", "the weights are not of a 1x1 convolution of floats",
         lambda b, x, s: gated(b, x, b.sigmoid(s), kernel=3), (GATED, GATE)),
    Case("gate_before_convolution", "numbers of the gate may be larger than 1, and products overflow",
         lambda b, x, s: gated(b, x, clamped(b, s, 6)), (GATED, GATE)),
    Case("gate_before_convolution", "few pixels share the weights",
         lambda b, x, s: gated(b, x, clamped(b, s, 1), outputs=3), (GATED, GATE)),
]  # fmt: skip

# ---- algebra ----

X = (2, 3)
IMAGE = (1, 2, 4, 4)
ALGEBRA = [
    Case("trim_window", "no tap is outside at every pixel",
         lambda b, x: b.convolution(x, weights(b, 2, 2, 3, 3), padding=(1, 1)), (IMAGE,)),
    Case("trim_window", "the other taps do not reach the whole image",
         lambda b, x: b.convolution(x, weights(b, 2, 2, 3, 3), padding=(3, 3), dilation=(4, 4)), (IMAGE,)),
    Case("mul_of_mul", "the product of the constants overflows or underflows",
         lambda b, x: b.mul(b.mul(x, lit(b, 1e30, lens=X)), lit(b, 1e30, lens=X)), (X,)),
    Case("mul_of_add", "the product of the constants overflows or underflows",
         lambda b, x: b.mul(b.add(x, lit(b, 1e30, lens=X)), lit(b, 1e30, lens=X)), (X,)),
    Case("mul_of_add", "narrow types round a * c once more",
         lambda b, x: b.mul(b.add(x, lit(b, 2, lens=X, type="half")), lit(b, 3, lens=X, type="half")), (HALF(*X),)),
    Case("add_to_convolution", "not another convolution of the same input",
         lambda b, x: b.add(b.convolution(x, weights(b, 2, 2, 3, 3), padding=(1, 1)), b.relu(x)), (IMAGE,)),
    Case("add_to_convolution", "sums of narrow weights are rounded",
         lambda b, x: b.add(b.convolution(x, weights(b, 2, 2, 3, 3, type="half"), padding=(1, 1)),
                            b.convolution(x, weights(b, 2, 2, 1, 1, type="half"))), (HALF(*IMAGE),)),
    Case("add_to_biased", "neither window lies within the other", lambda b, x: b.add(
        b.add(b.convolution(x, weights(b, 2, 2, 3, 3), padding=(1, 1)), lit(b, 2, lens=IMAGE)),
        b.convolution(x, weights(b, 2, 2, 3, 3), padding=(2, 2), dilation=(2, 2))), (IMAGE,)),
    Case("sub_of_convolution", "the weights overflow", lambda b, x: b.sub(
        b.convolution(x, lit(b, -3e38, lens=(2, 2, 1, 1))),
        b.convolution(x, lit(b, 3e38, lens=(2, 2, 1, 1)))), (IMAGE,)),
    Case("sub_of_constant", "only for floats", lambda b, x: b.sub(x, lit(b, 2, lens=X, type="int32")),
         (Shape("int32", X),)),
    Case("div_by_constant", "only for floats", lambda b, x: b.div(x, lit(b, 2, lens=X, type="int32")),
         (Shape("int32", X),)),
    Case("div_by_constant", "narrow floats round 1 / a", lambda b, x: b.div(x, lit(b, 3, lens=X, type="half")),
         (HALF(*X),)),
    Case("div_by_constant", "1 / a is not a normal number", lambda b, x: b.div(x, lit(b, 0, lens=X)), (X,)),
    Case("scale_of_dot", "the weights are shared",
         lambda b, x: [b.mul(b.dot(x, w := weights(b, 3, 3)), lit(b, 2, lens=X)), b.dot(b.relu(x), w)], (X,)),
    Case("scale_of_dot", "the scaled weights overflow",
         lambda b, x: b.mul(b.dot(x, lit(b, *[1e30] * 9, lens=(3, 3))), lit(b, 1e30, lens=X)), (X,)),
    Case("scale_of_dot", "the scale is not one for each column",
         lambda b, x: b.mul(b.dot(x, weights(b, 3, 3)), weights(b, *X)), (X,)),
    Case("scale_of_left_dot", "the scale is not one for each row",
         lambda b, x: b.mul(b.dot(weights(b, 2, 2), x), weights(b, *X)), (X,)),
    Case("scale_before_dot", "the scale is not one for each row of the weights",
         lambda b, x: b.dot(b.mul(x, weights(b, *X)), weights(b, 3, 3)), (X,)),
    Case("scale_of_convolution", "the scale is not one for each channel",
         lambda b, x: b.mul(b.convolution(x, weights(b, 2, 2, 1, 1)), weights(b, *IMAGE)), (IMAGE,)),
    Case("scale_before_convolution", "the scale is not one for each channel",
         lambda b, x: b.convolution(b.mul(x, weights(b, *IMAGE)), weights(b, 2, 2, 1, 1)), (IMAGE,)),
    Case("scale_before_convolution", "the weights are grouped",
         lambda b, x: b.convolution(b.mul(x, b.broadcast_to(weights(b, 2, 1, 1), IMAGE)),
                                    weights(b, 2, 1, 1, 1), group=2), (IMAGE,)),
    Case("mul_by_one", "the factor is not 1", lambda b, x: b.mul(x, lit(b, 2, lens=X)), (X,)),
    Case("add_of_zero", "the term is not 0", lambda b, x: b.add(x, lit(b, 2, lens=X)), (X,)),
    Case("add_of_zero", "x + 0.0 is 0.0 for x = -0.0", lambda b, x: b.add(x, lit(b, 0, lens=X)), (X,)),
    Case("logical_of_neutral", "not a neutral constant",
         lambda b, x: b.logical_and(x, lit(b, 0, lens=X, type="bool")), (BOOL(*X),)),
    Case("pow_of_whole", "no product for the exponent 7.0", lambda b, x: b.pow(x, lit(b, 7, lens=X)), (X,)),
    Case("idempotent", "two different functions", lambda b, x: b.floor(b.relu(x)), (X,)),
    Case("convert_to_same", "another type", lambda b, x: b.convert(x, target_type="half"), (X,)),
    Case("isnan_of_convert", "a type that turns numbers into NaN, or has none",
         lambda b, x: b.isnan(b.convert(x, target_type="fp8e4m3fn")), (X,)),
    Case("convert_of_convert", "half does not hold every float",
         lambda b, x: b.convert(b.convert(x, target_type="half"), target_type="double"), (X,)),
    Case("div_by_sqrt", "narrow floats round rsqrt(x)", lambda b, x, y: b.div(y, b.sqrt(x)), (HALF(*X), HALF(*X))),
    Case("div_by_broadcast_sqrt", "narrow floats round rsqrt(x)",
         lambda b, x, y: b.div(y, b.multibroadcast(b.sqrt(x), out_lens=X)), (HALF(3), HALF(*X))),
    Case("one_by", "the dividend is not 1", lambda b, x: b.div(lit(b, 2, lens=X), x), (X,)),
    Case("where_known", "the condition varies",
         lambda b, x, y: b.where(b.literal(np.array([[True], [False]]) & np.ones(X, bool)), x, y), (X, X)),
    Case("where_not", "not of a number",
         lambda b, c, x, y: b.where(b.instruction("not", [c]), x, y), (Shape("int32", X), X, X)),
]  # fmt: skip

# ---- views ----

TURNED = Shape("float", (3, 2), (1, 3))
CHANNELS_LAST = permuted("float", IMAGE, (0, 2, 3, 1))


def enlarged(b: Builder, x: Instruction, *sizes: int) -> Instruction:
    return b.resize(x, sizes=sizes or (1, 2, 8, 8), mode="linear")


def rows_first(b: Builder, x: Instruction) -> Instruction:
    return b.layout(x, permutation=(0, 1, 2, 3))


VIEWS = [
    Case("layout_of_resize", "others read the resized image in its own order",
         lambda b, x: [rows_first(b, y := enlarged(b, x)), b.relu(y)], (CHANNELS_LAST,)),
    Case("layout_of_resize", "the image does not grow",
         lambda b, x: rows_first(b, enlarged(b, x, 1, 2, 3, 2)), (CHANNELS_LAST,)),
    Case("layout_of_resize", "x is so small that it lies in several orders at once",
         lambda b, x: b.layout(enlarged(b, x, 2, 4, 4, 3), permutation=(0, 2, 1, 3)), ((2, 1, 1, 3),)),
    Case("resize_of_one", "its elements differ", lambda b, x: b.relu(enlarged(b, x)), (IMAGE,)),
    Case("resize_of_one", "what reads it would copy a broadcast", enlarged, ((1, 2, 1, 1),)),
    Case("same_lens", "other lens", lambda b, x: b.reshape(x, dims=[3, 2]), (X,)),
    Case("identity_transpose", "it moves", lambda b, x: b.transpose(x, permutation=[1, 0]), (X,)),
    Case("transpose_as_reshape", "it moves elements", lambda b, x: b.transpose(x, permutation=[1, 0]), (X,)),
    Case("same_layout", "it copies, or names another order", lambda b, x: b.layout(x, permutation=[1, 0]), (X,)),
    Case("empty_pad", "it pads", lambda b, x: b.pad(x, pads=[0, 1, 0, 1]), (X,)),
    Case("pad_of_convolution", "it pads otherwise than with zeros round the image",
         lambda b, x: b.convolution(b.pad(x, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=1.0), weights(b, 2, 2, 3, 3)),
         (IMAGE,)),
    Case("pad_of_maxima", "what is put round the image counts",
         lambda b, x: b.pooling(b.pad(x, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=-np.inf), mode="average", lengths=(2, 2)),
         (IMAGE,)),
    Case("pad_of_maxima", "it pads otherwise than with -inf round the image",
         lambda b, x: b.pooling(b.pad(x, pads=[0, 0, 1, 1, 0, 0, 1, 1]), mode="max", lengths=(2, 2)), (IMAGE,)),
    Case("reduction_of_one", "it reduces", lambda b, x: b.reduce_sum(x, axes=[1]), (X,)),
    Case("reshape_of_reshape", "squeeze and unsqueeze are views of x, a reshape is none",
         lambda b, x: b.relu(b.unsqueeze(b.unsqueeze(x, axes=[0]), axes=[1])), (TURNED,)),
    Case("broadcast_of_leading_ones", "not leading ones",
         lambda b, x: b.multibroadcast(b.unsqueeze(x, axes=[1]), out_lens=[2, 5, 3]), (X,)),
    Case("slice_of_concat", "along another axis",
         lambda b, x, y: b.slice(b.concat(x, y, axis=0), axes=[1], starts=[0], ends=[2]), (X, X)),
    Case("slice_of_concat", "it cuts into an input",
         lambda b, x, y: b.slice(b.concat(x, y, axis=0), axes=[0], starts=[1], ends=[3]), (X, X)),
    Case("concat_of_few", "nothing to drop", lambda b, x, y: b.concat(x, y, axis=0), (X, X)),
    Case("concat_of_slices", "not slices of one value", lambda b, x, y: b.concat(x, y, axis=0), (X, X)),
    Case("concat_of_slices", "slices along other axes",
         lambda b, x: b.concat(*(b.slice(x, axes=[1], starts=[n], ends=[n + 1]) for n in (0, 1)), axis=0), (X,)),
    Case("concat_of_slices", "slices that do not follow one another",
         lambda b, x: b.concat(*(b.slice(x, axes=[1], starts=[n], ends=[n + 1]) for n in (2, 0)), axis=1), (X,)),
    Case("gather_of_range", "no index, or one out of range",
         lambda b, x: b.gather(x, b.literal(np.array([9])), axis=0), (X,)),
    Case("gather_of_range", "indices that do not follow one another",
         lambda b, x: b.gather(x, b.literal(np.array([1, 0])), axis=0), (X,)),
    Case("reshape_of_slice", "x is not row-major, or the slice is",
         lambda b, x: b.reshape(b.slice(x, axes=[0], starts=[0], ends=[1]), dims=[3, 1]), (X,)),
    Case("reshape_of_slice", "the sliced dimension is merged with another",
         lambda b, x: b.reshape(b.slice(x, axes=[1], starts=[0], ends=[2]), dims=[4]), (X,)),
    Case("reshape_of_slice", "the slice cuts into the new dimensions",
         lambda b, x: b.reshape(b.slice(x, axes=[2], starts=[1], ends=[5]), dims=[6, 2, 2]), ((2, 3, 6),)),
    Case("reshape_as_views", "x is row-major, or not packed", lambda b, x: b.reshape(x, dims=[3, 2]), (X,)),
    Case("reshape_as_views", "it merges what does not lie together",
         lambda b, x: b.reshape(x, dims=[6]), (TURNED,)),
    Case("reshape_as_split", "x is row-major, or empty", lambda b, x: b.reshape(x, dims=[3, 2]), (X,)),
    Case("reshape_as_split", "it merges dimensions", lambda b, x: b.reshape(x, dims=[6]), (TURNED,)),
    Case("dot_of_reshape", "a batch of products",
         lambda b, x: b.dot(b.reshape(x, dims=[2, 1, 3]), weights(b, 2, 3, 4)), (X,)),
    Case("dot_of_reshape", "x is empty",
         lambda b, x: b.dot(b.reshape(x, dims=[0, 3]), weights(b, 3, 4)), ((0, 1, 3),)),
    Case("dot_of_reshape", "the reshape does more than split or merge leading dimensions",
         lambda b, x: b.dot(b.reshape(x, dims=[3, 4]), weights(b, 4, 5)), ((4, 3),)),
    Case("dot_of_reshape", "the rows stay as they are",
         lambda b, x: b.dot(b.reshape(x, dims=[2, 3, 20]), b.broadcast_to(weights(b, 20, 5), (2, 20, 5))),
         ((2, 3, 4, 5),)),
    Case("dot_of_reshape", "squeezing x takes no copy, and reshape_as_split would come back to it",
         lambda b, x: b.dot(b.reshape(x, dims=[1, 6, 4]), b.broadcast_to(weights(b, 4, 5), (1, 4, 5))),
         (Shape("float", (2, 3, 4, 1), (12, 1, 3, 1)),)),
    Case("dot_of_transpose", "a batch of products, or the depth moves",
         lambda b, x: b.dot(b.transpose(x, permutation=[0, 2, 1]), b.broadcast_to(weights(b, 3, 5), (2, 3, 5))),
         ((2, 3, 4),)),
    Case("dot_of_planes", "a batch of products, or more than the depth moves",
         lambda b, x: b.dot(b.transpose(x, permutation=(2, 1, 0)), b.broadcast_to(weights(b, 2, 3), (16, 2, 3))),
         ((2, 17, 16),)),
    Case("dot_of_planes", "planes of x are many or short, or many are made",
         lambda b, x: b.dot(b.transpose(x, permutation=(0, 2, 1)), b.broadcast_to(weights(b, 4, 3), (16, 4, 3))),
         ((16, 4, 17),)),
    Case("dot_of_transpose", "the rows of x do not follow one another either",
         lambda b, x: b.dot(b.transpose(x, permutation=[1, 0, 2]), b.broadcast_to(weights(b, 4, 5), (2, 4, 5))),
         (Shape("float", (3, 2, 4), (4, 12, 1)),)),
    Case("dot_of_merged", "users do not reshape it, or not alike",
         lambda b, x, y: b.dot(b.reshape(x, dims=[6, 4, 5]), y), ((2, 3, 4, 5), (6, 5, 7))),
    Case("dot_of_merged", "users do not split the batch",
         lambda b, x, y: b.reshape(b.dot(b.reshape(x, dims=[6, 4, 5]), y), dims=[6, 28]), ((2, 3, 4, 5), (6, 5, 7))),
    Case("dot_of_merged", "no operand was merged so",
         lambda b, x, y: b.reshape(b.dot(b.reshape(x, dims=[6, 4, 5]), y), dims=[3, 2, 4, 7]),
         ((2, 3, 4, 5), (6, 5, 7))),
    Case("softmax_of_merged", "other lens, or not along the last dimension",
         lambda b, x: b.reshape(b.softmax(b.reshape(x, dims=[6, 4]), axis=1), dims=[3, 2, 4]), ((2, 3, 4),)),
    Case("softmax_of_merged", "the last dimension is not kept",
         lambda b, x: b.reshape(b.softmax(b.reshape(x, dims=[2, 12]), axis=1), dims=[2, 3, 4]), ((2, 3, 4),)),
    Case("pointwise_of_views", "no input is a view", lambda b, x: b.relu(x), (X,)),
    Case("pointwise_of_views", "others use the view too, or it is a reshape of what is not row-major",
         lambda b, x, y: [b.add(t := b.transpose(x, permutation=[1, 0]), y), b.reshape(t, dims=[6])], (X, (3, 2))),
    Case("pointwise_of_views", "an input lies in another order",
         lambda b, x, y: b.add(b.transpose(x, permutation=[1, 0]), y), (X, (3, 2))),
    Case("pointwise_of_views", "an input is not reshaped alike",
         lambda b, x, y: b.add(b.reshape(x, dims=[3, 2]), y), (X, (3, 2))),
    Case("pointwise_of_views", "a constant varies along a part of what is reshaped",
         lambda b, x: b.add(b.reshape(x, dims=[2, 3]), b.broadcast_to(weights(b, 3), X)), ((6,),)),
    Case("pointwise_of_views", "it is empty",
         lambda b, x: b.add(b.reshape(x, dims=[0, 2, 3]), b.literal(np.zeros((0, 2, 3)), "float")), ((0, 6),)),
    Case("pointwise_of_views", "what the view moves would be wider",
         lambda b, x: b.convert(b.transpose(x, permutation=[1, 0]), target_type="float"), (HALF(2, 3),)),
    Case("pointwise_of_broadcasts", "not all inputs are broadcast", lambda b, x: b.relu(x), (X,)),
    Case("pointwise_of_broadcasts", "inputs of different lens are broadcast",
         lambda b, x, y: b.add(*(b.multibroadcast(i, out_lens=X) for i in (x, y))), ((3,), (1, 3))),
    Case("pointwise_of_broadcasts", "a constant varies",
         lambda b, x: b.add(b.multibroadcast(x, out_lens=X), weights(b, *X)), ((3,),)),
]  # fmt: skip

# ---- attention ----

Q, K, S = (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 3, 5)


def scores(b: Builder, q: Instruction, k: Instruction) -> Instruction:
    return b.dot(q, b.transpose(k, permutation=[0, 1, 3, 2]))


def low(b: Builder, keep: Instruction, x: Instruction, value: float) -> Instruction:
    return b.where(b.multibroadcast(keep, out_lens=S), x, lit(b, value, lens=S))


def seen(b: Builder, q: Instruction, k: Instruction, v: Instruction, m: Instruction, **given: Any) -> Instruction:
    """An attention whose rows are 0 where `given["question"]` says that no key is seen."""
    wide = b.multibroadcast(m, out_lens=S)
    asked = given["question"](b, wide)
    made = b.attention(q, k, v, wide)
    return b.where(b.multibroadcast(asked, out_lens=Q), made, lit(b, given.get("other", 0), lens=Q))


def any_key(b: Builder, m: Instruction) -> Instruction:
    return b.reduce_any(m, axes=[3])


ATTENTION = [
    Case("attention_of_softmax", "no softmax, or its result is used elsewhere too",
         lambda b, q, k, v: [b.dot(p := b.softmax(scores(b, q, k), axis=3), v), b.relu(p)], (Q, K, K)),
    Case("attention_of_softmax", "no heads, or a softmax over another axis",
         lambda b, q, k, v: b.dot(b.softmax(scores(b, q, k), axis=2), v), (Q, K, K)),
    Case("attention_of_softmax", "the scores are no masked and scaled product, or of another type",
         lambda b, q, k, v: b.dot(b.softmax(b.relu(scores(b, q, k)), axis=3), v), (Q, K, K)),
    Case("attention_of_softmax", "masks whose sum means something else to a query that sees no key",
         lambda b, q, k, v, m, n: b.dot(b.softmax(low(b, n, low(b, m, scores(b, q, k), -1e5), -1e6), axis=3), v),
         (Q, K, K, BOOL(1, 1, 3, 5), BOOL(1, 1, 1, 5))),
    Case("attention_of_seen_rows", "another value than 0, no mask, or used elsewhere too",
         lambda b, *given: seen(b, *given, question=any_key, other=1), (Q, K, K, BOOL(1, 1, 3, 5))),
    Case("attention_of_seen_rows", "no question of whether any key is seen",
         lambda b, c, *given: seen(b, *given, question=lambda b, m: c), (BOOL(1, 2, 3, 1), Q, K, K, (1, 1, 3, 5))),
    Case("attention_of_seen_rows", "compares with another value than -inf",
         lambda b, *given: seen(b, *given, question=lambda b, m: any_key(
             b, b.instruction("not", [b.equal(m, lit(b, 7, lens=S))]))), (Q, K, K, (1, 1, 3, 5))),
    Case("attention_of_seen_rows", "another mask",
         lambda b, c, *given: seen(b, *given, question=lambda b, m: any_key(b, c)),
         (BOOL(*S), Q, K, K, BOOL(1, 1, 3, 5))),
]  # fmt: skip

NARROWER = [
    Case("attention_of_softmax", "the target's attention of double sums in a narrower type",
         lambda b, q, k, v: b.dot(b.softmax(scores(b, q, k), axis=3), v), (DOUBLE(*Q), DOUBLE(*K), DOUBLE(*K))),
]  # fmt: skip

# ---- kernels ----


def both(b: Builder, x: Instruction, *ws: Instruction, after: Callable[..., Instruction]) -> list[Instruction]:
    return [after(b.dot(x, w)) for w in ws]


def turned(b: Builder) -> Callable[[Instruction], Instruction]:
    return lambda y: b.transpose(y, permutation=[1, 0])


DOTS = [
    Case("fuse_dots", "the weights are not constant",
         lambda b, x, w: both(b, x, w, weights(b, 3, 4), after=turned(b)), (X, (3, 4))),
    Case("fuse_dots", "the weights are shared",
         lambda b, x: both(b, x, w := weights(b, 3, 4), w, after=turned(b)), (X,)),
    Case("fuse_dots", "the weights are no single matrix without repetition",
         lambda b, x: both(b, x, weights(b, 3, 4), lit(b, 2, lens=(3, 4)), after=turned(b)), (X,)),
    Case("fuse_dots", "its result is read by more than views and attention",
         lambda b, x: both(b, x, weights(b, 3, 4), weights(b, 3, 4), after=b.relu), (X,)),
]  # fmt: skip


EPILOGUES = [
    Case("fuse_epilogue", "its result is used more than once",
         lambda b, x, w: [b.relu(y := b.dot(x, w)), b.transpose(y, permutation=[1, 0])], (X, (3, 4))),
    Case("fuse_epilogue", "what follows it is no pointwise operator",
         lambda b, x, w: b.relu(b.transpose(b.dot(x, w), permutation=[1, 0])), (X, (3, 4))),
    Case("fuse_epilogue", "what follows it is the epilogue of another product",
         lambda b, x, w, v: b.relu(b.add(b.dot(x, w), b.dot(x, v))), (X, (3, 4), (3, 4))),
    Case("fuse_epilogue", "the pointwise operator behind it reads it twice",
         lambda b, x, w: b.instruction("pointwise", [y := b.dot(x, w), y], [product(b)]), (X, (3, 4))),
]  # fmt: skip


def product(b: Builder) -> Any:
    """A body of two parameters."""
    body = migraphx.ir.module.Module("product")
    x, y = (body.add_parameter(n, Shape("float", (1,), (0,))) for n in "xy")
    body.add_return([Builder(body).mul(x, y)])
    return body


def unpacked(b: Builder, zeros: int | None = None, block: int = 2, each: bool = False) -> Instruction:
    """{4, 2} of 4-bit codes in two blocks, with one scale a block, or one for each number."""
    codes = b.reshape(b.unpack_int4(numbers(b, 2, 2, type="uint8", low=0), axis=0), dims=[2, block, 2])
    scale = weights(b, 2, block, 2) if each else b.broadcast_to(weights(b, 2, 1, 2), (2, block, 2))
    point = [] if zeros is None else [lit(b, zeros, lens=(2, block, 2), type="uint8")]
    return b.reshape(b.dequantizelinear(codes, scale, *point), dims=[4, 2])


INT4 = [
    Case("fuse_int4", "a block of its weights has several scales, or they are not constant",
         lambda b, x: b.dot(x, unpacked(b, each=True)), ((2, 4),)),
    Case("fuse_int4", "the zero points of its weights are no int8",
         lambda b, x: b.dot(x, unpacked(b, zeros=200)), ((2, 4),)),
]  # fmt: skip
BYTES = Shape("int8", X)
QDQ = [
    Case("simplify_qdq", "its input is not dequantized from 8 bits by one scale, or one a row",
         lambda b, x: b.dot(x, scaled(b, numbers(b, 3, 4), 0.5)), (X,)),
    Case("simplify_qdq", "its weights are not dequantized",
         lambda b, x: b.dot(scaled(b, x, 0.5), weights(b, 3, 4)), (BYTES,)),
    Case("simplify_qdq", "its weights are not constants of 8 bits",
         lambda b, x, w: b.dot(scaled(b, x, 0.5), scaled(b, w, 0.5)), (BYTES, Shape("int8", (3, 4)))),
    Case("simplify_qdq", "the scales of its weights change along the depth",
         lambda b, x: b.dot(scaled(b, x, 0.5), scaled(b, numbers(b, 3, 4), 1, 2, 3)), (BYTES,)),
    Case("simplify_qdq", "its weights are in groups, and need 9 bits without their zero points",
         lambda b, x: b.convolution(scaled(b, x, 0.5), b.dequantizelinear(
             b.literal(np.array([0, 255] * 16).reshape(8, 4, 1, 1), "uint8"), lit(b, 0.5, lens=(8, 4, 1, 1)),
             lit(b, 100, lens=(8, 4, 1, 1), type="uint8")), group=2), (Shape("uint8", (1, 8, 4, 4)),)),
    Case("simplify_qdq", "it has fewer than three inputs, or four in each of several groups: too few to gain",
         lambda b, x: b.convolution(scaled(b, x, 0.5), b.dequantizelinear(
             b.literal(np.array([0, 255] * 2).reshape(4, 1, 1, 1), "uint8"), lit(b, 0.5, lens=(4, 1, 1, 1)),
             lit(b, 100, lens=(4, 1, 1, 1), type="uint8")), group=2), (Shape("uint8", IMAGE),)),
]  # fmt: skip
FP8 = Shape("fp8e4m3fn", X)
NARROW = [
    Case("narrow_products", "its weights are not dequantized",
         lambda b, x: b.dot(scaled(b, x, 0.5), weights(b, 3, 4)), (FP8,)),
    Case("narrow_products", "its weights are not constants of 8 bits",
         lambda b, x, w: b.dot(scaled(b, x, 0.5), scaled(b, w, 0.5)), (FP8, Shape("fp8e4m3fn", (3, 4)))),
    Case("narrow_products", "the scales of its weights change along the depth",
         lambda b, x: b.dot(scaled(b, x, 0.5), scaled(b, numbers(b, 3, 4, type="fp8e4m3fn"), 1, 2, 3)), (FP8,)),
    Case("narrow_products", "its operands are two types of fp8",
         lambda b, x: b.dot(scaled(b, x, 0.5), scaled(b, numbers(b, 3, 4, type="fp8e5m2"), 0.5)), (FP8,)),
    Case("narrow_products", "its operands have zero points",
         lambda b, x: b.dot(b.dequantizelinear(x, *(lit(b, 2, lens=X, type=t) for t in ("float", "fp8e4m3fn"))),
                            scaled(b, numbers(b, 3, 4, type="fp8e4m3fn"), 0.5)), (FP8,)),
]  # fmt: skip


def long_chain(b: Builder, x: Instruction) -> Instruction:
    for _ in range(101):
        x = b.sin(x)
    return x


POINTWISE = [
    Case("fuse_pointwise", "its result is used outside the kernel too",
         lambda b, x: [b.sin(y := b.relu(x)), b.reshape(y, dims=[6])], (X,)),
    Case("fuse_pointwise", "the kernel is full", long_chain, (X,)),
    Case("fuse_pointwise", "it is what a product that waits for another stores",
         lambda b, x, y: b.add(*(b.convert(b.dot(x, y), target_type="half") for _ in range(2))), (X, (3, 4))),
]  # fmt: skip
REDUCE = [
    Case("fuse_reduce", "it reduces other axes, or other lens",
         lambda b, x: b.reduce_sum(b.reduce_max(x, axes=[0]), axes=[1]), (X,)),
    Case("fuse_reduce", "it is the end of another reduction's kernel",
         lambda b, x: b.reduce_sum(b.sin(b.sub(x, b.multibroadcast(b.reduce_max(x, axes=[0]), out_lens=X))),
                                   axes=[1]), (X,)),
    Case("fuse_reduce", "it can be the epilogue of a dot or convolution",
         lambda b, x, w: b.reduce_sum(b.relu(b.dot(x, w)), axes=[1]), (X, (3, 4))),
]  # fmt: skip
PARTS = [
    Case("add_of_concat", "nothing is known ahead",
         lambda b, x, y: b.add(b.concat(x, y, axis=0), lit(b, 2, lens=(4, 3))), (X, X)),
]  # fmt: skip

CASES: dict[Pass, list[Case]] = {
    add_to_parts: PARTS,
    simplify_algebra: ALGEBRA,
    simplify_reshapes: VIEWS,
    fuse_attention: ATTENTION,
    fuse_attention_but_of("double"): NARROWER,
    fuse_dots: DOTS,
    fuse_epilogue: EPILOGUES,
    fuse_int4: INT4,
    simplify_qdq: QDQ,
    narrow_products: NARROW,
    fold_norms: NORMS,
    scale_weights: GATES,
    fuse_pointwise: POINTWISE,
    fuse_reduce: REDUCE,
}
BEFORE: dict[Pass, list[Pass]] = {fuse_epilogue: [fuse_pointwise]}
"""The passes that make the form which a pass reads."""


def refused(one: Pass, case: Case) -> list[Refusal[Instruction]]:
    names = [f"x{n}" for n in range(len(case.shapes))]
    program, found = program_of(case.build, **dict(zip(names, case.shapes, strict=True))), []
    run_passes(program, BEFORE.get(one, []))
    run_passes(program, [one], check=True, refusals=found)
    return found


@pytest.mark.parametrize(("one", "case"), [
    pytest.param(one, case, id=f"{case.rule}: {case.why}") for one, cases in CASES.items() for case in cases
])  # fmt: skip
def test_the_reason(one: Pass, case: Case) -> None:
    found = refused(one, case)
    assert (case.rule, case.why) in [(r.rule, r.why) for r in found]
    assert all(isinstance(r.why, Refuse) and r.instruction.op is not None for r in found)


def reasons(path: Path) -> Iterator[tuple[str, str]]:
    """The functions of a source file and the reasons that they give, as regular expressions."""
    named = (Refuse.__name__, Mismatch.__name__)
    for outer in ast.parse(path.read_text()).body:
        calls = [n for n in ast.walk(outer) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
        for text in [n.args[0] for n in calls if n.func.id in named]:  # type: ignore[attr-defined]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            pattern = "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".*" for p in parts)
            yield getattr(outer, "name", ""), pattern


def test_every_reason_has_a_program() -> None:
    """Rules are functions of their names; what helpers say counts for any rule."""
    tested = [case[:2] for cases in CASES.values() for case in cases]
    rules = {rule for rule, _ in tested}
    folder = Path(migraphx.passes.__path__[0])
    wanted = [found for path in sorted(folder.glob("*.py")) for found in reasons(path)]
    assert len(wanted) > 80
    missing = [
        (function, reason)
        for function, reason in wanted
        if not any(re.fullmatch(reason, why) and (rule == function or function not in rules) for rule, why in tested)
    ]
    assert not missing, missing
