"""Two numbers a byte: packing and unpacking as pointwise kernels on every other element."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal
from migraphx.ir.shape import Shape
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import NEUTRAL, Contraction
from migraphx.targets.common.views import View, loops
from migraphx.targets.target import UnsupportedOperator

Body = Callable[[Builder, Sequence[Instruction]], Instruction]


def apply(ctx: LoweringContext, body: Body, reads: Sequence[View], write: View, origin: str) -> None:
    """One pointwise kernel whose body is written on a builder."""
    module = Module("packing")
    b = Builder(module)
    inputs = [module.add_parameter(f"x{n}", Shape(v.type, (1,))) for n, v in enumerate(reads)]
    module.add_return([body(b, inputs)])
    ctx.call(ctx.emit.pointwise(module, reads, write, origin))


def halves(view: View, axis: int) -> tuple[View, View]:
    """Its even and its odd elements along an axis."""
    axis %= len(view.lens)
    return view.sliced(axis, 0, view.lens[axis], 2), view.sliced(axis, 1, view.lens[axis], 2)


def joined(b: Builder, pair: Sequence[Instruction]) -> Instruction:
    """A byte of two 4-bit codes, the lower half first."""
    low, high = (b.bitwise_and(v, b.full(15, v)) for v in pair)
    return b.bitwise_or(low, b.mul(high, b.full(16, high)))


@NEUTRAL.of("pack_int4")
def pack_int4(ctx: LoweringContext, ins: Instruction) -> None:
    low, high = dtypes.limits("int4" if ins.shape.type == "int8" else "uint4")

    def body(b: Builder, pair: Sequence[Instruction]) -> Instruction:
        codes = [b.cast(b.min(b.max(v, b.full(low, v)), b.full(high, v)), "uint8") for v in pair]
        return b.cast(joined(b, codes), ins.shape.type)

    apply(ctx, body, halves(ctx.view(ins.inputs[0]), ins.op.attributes()["axis"]), ctx.result(ins), ins.origin)


def int4_operands(ctx: LoweringContext, c: Contraction) -> tuple[View, list[tuple[np.ndarray, tuple[Hashable, ...]]]]:
    """Of a `dot_int4`: the left side as a matrix {rows, K} with columns side by side, and the constants with keys.

    UnsupportedOperator where weights or scales are not constant.
    """
    constants = [value for i in c.operands[1:] if (value := ctx.constant(i)) is not None]
    if len(constants) < len(c.operands) - 1:
        target = ctx.lowerings.target
        raise UnsupportedOperator(
            target, [Refusal(c.anchor, f"target {target}", "weights and scales must be constants")]
        )
    a, outer = ctx.view(c.operands[0]), range(len(c.write.lens) - 1)
    rows = loops([a], None, outer)
    if rows.rank > 1 or a.strides[-1] != 1:
        a = ctx.standard(a, c.origin)
        rows = loops([a], None, outer)
    return replace(a, lens=(rows.lens[0], a.lens[-1]), strides=(rows.strides[0][0], a.strides[-1])), constants


@NEUTRAL.of("unpack_int4")
def unpack_int4(ctx: LoweringContext, ins: Instruction) -> None:
    """A 4-bit type's conversion drops the high bits, and extends the sign of what is left."""
    narrow = "int4" if ins.shape.type == "int8" else "uint4"
    packed = replace(ctx.view(ins.inputs[0]), type="uint8")
    low, high = halves(ctx.result(ins), ins.op.attributes()["axis"])

    def lower_code(b: Builder, parts: Sequence[Instruction]) -> Instruction:
        return b.cast(b.cast(parts[0], narrow), ins.shape.type)

    def upper_code(b: Builder, parts: Sequence[Instruction]) -> Instruction:
        return lower_code(b, [_upper(b, parts)])

    apply(ctx, lower_code, [packed], low, ins.origin)
    apply(ctx, upper_code, [packed], high, ins.origin)


def _lower(b: Builder, packed: Sequence[Instruction]) -> Instruction:
    return b.bitwise_and(packed[0], b.full(15, packed[0]))


def _upper(b: Builder, packed: Sequence[Instruction]) -> Instruction:
    return b.div(packed[0], b.full(16, packed[0]))


@NEUTRAL.of("pack_fp4")
def pack_fp4(ctx: LoweringContext, ins: Instruction) -> None:
    source = ctx.view(ins.inputs[0])
    narrow = ctx.temporary(Shape("fp4e2m1fn", source.lens))
    ctx.convert(source, narrow, ins.origin)
    codes = replace(narrow, type="uint8")
    packed = replace(ctx.result(ins), type="uint8")
    apply(ctx, joined, halves(codes, ins.op.attributes()["axis"]), packed, ins.origin)


@NEUTRAL.of("unpack_fp4")
def unpack_fp4(ctx: LoweringContext, ins: Instruction) -> None:
    packed, axis = replace(ctx.view(ins.inputs[0]), type="uint8"), ins.op.attributes()["axis"]
    codes = ctx.temporary(Shape("uint8", ins.shape.lens))
    low, high = halves(codes, axis)
    apply(ctx, _lower, [packed], low, ins.origin)
    apply(ctx, _upper, [packed], high, ins.origin)
    ctx.convert(replace(codes, type="fp4e2m1fn"), ctx.result(ins), ins.origin)
