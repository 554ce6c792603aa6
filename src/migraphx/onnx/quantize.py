"""Quantized numbers."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter

Value = Instruction


def spread(b: OnnxBuilder, x: Value, parameter: Value | None, axis: int, block_size: int) -> Value | None:
    """A scale or zero point with x's lens: of one number, of one a slice along `axis`, or of one a block."""
    if parameter is None:
        return None
    if block_size:
        axis %= x.shape.ndim
        wide = b.repeat_interleave(parameter, repeats=block_size, axis=axis)
        return b.slice(wide, axes=(axis,), starts=(0,), ends=(x.shape.lens[axis],))
    if parameter.shape.elements == 1:
        return b.multibroadcast(b.reshape(parameter, dims=(1,)), out_lens=x.shape.lens) if x.shape.ndim else (
            b.reshape(parameter, dims=())
        )  # fmt: skip
    axis %= x.shape.ndim
    return b.broadcast(parameter, axis=axis, out_lens=x.shape.lens)


@converter("QuantizeLinear")
def quantize_linear(
    b: OnnxBuilder, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    if not saturate:
        raise OnnxError("saturate=0 is not supported")
    type = element_type(output_dtype) if output_dtype else zero.shape.type if zero is not None else "uint8"
    wide = x if x.shape.type == scale.shape.type or x.shape.type == "double" else b.cast(x, "float")
    inputs = [wide, spread(b, x, scale, axis, block_size), spread(b, x, zero, axis, block_size)]
    inputs[1] = b.cast(inputs[1], wide.shape.type)
    return b.instruction("quantizelinear", [i for i in inputs if i is not None], out_type=type)


@converter("DequantizeLinear")
def dequantize_linear(
    b: OnnxBuilder, x: Value, scale: Value, zero: Value | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Value:  # fmt: skip
    inputs = [x, spread(b, x, scale, axis, block_size), spread(b, x, zero, axis, block_size)]
    y = b.instruction("dequantizelinear", [i for i in inputs if i is not None])
    return b.cast(y, element_type(output_dtype)) if output_dtype else y
