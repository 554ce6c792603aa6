"""Between numbers and the narrow types that stand for them, as pointwise kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
from migraphx.targets.common.views import View
from migraphx.targets.cpu.gen_pointwise import pointwise_call
from migraphx.targets.cpu.lower import Lowered, lowers


def compute_type(types: set[str]) -> str:
    """float, which is exact for integers of up to 16 bits; double beside int32 or double."""
    return "double" if types & {"int32", "double"} else "float"


@lowers("quantizelinear", "dequantizelinear")
def quantize(x: Lowered, ins: Instruction) -> None:
    module = Module(ins.name)
    b = Builder(module)
    inputs = [module.add_parameter(f"x{n}", Shape(i.shape.type, (1,))) for n, i in enumerate(ins.inputs)]
    body = quantized if ins.name == "quantizelinear" else dequantized
    module.add_return([body(b, inputs, ins.shape)])
    x.call(pointwise_call(module, x.reads(ins), x.result(ins), ins.origin))


def quantized(b: Builder, inputs: list[Instruction], out: Shape) -> Instruction:
    """saturate(nearbyint(x / scale) + zero_point); NaN gives 0 before the zero point is added."""
    wide = "double" if inputs[0].shape.type == "double" else "float"
    x, scale = (b.cast(i, wide) for i in inputs[:2])
    y = b.nearbyint(b.div(x, scale))
    y = b.where(b.isnan(y), b.full(0.0, y), y)
    wide = compute_type({out.type, wide})
    y = b.cast(y, wide)
    if len(inputs) == 3:
        y = b.add(y, b.cast(inputs[2], wide))
    low, high = (b.full(v, y) for v in dtypes.limits(out.type))
    return b.cast(b.min(b.max(y, low), high), out.type)


def dequantized(b: Builder, inputs: list[Instruction], out: Shape) -> Instruction:
    """(y - zero_point) * scale"""
    wide = compute_type({i.shape.type for i in inputs})
    y, scale, *zero = (b.cast(i, wide) for i in inputs)
    return b.cast(b.mul(b.sub(y, zero[0]) if zero else y, scale), out.type)


# ---- the same bits as another type, two numbers a byte --------------------------------------------------------------

Body = Callable[..., Instruction]


@lowers("bit_cast")
def bit_cast(x: Lowered, ins: Instruction) -> None:
    x.views[ins] = replace(x.view(ins.inputs[0]), type=ins.shape.type)


def apply(x: Lowered, body: Body, reads: Sequence[View], write: View, origin: str) -> None:
    """One pointwise kernel whose body is written on a builder."""
    module = Module("packing")
    b = Builder(module)
    inputs = [module.add_parameter(f"x{n}", Shape(v.type, (1,))) for n, v in enumerate(reads)]
    module.add_return([body(b, *inputs)])
    x.call(pointwise_call(module, reads, write, origin))


def halves(view: View, axis: int) -> tuple[View, View]:
    """Its even and its odd elements along an axis."""
    axis %= len(view.lens)
    return view.sliced(axis, 0, view.lens[axis], 2), view.sliced(axis, 1, view.lens[axis], 2)


def joined(b: Builder, low: Instruction, high: Instruction) -> Instruction:
    """A byte of two 4-bit codes."""
    low, high = (b.bitwise_and(v, b.full(15, v)) for v in (low, high))
    return b.bitwise_or(low, b.mul(high, b.full(16, high)))


@lowers("pack_int4")
def pack_int4(x: Lowered, ins: Instruction) -> None:
    low, high = dtypes.limits("int4" if ins.shape.type == "int8" else "uint4")

    def body(b: Builder, *pair: Instruction) -> Instruction:
        codes = (b.cast(b.min(b.max(v, b.full(low, v)), b.full(high, v)), "uint8") for v in pair)
        return b.cast(joined(b, *codes), ins.shape.type)

    apply(x, body, halves(x.view(ins.inputs[0]), ins.op.attributes()["axis"]), x.result(ins), ins.origin)


@lowers("unpack_int4")
def unpack_int4(x: Lowered, ins: Instruction) -> None:
    """A 4-bit type's conversion drops the high bits, and extends the sign of what is left."""
    narrow = "int4" if ins.shape.type == "int8" else "uint4"
    packed = replace(x.view(ins.inputs[0]), type="uint8")
    low, high = halves(x.result(ins), ins.op.attributes()["axis"])
    apply(x, lambda b, v: b.cast(b.cast(v, narrow), ins.shape.type), [packed], low, ins.origin)
    apply(x, lambda b, v: b.cast(b.cast(_upper(b, v), narrow), ins.shape.type), [packed], high, ins.origin)


def _upper(b: Builder, byte: Instruction) -> Instruction:
    return b.div(byte, b.full(16, byte))


@lowers("pack_fp4")
def pack_fp4(x: Lowered, ins: Instruction) -> None:
    source = x.view(ins.inputs[0])
    narrow = x.temporary(Shape("fp4e2m1fn", source.lens))
    x.convert(source, narrow, ins.origin)
    codes = replace(narrow, type="uint8")
    apply(x, joined, halves(codes, ins.op.attributes()["axis"]), x.result(ins), ins.origin)


@lowers("unpack_fp4")
def unpack_fp4(x: Lowered, ins: Instruction) -> None:
    packed, axis = x.view(ins.inputs[0]), ins.op.attributes()["axis"]
    codes = x.temporary(Shape("uint8", ins.shape.lens))
    low, high = halves(codes, axis)
    apply(x, lambda b, v: b.bitwise_and(v, b.full(15, v)), [packed], low, ins.origin)
    apply(x, _upper, [packed], high, ins.origin)
    x.convert(replace(codes, type="fp4e2m1fn"), x.result(ins), ins.origin)
