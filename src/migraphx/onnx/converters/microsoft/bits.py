"""ONNX Runtime's products with weights of a few bits (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, expect
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
