"""Acc operators: matrix products, convolutions, normalization, attention, embedding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..acc_normalizer import NodeBuilder, Unmappable, acc_mapper, acc_op
from .math import add, mul

Ints = int | Sequence[int]

# ---- matrix products


@acc_op(F.linear)
def linear(*, input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias; weight is (out, in)."""
    return F.linear(input, weight, bias)


@acc_op(F.bilinear)
def bilinear(*, input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """sum over i, j of input1[i] * weight[out, i, j] * input2[j], plus bias."""
    return F.bilinear(input1, input2, weight, bias)


@acc_op(
    *(torch.matmul, operator.matmul, torch.bmm, torch.mm, torch.mv, torch.dot, torch.linalg.matmul),
    *("matmul", "__matmul__", "bmm", "mm", "mv", "dot"),
    tensor="other",
    mat2="other",
    vec="other",
)
def matmul(*, input: Any, other: Any) -> Any:
    """The matrix product, batched and broadcast as in torch.matmul; mm, bmm, mv and dot are cases of it."""
    return torch.matmul(input, other)


@acc_op(torch.addmm, "addmm", "addmm_")
def addmm(*, input: Any, mat1: Any, mat2: Any, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * mat1 @ mat2"""
    return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


@acc_op(torch.baddbmm, "baddbmm", "baddbmm_")
def baddbmm(*, input: Any, batch1: Any, batch2: Any, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * batch1 @ batch2; `input` is not read where beta is 0."""
    return torch.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)


@acc_op()
def einsum(*, equation: str, operands: Sequence[Any]) -> Any:
    """The sum of products that `equation` writes."""
    return torch.einsum(equation, *operands)


@acc_mapper(torch.einsum)
def einsum_mapper(b: NodeBuilder, equation: str, *operands: Any) -> Any:
    """torch.einsum, whose operands come one by one or as one list."""
    if not isinstance(equation, str):
        raise Unmappable("the sublist format has no equation")
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    return b(einsum, equation=equation, operands=operands)


@acc_mapper(torch.outer, torch.ger, "outer", "ger")
def outer_mapper(b: NodeBuilder, input: Any, vec2: Any) -> Any:
    """input[:, None] * vec2"""
    return b(einsum, equation="i,j->ij", operands=(input, vec2))


@acc_mapper(torch.addmv, "addmv")
def addmv_mapper(b: NodeBuilder, input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * mat @ vec, in integers by whole factors."""
    if not b.dtype(input).is_floating_point:
        beta, alpha = int(beta), int(alpha)
    product = b(matmul, input=mat, other=vec)
    scaled = product if alpha == 1 else b(mul, input=product, other=alpha)
    bias = input if beta == 1 else b(mul, input=input, other=beta)
    return b(add, input=bias, other=scaled)


# ---- convolutions: input (N, C, ...), weight (out, C / groups, ...)


@acc_op(F.conv1d)
def conv1d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over one axis; padding may be "same" or "valid"."""
    return F.conv1d(input, weight, bias, stride, padding, dilation, groups)


@acc_op(F.conv2d)
def conv2d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over two axes; padding may be "same" or "valid"."""
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups)


@acc_op(F.conv3d)
def conv3d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over three axes; padding may be "same" or "valid"."""
    return F.conv3d(input, weight, bias, stride, padding, dilation, groups)


@acc_op(F.conv_transpose1d)
def conv_transpose1d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Any:
    """The gradient of conv1d; weight is (C, out / groups, k)."""
    return F.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation)


@acc_op(F.conv_transpose2d)
def conv_transpose2d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Any:
    """The gradient of conv2d; weight is (C, out / groups, kh, kw)."""
    return F.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


@acc_op(F.conv_transpose3d)
def conv_transpose3d(
    *,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Any:
    """The gradient of conv3d; weight is (C, out / groups, kd, kh, kw)."""
    return F.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)


# ---- normalization


@acc_op(F.batch_norm)
def batch_norm(
    *,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias over axis 1.

    `training` is True only where there are no running statistics: the batch's own are used.
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@acc_op(F.layer_norm)
def layer_norm(
    *, input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


@acc_op(F.rms_norm, torch.rms_norm)
def rms_norm(*, input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """x / sqrt(mean(x * x) + eps) * weight over the last axes; eps None is the type's epsilon."""
    return F.rms_norm(input, normalized_shape, weight, eps)


@acc_op(F.group_norm, torch.group_norm)
def group_norm(*, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Normalization over groups of channels (axis 1) and all further axes."""
    return F.group_norm(input, num_groups, weight, bias, eps)


@acc_op(F.instance_norm)
def instance_norm(
    *,
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalization of each channel of each instance, or by the running statistics."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@acc_op(F.local_response_norm)
def local_response_norm(*, input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """x / (k + alpha * mean of squares over `size` channels) ** beta"""
    return F.local_response_norm(input, size, alpha, beta, k)


@acc_mapper(torch.layer_norm)
def native_layer_norm_mapper(
    b: NodeBuilder,
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """torch.layer_norm, which has one argument more."""
    return b(layer_norm, input=input, normalized_shape=normalized_shape, weight=weight, bias=bias, eps=eps)


@acc_mapper(torch.batch_norm)
def native_batch_norm_mapper(
    b: NodeBuilder,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """torch.batch_norm, whose arguments are in another order."""
    return b(
        batch_norm,
        input=input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
        training=training,
        momentum=momentum,
        eps=eps,
    )


# ---- attention and embedding


@acc_op(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    *,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + mask) @ value over (..., heads, length, size).

    A bool mask keeps where True, a float mask is added; `scale` None is 1 / sqrt(size).
    """
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@acc_op()
def embedding(*, input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """weight[input]; `padding_idx` matters to gradients only."""
    return F.embedding(input, weight, padding_idx)


@acc_mapper(F.embedding)
def embedding_mapper(
    b: NodeBuilder,
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """F.embedding without the arguments that only training reads."""
    if max_norm is not None:
        raise Unmappable("max_norm rewrites the weights at each call")
    return b(embedding, input=input, weight=weight)


@acc_op(F.one_hot)
def one_hot(*, input: Any, num_classes: int = -1) -> Any:
    """A last axis that is 1 at the input's index and 0 elsewhere; int64."""
    return F.one_hot(input, num_classes)
