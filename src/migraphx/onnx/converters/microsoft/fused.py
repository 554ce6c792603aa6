"""ONNX Runtime's own operators (domain com.microsoft): activations, norms, convolutions and products.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder, axis_in, expect
from migraphx.onnx.converters.standard.convolution import conv, conv_transpose
from migraphx.onnx.converters.standard.matmul import gemm
from migraphx.onnx.converters.standard.normalization import inverse_deviation, statistics
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter, same
from migraphx.ops.composites.activation import scaled
from migraphx.ops.composites.products import split, swapped

Value = Instruction
MICROSOFT = "com.microsoft"
FLOATS16 = ("float", "half", "bf16")
FLOATS = (*FLOATS16, "double")
PRODUCTS = ("float", "half", "double", "uint32", "uint64", "int32", "int64")


def biased(b: OnnxBuilder, x: Value, *terms: Value | None) -> Value:
    """x plus what there is of the terms, which broadcast to it."""
    for term in terms:
        x = x if term is None else b.add(x, b.broadcast_to(term, x.shape.lens))
    return x


def row(b: OnnxBuilder, x: Value, bias: Value | None) -> Value | None:
    """The bias, which should have x's last dimension alone."""
    if bias is not None and bias.shape.ndim != 1:
        b.deviates(f"its bias has {bias.shape.ndim} dimensions, must have 1")
    elif x.shape.ndim:
        expect(bias, "bias", x.shape.lens[-1])
    return bias


# ---- activations ----


@converter("Gelu", domain=MICROSOFT, takes=[same(FLOATS, "x")])
def gelu(b: OnnxBuilder, x: Value) -> Value:
    return b.gelu(x)


@converter("BiasGelu", domain=MICROSOFT, takes=[same(FLOATS, "x", "bias")])
def bias_gelu(b: OnnxBuilder, x: Value, bias: Value) -> Value:
    return b.gelu(biased(b, x, row(b, x, bias)))


@converter("FastGelu", domain=MICROSOFT, takes=[same(FLOATS, "x", "bias")])
def fast_gelu(b: OnnxBuilder, x: Value, bias: Value | None = None) -> Value:
    return b.gelu(biased(b, x, row(b, x, bias)), approximate="tanh")


@converter("BiasSoftmax", domain=MICROSOFT, takes=[same(("float", "half", "double"), "x", "bias")])
def bias_softmax(b: OnnxBuilder, x: Value, bias: Value, *, is_inner_broadcast: int, axis: int = 1) -> Value:
    """softmax(x + bias) over all dimensions from `axis` on. The bias broadcasts as its lens say."""
    scores, axis = biased(b, x, bias), axis_in(axis, x.shape.ndim)
    if axis == x.shape.ndim - 1:
        return b.softmax(scores, axis=axis)
    return b.reshape(b.softmax(b.flatten(scores, axis=axis), axis=1), dims=x.shape.lens)


@converter("BiasAdd", domain=MICROSOFT, takes=[same(FLOATS16, "x", "bias", "skip")])
def bias_add(b: OnnxBuilder, x: Value, bias: Value, skip: Value) -> Value:
    """x {N, S, C} + bias {C} + skip, which has x's lens."""
    expect(x, "input", None, None, None)
    expect(bias, "bias", x.shape.lens[2])
    expect(skip, "skip", *x.shape.lens)
    return biased(b, x, bias, skip)


@converter("BiasSplitGelu", domain=MICROSOFT, takes=[same(FLOATS16, "x", "bias")])
def bias_split_gelu(b: OnnxBuilder, x: Value, bias: Value) -> Value:
    """left * gelu(right), the halves of x {N, S, 2 D} + bias {2 D}."""
    expect(x, "input", None, None, None)
    width = x.shape.lens[2]
    expect(bias, "bias", width)
    if width % 2:
        raise OnnxError(f"a width of {width} has no halves")
    left, right = split(b, biased(b, x, bias), sizes=(width // 2,) * 2, axis=2)
    return b.mul(left, b.gelu(right))


@converter("QuickGelu", domain=MICROSOFT, takes=[same(FLOATS, "x")])
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


def weights(x: Value, gamma: Value, beta: Value | None, bias: Value | None) -> None:
    """OnnxError unless gamma, beta and bias are as long as x's last dimension."""
    for what, value in (("gamma", gamma), ("beta", beta), ("bias", bias)):
        expect(value, what, x.shape.lens[-1])


def skipped(b: OnnxBuilder, x: Value, skip: Value, bias: Value | None) -> Value:
    """x + skip + bias; skip {B, S, H} may have no B, or one of 1."""
    if x.shape.ndim not in (2, 3) or skip.shape.ndim > x.shape.ndim:
        raise OnnxError(f"takes an input of 2 or 3 dimensions, got {x.shape.ndim}, and {skip.shape.ndim} of skip")
    return biased(b, x, skip, bias)


@converter("SkipLayerNormalization", domain=MICROSOFT, takes=[same(FLOATS16, "x", "skip", "gamma", "beta", "bias")])
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
    weights(x, gamma, beta, bias)
    total = skipped(b, x, skip, bias)
    y = b.layer_norm(total, gamma, beta, epsilon=epsilon)
    return y, *statistics(b, b.cast(total, "float"), (x.shape.ndim - 1,), epsilon), total


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT, takes=[same(FLOATS16, "x", "skip", "gamma", "bias")])
def skip_simplified_layer_normalization(
    b: OnnxBuilder, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value, ...]:
    """The RMS norm of the sum; a mean of 0 and 1 / rms {..., 1} in float; the sum."""
    weights(x, gamma, None, bias)
    total = skipped(b, x, skip, bias)
    inverse = inverse_deviation(b, b.cast(total, "float"), (x.shape.ndim - 1,), epsilon)
    return b.rms_norm(total, gamma, epsilon=epsilon), b.full(0.0, inverse), inverse, total


@converter(
    "EmbedLayerNormalization",
    domain=MICROSOFT,
    takes=[
        same(("float", "half"), "word_embedding", "position_embedding", "segment", "gamma", "beta"),
        same(("int32", "int64"), "ids", "segments", "mask", "position_ids"),
    ],
)
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
    for what, value in (("segment_ids", segments), ("mask", mask)):
        expect(value, what, *ids.shape.lens)
    for what, value in (("gamma", gamma), ("beta", beta)):
        expect(value, what, word_embedding.shape.lens[-1])
    if (segments is None) != (segment is None):
        raise OnnxError("segment_ids and their embedding are there both or none")
    total = b.embedding(word_embedding, ids)
    if position_ids is None:
        if ids.shape.lens[1] > position_embedding.shape.lens[0]:
            raise OnnxError(f"{ids.shape.lens[1]} positions, an embedding of {position_embedding.shape.lens[0]}")
        position_ids = b.literal(np.arange(ids.shape.lens[1], dtype=np.int32)[None])
    total = biased(b, total, b.embedding(position_embedding, position_ids))
    if segment is not None and segments is not None:
        total = b.add(total, b.embedding(segment, segments))
    batch = ids.shape.lens[0]
    counts = b.literal(np.zeros(batch, np.int32))
    if mask is not None:
        counts = b.squeeze(b.reduce_sum(b.cast(mask, "int32"), axes=(1,)), axes=(1,))
    return b.layer_norm(total, gamma, beta, epsilon=epsilon), counts, total


@converter("GroupNorm", domain=MICROSOFT, takes=[same(FLOATS16, "x"), same(FLOATS16, "gamma", "beta")])
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
    for what, value in (("gamma", gamma), ("beta", beta)):
        expect(value, what, y.shape.lens[1])
    y = b.cast(b.group_norm(b.cast(y, gamma.shape.type), gamma, beta, num_groups=groups, epsilon=epsilon), x.shape.type)
    y = b.silu(y) if activation else y
    return channels_behind(b, y) if channels_last else y


@converter(
    "SkipGroupNorm", domain=MICROSOFT, takes=[same(FLOATS16, "x", "skip", "bias"), same(FLOATS16, "gamma", "beta")]
)
def skip_group_norm(
    b: OnnxBuilder,
    x: Value,
    gamma: Value,
    beta: Value,
    skip: Value,
    bias: Value | None = None,
    *,
    channels_last: int = 1,
    **given: Any,
) -> tuple[Value, Value]:
    """The group norm of x + skip + bias {C}, and that sum; skip has x's lens, or is {N, 1, ..., C} or {N, C}."""
    first = x if channels_last else channels_behind(b, x)
    if skip.shape.ndim == 2:
        skip = b.unsqueeze(skip, axes=tuple(range(1, x.shape.ndim - 1)))
    elif not channels_last:
        skip = channels_behind(b, skip)
    total = biased(b, first, skip, row(b, first, bias))
    total = total if channels_last else channels_first(b, total)
    return group_norm(b, total, gamma, beta, channels_last=channels_last, **given), total


# ---- convolutions ----


def channels_first(b: OnnxBuilder, x: Value) -> Value:
    """{N, ..., C} as {N, C, ...}."""
    last = x.shape.ndim - 1
    return b.transpose(x, permutation=(0, last, *range(1, last)))


def channels_behind(b: OnnxBuilder, x: Value) -> Value:
    """{N, C, ...} as {N, ..., C}."""
    return b.transpose(x, permutation=(0, *range(2, x.shape.ndim), 1))


@converter("FusedConv", domain=MICROSOFT, takes=[same(FLOATS, "x", "w", "bias", "z")])
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
    y = conv(b, x, w, bias, **attributes)
    expect(z, "Z", *y.shape.lens)
    return activated(b, biased(b, y, z), activation, *activation_params)


@converter("NhwcConv", "NhwcFusedConv", domain=MICROSOFT, takes=[same(FLOATS, "x", "w", "bias", "z")])
def nhwc_conv(
    b: OnnxBuilder, x: Value, w: Value, bias: Value | None = None, z: Value | None = None, **attributes: Any
) -> Value:
    """A convolution of x {N, H, W, C} with w {M, kH, kW, C / group}: {N, H, W, M}."""
    z = None if z is None else channels_first(b, z)
    return channels_behind(b, fused_conv(b, channels_first(b, x), channels_first(b, w), bias, z, **attributes))


@converter(
    "ConvTransposeWithDynamicPads",
    domain=MICROSOFT,
    takes=[same(("float", "half", "double"), "x", "w", "bias"), same(("int64",), "pads")],
)
def conv_transpose_with_dynamic_pads(
    b: OnnxBuilder, x: Value, w: Value, pads: Value | None = None, bias: Value | None = None, **attributes: Any
) -> Value:
    """As the standard's; the pads are an input."""
    attributes = {"group": 1, "pads": b.ints(pads, "Pads")} | attributes
    return conv_transpose(b, x, w, bias, **attributes)


# ---- products ----


@converter("FusedGemm", domain=MICROSOFT, takes=[same(PRODUCTS, "x", "y", "c")])
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


@converter("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, takes=[same(FLOATS, "x", "y")])
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


@converter("FusedMatMulActivation", domain=MICROSOFT, takes=[same(FLOATS, "x", "y")])
def fused_matmul_activation(
    b: OnnxBuilder,
    x: Value,
    y: Value,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **given: Any,
) -> Value:
    """activation(alpha * x @ y)"""
    product = fused_matmul(b, x, y, **given)
    if activation == "Softmax":
        return b.softmax(product, axis=axis_in(-1 if activation_axis is None else activation_axis, product.shape.ndim))
    values = [v for v in (activation_alpha, activation_beta, activation_gamma) if v is not None]
    return activated(b, product, activation, *values)


@converter("GemmFastGelu", domain=MICROSOFT, takes=[same(FLOATS16, "x", "w", "bias")])
def gemm_fast_gelu(b: OnnxBuilder, x: Value, w: Value, bias: Value | None = None) -> Value:
    return fast_gelu(b, b.matmul(x, w), bias)


def oriented(b: OnnxBuilder, x: Value, turn: int, turn_batch: int) -> Value:
    n = x.shape.ndim
    if turn_batch and n < 3:
        raise OnnxError(f"an operand of lens {x.shape.lens} has no batch to move")
    if turn_batch:
        x = b.transpose(x, permutation=(*range(1, n - 1), 0, n - 1))
    return swapped(b, x) if turn and n > 1 else x
