"""Between numbers and the narrow integers that stand for them, as pointwise kernels."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.shape import Shape
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
