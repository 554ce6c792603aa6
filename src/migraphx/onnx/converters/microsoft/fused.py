"""ONNX Runtime's own operators (domain com.microsoft): activations, norms, convolutions and products.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in
from migraphx.onnx.converters.standard.convolution import conv
from migraphx.onnx.converters.standard.matmul import gemm
from migraphx.onnx.converters.standard.normalization import inverse_deviation, statistics
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter
from migraphx.ops.composites.activation import scaled
from migraphx.ops.composites.products import swapped

Value = Instruction
MICROSOFT = "com.microsoft"


def biased(b: OnnxBuilder, x: Value, *terms: Value | None) -> Value:
    """x plus what there is of the terms, which broadcast to it."""
    for term in terms:
        x = x if term is None else b.add(x, b.broadcast_to(term, x.shape.lens))
    return x


# ---- activations ----


@converter("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(b: OnnxBuilder, x: Value, bias: Value | None = None) -> Value:
    return b.gelu(biased(b, x, bias))


@converter("FastGelu", domain=MICROSOFT)
def fast_gelu(b: OnnxBuilder, x: Value, bias: Value | None = None) -> Value:
    return b.gelu(biased(b, x, bias), approximate="tanh")


@converter("QuickGelu", domain=MICROSOFT)
def quick_gelu(b: OnnxBuilder, x: Value, *, alpha: float = 1.702) -> Value:
    return b.quick_gelu(x, alpha=alpha)


ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "Clip": ("clamp", {"low": -math.inf, "high": math.inf}),
    "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("hardsigmoid", {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": ("hardswish", {}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Relu": ("relu", {}),
    "Sigmoid": ("sigmoid", {}),
    "Softplus": ("softplus", {"beta": 1.0, "threshold": math.inf}),
    "Softsign": ("softsign", {}),
    "Tanh": ("tanh", {}),
    "ThresholdedRelu": ("threshold", {"threshold": 1.0, "value": 0.0}),
}
"""An activation of a fused operator -> the composite, and its parameters in their order, with defaults."""


def activated(b: OnnxBuilder, x: Value, name: str, *values: float) -> Value:
    """x through the activation of a fused operator; OnnxError for one that is not known."""
    if not name:
        return x
    if name not in ACTIVATIONS:
        raise OnnxError(f"activation {name!r} is not supported; there are {', '.join(ACTIVATIONS)}")
    composite, defaults = ACTIVATIONS[name]
    return getattr(b, composite)(x, **defaults | dict(zip(defaults, values, strict=False)))


# ---- norms ----


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(
    b: OnnxBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value | tuple[Value, Value]:
    """RMS norm from `axis` on, in the scale's type. 1 / rms is an output, in the type `stash_type`."""
    axes = tuple(range(axis_in(axis, x.shape.ndim), x.shape.ndim))
    y = b.rms_norm(b.cast(x, scale.shape.type), scale, axes=axes, epsilon=epsilon)
    if not b.wants(1):
        return y
    return y, inverse_deviation(b, b.cast(x, element_type(stash_type)), axes, epsilon)


def skipped(b: OnnxBuilder, x: Value, skip: Value, bias: Value | None) -> Value:
    """x + skip + bias; skip {B, S, H} may have no B, or one of 1."""
    if skip.shape.ndim > x.shape.ndim:
        raise OnnxError(f"skip has {skip.shape.ndim} dimensions, the input {x.shape.ndim}")
    return biased(b, x, skip, bias)


@converter("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    b: OnnxBuilder,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Value, ...]:
    """The norm of the sum; mean and 1 / deviation {..., 1} in float; the sum."""
    total = skipped(b, x, skip, bias)
    y = b.layer_norm(total, gamma, beta, epsilon=epsilon)
    return y, *statistics(b, b.cast(total, "float"), (x.shape.ndim - 1,), epsilon), total


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    b: OnnxBuilder, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value, ...]:
    """The RMS norm of the sum; a mean of 0 and 1 / rms {..., 1} in float; the sum."""
    total = skipped(b, x, skip, bias)
    inverse = inverse_deviation(b, b.cast(total, "float"), (x.shape.ndim - 1,), epsilon)
    return b.rms_norm(total, gamma, epsilon=epsilon), b.full(0.0, inverse), inverse, total


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    b: OnnxBuilder,
    ids: Value,
    segments: Value | None,
    word_embedding: Value,
    position_embedding: Value,
    segment: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> tuple[Value, ...]:
    """The norm of the sum of three embeddings; the mask's sums; the sum."""
    total = b.embedding(word_embedding, ids)
    if position_ids is None:
        position_ids = b.literal(np.arange(ids.shape.lens[1], dtype=np.int32)[None])
    total = biased(b, total, b.embedding(position_embedding, position_ids))
    if segment is not None and segments is not None:
        total = b.add(total, b.embedding(segment, segments))
    batch = ids.shape.lens[0]
    counts = b.literal(np.zeros(batch, np.int32))
    if mask is not None:
        counts = b.squeeze(b.reduce_sum(b.cast(mask, "int32"), axes=(1,)), axes=(1,))
    return b.layer_norm(total, gamma, beta, epsilon=epsilon), counts, total


@converter("GroupNorm", domain=MICROSOFT)
def group_norm(
    b: OnnxBuilder,
    x: Value,
    gamma: Value,
    beta: Value,
    *,
    groups: int,
    activation: int,
    epsilon: float = 1e-5,
    channels_last: int = 1,
) -> Value:
    """Group norm of x {N, ..., C}, or {N, C, ...} where `channels_last` is 0; 1 in `activation` is SiLU."""
    if activation not in (0, 1):
        raise OnnxError(f"activation must be 0 or 1, is {activation}")
    y = channels_first(b, x) if channels_last else x
    y = b.cast(b.group_norm(b.cast(y, gamma.shape.type), gamma, beta, num_groups=groups, epsilon=epsilon), x.shape.type)
    y = b.silu(y) if activation else y
    return channels_behind(b, y) if channels_last else y


# ---- convolutions ----


def channels_first(b: OnnxBuilder, x: Value) -> Value:
    """{N, ..., C} as {N, C, ...}."""
    last = x.shape.ndim - 1
    return b.transpose(x, permutation=(0, last, *range(1, last)))


def channels_behind(b: OnnxBuilder, x: Value) -> Value:
    """{N, C, ...} as {N, ..., C}."""
    return b.transpose(x, permutation=(0, *range(2, x.shape.ndim), 1))


@converter("FusedConv", domain=MICROSOFT)
def fused_conv(
    b: OnnxBuilder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    z: Value | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> Value:
    """activation(conv(x, w) + bias + z)"""
    attributes = {"group": 1} | attributes
    return activated(b, biased(b, conv(b, x, w, bias, **attributes), z), activation, *activation_params)


@converter("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def nhwc_conv(
    b: OnnxBuilder, x: Value, w: Value, bias: Value | None = None, z: Value | None = None, **attributes: Any
) -> Value:
    """A convolution of x {N, H, W, C} with w {M, kH, kW, C / group}: {N, H, W, M}."""
    z = None if z is None else channels_first(b, z)
    return channels_behind(b, fused_conv(b, channels_first(b, x), channels_first(b, w), bias, z, **attributes))


# ---- products ----


@converter("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    b: OnnxBuilder,
    x: Value,
    y: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Value:
    """activation(alpha * x @ y + beta * c)"""
    values = [v for v in (activation_alpha, activation_beta, activation_gamma) if v is not None]
    product = gemm(b, x, y, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(b, product, activation, *values)


@converter("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    b: OnnxBuilder,
    x: Value,
    y: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """alpha * x @ y. `transBatch` moves an operand's first dimension to just before its last, before `trans`."""
    x = oriented(b, x, transA, transBatchA)
    y = oriented(b, y, transB, transBatchB)
    return scaled(b, b.matmul(x, y), alpha)


def oriented(b: OnnxBuilder, x: Value, turn: int, turn_batch: int) -> Value:
    n = x.shape.ndim
    if turn_batch and n > 2:
        x = b.transpose(x, permutation=(*range(1, n - 1), 0, n - 1))
    return swapped(b, x) if turn and n > 1 else x


@converter("MatMulNBits", domain=MICROSOFT)
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
    blocks = -(-K // block_size)
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
