"""ONNX Runtime's products with weights of a few bits (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.converters.microsoft.fused import FLOATS16, MICROSOFT, biased
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter, same

Value = Instruction
FP4 = (0.0, 5.208333e-03, 0.6666667, 1.0, 0.3333333, 0.5, 0.1666667, 0.25)
"""What bitsandbytes' 4-bit floats stand for; the highest bit is the sign."""
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""Quantiles of the normal distribution (2305.14314, appendix E)."""
FP = ("fp8e4m3fn", "fp8e4m3fnuz", "fp8e5m2", "fp8e5m2fnuz", "fp4e2m1fn")


@converter(
    "MatMulNBits",
    domain=MICROSOFT,
    takes=[
        same(FLOATS16, "x", "scales", "bias"),
        same(("uint8",), "packed"),
        same(("uint8", *FLOATS16), "zeros"),
        same(("int32",), "groups"),
    ],
)
def matmul_nbits(
    b: OnnxBuilder,
    x: Value,
    packed: Value,
    scales: Value,
    zeros: Value | None = None,
    groups: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Value:
    """x {..., K} times weights {N, K} of 2, 4 or 8 bits with a scale and zero point a block of `block_size` along K.

    packed {N, blocks, block_size * bits / 8}, the first number in the lowest bits of a byte; a zero point that is
    absent is 2 ** (bits - 1). g_idx {K} says which block's scale and zero point a column has, if not its own's
    (ONNX Runtime 1.31 reads other zero points there). `accuracy_level` allows less than is computed here.
    """
    if bits not in (2, 4, 8) or weight_prepacked:
        raise OnnxError("bits other than 2, 4 and 8 and packed weights are not supported")
    if block_size < 16 or block_size & (block_size - 1):
        raise OnnxError(f"block_size must be a power of two from 16 on, is {block_size}")
    blocks = -(-K // block_size)
    if x.shape.ndim < 1 or x.shape.lens[-1] != K:
        raise OnnxError(f"its input has lens {x.shape.lens}, must end in {K}")
    expect(packed, "B", N, blocks, block_size * bits // 8)
    held = -(-blocks * bits // 8) if zeros is not None and zeros.shape.type == "uint8" else blocks
    for what, value, count in (("scales", scales, N * blocks), ("zero_points", zeros, N * held)):
        if value is not None and value.shape.elements != count:
            raise OnnxError(f"its {what} has lens {value.shape.lens}, must have {count} elements")
    expect(bias, "bias", N)
    codes = numbers(b, packed, N, bits)
    if zeros is None:
        zero = b.literal(np.full((N, blocks), 1 << (bits - 1), np.uint8))
    elif zeros.shape.type == "uint8":
        zero = b.slice(numbers(b, zeros, N, bits), axes=(1,), starts=(0,), ends=(blocks,))
    else:
        zero = b.reshape(zeros, dims=(N, blocks))
    scale = b.reshape(scales, dims=(N, blocks))
    if groups is None:
        codes = b.reshape(codes, dims=(N, blocks, block_size))
        wide = [b.broadcast_to(b.unsqueeze(v, axes=(2,)), codes.shape.lens) for v in (scale, zero)]
    else:
        codes, groups = (b.slice(v, axes=(a,), starts=(0,), ends=(K,)) for v, a in ((codes, 1), (groups, 0)))
        wide = [b.gather(v, groups, axis=1) for v in (scale, zero)]
    if zero.shape.type == "uint8":
        weights = b.dequantizelinear(codes, *wide)
    else:
        weights = b.mul(b.sub(b.cast(codes, scale.shape.type), b.cast(wide[1], scale.shape.type)), wide[0])
    if groups is None:
        weights = b.reshape(weights, dims=(N, blocks * block_size))
        weights = b.slice(weights, axes=(1,), starts=(0,), ends=(K,)) if K % block_size else weights
    return biased(b, b.matmul(x, b.transpose(b.cast(weights, x.shape.type), permutation=(1, 0))), bias)


def numbers(b: OnnxBuilder, packed: Value, rows: int, bits: int) -> Value:
    """The unsigned numbers of 2, 4 or 8 bits that bytes hold: uint8 {rows, numbers}."""
    flat = b.reshape(packed, dims=(rows, -1))
    if bits == 8:
        return flat
    if bits == 4:
        return b.unpack_int4(flat, axis=1)
    shifts = b.literal(np.arange(0, 8, bits, dtype=np.uint8))
    each = b.shift_right(*b.common(b.unsqueeze(flat, axes=(2,)), shifts))
    return b.reshape(b.bitwise_and(each, b.full((1 << bits) - 1, each)), dims=(rows, -1))


@converter(
    "GatherBlockQuantized",
    domain=MICROSOFT,
    takes=[
        same(("int4", "uint4", "uint8", *FP), "data", "zeros"),
        same(("int32", "int64"), "indices"),
        same(FLOATS16, "scales"),
    ],
)
def gather_block_quantized(
    b: OnnxBuilder,
    data: Value,
    indices: Value,
    scales: Value,
    zeros: Value | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Value:
    """Slices of `data` along gather_axis, of which blocks along quantize_axis have a scale and a zero point.

    Bytes hold 8 / bits numbers along the last dimension, the first in the lowest bits; their zero point, where it is
    absent, is 2 ** (bits - 1), that of other types 0. An index out of range gives zeros.
    """
    ndim, real = data.shape.ndim, data.shape.type in FP
    at, along = axis_in(gather_axis, ndim), axis_in(quantize_axis, ndim)
    packed = 8 // bits if data.shape.type == "uint8" and bits in (2, 4, 8) else 1
    lens = (*data.shape.lens[:-1], data.shape.lens[-1] * packed)
    if data.shape.type == "uint8" and (bits not in (2, 4, 8) or at != 0 or (bits < 8 and at == along)):
        raise OnnxError(f"bytes of {bits} bits along axis {along} cannot be gathered along axis {at}")
    if real and zeros is not None:
        raise OnnxError(f"{data.shape.type} has no zero points")
    size = lens[along] if real and not block_size else block_size
    if block_size & (block_size - 1) or (block_size < 16 and not (real and not block_size)):
        raise OnnxError(f"block_size must be a power of two from 16 on, is {block_size}")
    blocks = tuple(-(-n // size) if d == along else n for d, n in enumerate(lens))
    if real:
        scales = b.broadcast_to(scales, blocks) if scales.shape.ndim == ndim else scales
    expect(scales, "scales", *blocks)
    count = data.shape.lens[at]
    index = b.cast(indices, "int64")
    inside = b.logical_and(b.greater_or_equal(index, b.full(-count, index)), b.less(index, b.full(count, index)))
    index = b.where(inside, index, b.full(0, index))
    parts = [data, scales] if zeros is None else [data, scales, zeros]
    if at != along:
        parts = [b.gather(v, index, axis=at) for v in parts]
        along += (indices.shape.ndim - 1) * (at < along)
    y = real_numbers(b, parts, along, size, packed, bits)
    y = b.gather(y, index, axis=at) if at == quantize_axis % ndim else y
    seen = b.unsqueeze(inside, axes=tuple(range(indices.shape.ndim, indices.shape.ndim + ndim - 1 - at)))
    return b.where(b.broadcast_to(seen, y.shape.lens), y, b.full(0.0, y))


def real_numbers(b: OnnxBuilder, parts: list[Value], axis: int, size: int, packed: int, bits: int) -> Value:
    """(codes - zeros) * scales; scales and zeros are one a block of `size` along `axis`. Bytes are unpacked."""
    codes, scales, *zeros = parts
    unpacked = [codes, *zeros]
    if packed > 1:
        for k, value in enumerate(unpacked):
            lens = (*value.shape.lens[:-1], value.shape.lens[-1] * packed)
            rows = value.shape.elements // value.shape.lens[-1]
            unpacked[k] = b.reshape(numbers(b, value, rows, bits), dims=lens)
    codes, *zeros = unpacked
    if zeros and packed > 1:
        zeros = [b.slice(z, axes=(z.shape.ndim - 1,), starts=(0,), ends=(scales.shape.lens[-1],)) for z in zeros]
    if codes.shape.type == "uint8" and not zeros:
        zeros = [b.full(1 << (bits - 1), b.cast(scales, "uint8"))]
    wide = []
    for value in (scales, *zeros):
        each = b.repeat_interleave(value, repeats=size, axis=axis)
        wide.append(b.slice(each, axes=(axis,), starts=(0,), ends=(codes.shape.lens[axis],)))
    if codes.shape.type in FP:
        return b.mul(b.cast(codes, scales.shape.type), wide[0])
    return b.dequantizelinear(codes, *wide)


@converter("MatMulBnb4", domain=MICROSOFT, takes=[same(FLOATS16, "x", "absmax"), same(("uint8",), "packed")])
def matmul_bnb4(
    b: OnnxBuilder,
    x: Value,
    packed: Value,
    absmax: Value,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Value:
    """x {..., K} times the transposed weights {N, K}, whose 4-bit codes, row-major, are times `absmax` of their block.

    packed {(N * K + 1) / 2}, the first code in a byte's upper half. Codes are floats (quant_type 0) or quantiles (1).
    With transB 0 the weights are {K, N}.
    """
    if quant_type not in (0, 1):
        raise OnnxError(f"quant_type must be 0 (FP4) or 1 (NF4), is {quant_type}")
    if block_size < 16 or block_size & (block_size - 1):
        raise OnnxError(f"block_size must be a power of two from 16 on, is {block_size}")
    if x.shape.ndim < 1 or x.shape.lens[-1] != K:
        raise OnnxError(f"its input has lens {x.shape.lens}, must end in {K}")
    count = N * K
    expect(packed, "B", -(-count // 2))
    expect(absmax, "absmax", -(-count // block_size))
    values = np.array([*FP4, *(-v for v in FP4)] if quant_type == 0 else NF4, np.float32)
    pairs = b.reshape(b.unpack_int4(b.reshape(packed, dims=(1, -1)), axis=1), dims=(-1, 2))
    codes = b.reshape(b.reverse(pairs, axes=(1,)), dims=(-1,))
    codes = b.slice(codes, axes=(0,), starts=(0,), ends=(count,))
    scales = b.repeat_interleave(absmax, repeats=block_size, axis=0)
    scales = b.slice(scales, axes=(0,), starts=(0,), ends=(count,))
    weights = b.gather(b.literal(values, absmax.shape.type), b.cast(codes, "int32"), axis=0)
    weights = b.reshape(b.mul(weights, scales), dims=(N, K) if transB else (K, N))
    return b.matmul(x, b.transpose(weights, permutation=(1, 0)) if transB else weights)
