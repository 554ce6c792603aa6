"""Narrow types: products of 8-bit integers, bits seen as another type, two numbers a byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape
from migraphx.ops.quantize import UnpackInt4
from migraphx.targets.common.lowering import LoweringContext, UnsupportedOperator
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import View, loops
from migraphx.targets.cpu.emit.pointwise import pointwise_call
from migraphx.targets.cpu.emit.quantized import int4_gemm_call
from migraphx.targets.cpu.lower.contractions import convolution, dot, shared_matrix
from migraphx.targets.cpu.lower.registry import CPU, features_of
from migraphx.targets.cpu.lower.vnni import whole_words, word_convolution, word_dot
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.int4 import pack_int4_panels

# ---- products -------------------------------------------------------------------------------------------------------

NO_INT8_WEIGHTS = "the weights are no constant int8"


@CPU.of_contraction("quant_dot")
def quant_dot(ctx: LoweringContext, c: Contraction) -> None:
    """By quant.hpp where the weights are constant int8, else as a dot of wider integers."""
    constant, rank = ctx.constant(c.operands[1]), len(c.write.lens)
    matrix = None if constant is None else shared_matrix(constant[0])
    if matrix is None or matrix.dtype != np.int8:
        ctx.refuse(c.anchor, "8-bit products", NO_INT8_WEIGHTS)
        dot(ctx, c)
        return
    word_dot(ctx, ctx.view(c.operands[0]), matrix, c.epilogue(range(rank - 1), rank - 1), "quant_dot", c.origin)


@CPU.of_contraction("quant_convolution")
def quant_convolution(ctx: LoweringContext, c: Contraction) -> None:
    """By quant.hpp where the weights are constant int8 and groups are of whole quads, else in wider integers."""
    constant, attributes = ctx.constant(c.operands[1]), c.anchor.op.attributes()
    if constant is None or constant[0].dtype != np.int8 or not whole_words(constant[0], attributes["group"]):
        whole = constant is None or constant[0].dtype != np.int8
        ctx.refuse(c.anchor, "8-bit products", NO_INT8_WEIGHTS if whole else "its groups are not of whole words")
        convolution(ctx, c)
        return
    epilogue = c.epilogue((0, *range(2, len(c.write.lens))), 1)
    word_convolution(ctx, ctx.view(c.operands[0]), *constant, attributes, epilogue, "quant_convolution", c.origin)


@CPU.of_contraction("dot_int4")
def dot_int4(ctx: LoweringContext, c: Contraction) -> None:
    a, rank, origin = ctx.view(c.operands[0]), len(c.write.lens), c.origin
    constants = [value for i in c.operands[1:] if (value := ctx.constant(i)) is not None]
    if len(constants) < len(c.operands) - 1:
        raise UnsupportedOperator("cpu", [Refusal(c.anchor, "target cpu", "weights and scales must be constants")])
    codes, scales, *zeros = constants
    rows = loops([a], None, range(rank - 1))
    if rows.rank > 1 or a.strides[-1] != 1:
        a = ctx.standard(a, origin)
        rows = loops([a], None, range(rank - 1))
    unpacked, nr = UnpackInt4(axis=0).compute, features_of(ctx).panel
    packed = (
        ctx.packed((*codes[1], "int4"), lambda: pack_int4_panels(unpacked(codes[0]), nr)),
        *(ctx.packed((*key, "dot"), lambda of=value: pack_dot(of, nr)) for value, key in (scales, *zeros)),
    )
    k, n = a.lens[-1], c.write.lens[-1]
    sizes = (rows.lens[0], n, k, rows.strides[0][0], k // scales[0].shape[0])
    epilogue = c.epilogue(range(rank - 1), rank - 1)
    ctx.call(int4_gemm_call(a, packed, sizes, epilogue, ctx.fast_math, origin))


# ---- the same bits as another type, two numbers a byte --------------------------------------------------------------

Body = Callable[..., Instruction]


def apply(ctx: LoweringContext, body: Body, reads: Sequence[View], write: View, origin: str) -> None:
    """One pointwise kernel whose body is written on a builder."""
    module = Module("packing")
    b = Builder(module)
    inputs = [module.add_parameter(f"x{n}", Shape(v.type, (1,))) for n, v in enumerate(reads)]
    module.add_return([body(b, *inputs)])
    ctx.call(pointwise_call(module, reads, write, origin))


def halves(view: View, axis: int) -> tuple[View, View]:
    """Its even and its odd elements along an axis."""
    axis %= len(view.lens)
    return view.sliced(axis, 0, view.lens[axis], 2), view.sliced(axis, 1, view.lens[axis], 2)


def joined(b: Builder, low: Instruction, high: Instruction) -> Instruction:
    """A byte of two 4-bit codes."""
    low, high = (b.bitwise_and(v, b.full(15, v)) for v in (low, high))
    return b.bitwise_or(low, b.mul(high, b.full(16, high)))


@CPU.of("pack_int4")
def pack_int4(ctx: LoweringContext, ins: Instruction) -> None:
    low, high = dtypes.limits("int4" if ins.shape.type == "int8" else "uint4")

    def body(b: Builder, *pair: Instruction) -> Instruction:
        codes = (b.cast(b.min(b.max(v, b.full(low, v)), b.full(high, v)), "uint8") for v in pair)
        return b.cast(joined(b, *codes), ins.shape.type)

    apply(ctx, body, halves(ctx.view(ins.inputs[0]), ins.op.attributes()["axis"]), ctx.result(ins), ins.origin)


@CPU.of("unpack_int4")
def unpack_int4(ctx: LoweringContext, ins: Instruction) -> None:
    """A 4-bit type's conversion drops the high bits, and extends the sign of what is left."""
    narrow = "int4" if ins.shape.type == "int8" else "uint4"
    packed = replace(ctx.view(ins.inputs[0]), type="uint8")
    low, high = halves(ctx.result(ins), ins.op.attributes()["axis"])
    apply(ctx, lambda b, v: b.cast(b.cast(v, narrow), ins.shape.type), [packed], low, ins.origin)
    apply(ctx, lambda b, v: b.cast(b.cast(_upper(b, v), narrow), ins.shape.type), [packed], high, ins.origin)


def _upper(b: Builder, byte: Instruction) -> Instruction:
    return b.div(byte, b.full(16, byte))


@CPU.of("pack_fp4")
def pack_fp4(ctx: LoweringContext, ins: Instruction) -> None:
    source = ctx.view(ins.inputs[0])
    narrow = ctx.temporary(Shape("fp4e2m1fn", source.lens))
    ctx.convert(source, narrow, ins.origin)
    codes = replace(narrow, type="uint8")
    packed = replace(ctx.result(ins), type="uint8")
    apply(ctx, joined, halves(codes, ins.op.attributes()["axis"]), packed, ins.origin)


@CPU.of("unpack_fp4")
def unpack_fp4(ctx: LoweringContext, ins: Instruction) -> None:
    packed, axis = replace(ctx.view(ins.inputs[0]), type="uint8"), ins.op.attributes()["axis"]
    codes = ctx.temporary(Shape("uint8", ins.shape.lens))
    low, high = halves(codes, axis)
    apply(ctx, lambda b, v: b.bitwise_and(v, b.full(15, v)), [packed], low, ins.origin)
    apply(ctx, _upper, [packed], high, ins.origin)
    ctx.convert(replace(codes, type="fp4e2m1fn"), ctx.result(ins), ins.origin)
