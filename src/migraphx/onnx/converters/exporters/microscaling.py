"""Microscaling (OCP Microscaling Formats 1.0) as Brevitas and Quark write it: blocks share a power of two."""

from __future__ import annotations

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in
from migraphx.onnx.converters.standard.cast import power_of_two
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter, same

Value = Instruction
ELEMENTS = {"fp4_e2m1": "fp4e2m1fn", "fp8_e4m3": "fp8e4m3fn", "fp8_e5m2": "fp8e5m2"}
LARGEST_POWER = {"fp4e2m1fn": 2, "fp8e4m3fn": 8, "fp8e5m2": 15}
"""The exponent of the largest power of two that a type holds."""
FLOATS = [same(("float", "half", "bf16", "double"), "x")]
LEAST = 2.0**-126  # the least normal float, in place of a block's zero


def block_scales(b: OnnxBuilder, x: Value, axis: int, size: int, type: str) -> Value:
    """The scale of each block of `size` along `axis`: {..., blocks, ...}, in float.

    It is the largest power of two not above the block's largest magnitude, over the largest one of the type.
    """
    if size < 1:
        raise OnnxError(f"a block of {size}")
    if type not in LARGEST_POWER:
        raise OnnxError(f"elements of type {type} are not supported; there are {', '.join(LARGEST_POWER)}")
    length = x.shape.lens[axis]
    blocks = -(-length // size)
    wide = b.cast(x, "float")
    if length % size:
        pads = [0] * (2 * x.shape.ndim)
        pads[x.shape.ndim + axis] = blocks * size - length
        wide = b.pad(wide, pads=tuple(pads))
    lens = (*x.shape.lens[:axis], blocks, size, *x.shape.lens[axis + 1 :])
    largest = b.reduce_max(b.abs(b.reshape(wide, dims=lens)), axes=(axis + 1,))
    largest = b.max(b.squeeze(largest, axes=(axis + 1,)), b.full(LEAST, b.squeeze(largest, axes=(axis + 1,))))
    power = power_of_two(b, largest, "down")
    return b.mul(power, b.full(2.0 ** -LARGEST_POWER[type], power))


@converter("DynamicScale", takes=FLOATS)
def dynamic_scale(
    b: OnnxBuilder,
    x: Value,
    *,
    group_dim: int,
    group_size: int,
    output_dtype: int,
    scale_selection_method: str = "floor",
    zero_point_selection_method: str = "None",
) -> Value:
    """The scales of blocks of `group_size` along `group_dim` for elements of type `output_dtype` (Brevitas)."""
    if scale_selection_method != "floor" or zero_point_selection_method != "None":
        raise OnnxError(f"scales {scale_selection_method!r} with zero points {zero_point_selection_method!r}")
    return block_scales(b, x, axis_in(group_dim, x.shape.ndim), group_size, element_type(output_dtype))


@converter("MXQuantizeDequantize", "MXFixNeuron", takes=FLOATS)
def quantize_dequantize(
    b: OnnxBuilder, x: Value, *, axis: int, block_size: int, element_dtype: str, rounding_mode: int = 2
) -> Value:
    """x as a narrow type holds it: each block over its scale, rounded to even, saturated, times the scale (Quark)."""
    if element_dtype not in ELEMENTS:
        raise OnnxError(f"element_dtype must be one of {', '.join(ELEMENTS)}, is {element_dtype!r}")
    if rounding_mode != 2:
        raise OnnxError(f"rounding_mode must be 2 (to even), is {rounding_mode}")
    type, place = ELEMENTS[element_dtype], axis_in(axis, x.shape.ndim)
    scales = b.repeat_interleave(block_scales(b, x, place, block_size, type), repeats=block_size, axis=place)
    scales = b.slice(scales, axes=(place,), starts=(0,), ends=(x.shape.lens[place],))
    low, high = dtypes.limits(type)
    narrow = b.convert(b.clamp(b.div(b.cast(x, "float"), scales), low, high), target_type=type)
    return b.cast(b.mul(b.cast(narrow, "float"), scales), x.shape.type)
