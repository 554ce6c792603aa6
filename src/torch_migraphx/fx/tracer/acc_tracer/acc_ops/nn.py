"""Acc operators: matrix products, convolutions, normalization, attention, embedding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_migraphx.fx.tracer.acc_tracer.acc_normalizer import (
    NodeBuilder,
    Unmappable,
    acc_mapper,
    acc_op,
    declare,
    narrower,
)

from .math import add, mul

# ---- matrix products

declare("linear(input, weight, bias=None)", F.linear)
declare("bilinear(input1, input2, weight, bias=None)", F.bilinear)
matmul = declare(
    "matmul(input, other)",  # batched and broadcast; mm, bmm, mv and dot are cases of it
    *(torch.matmul, operator.matmul, torch.bmm, torch.mm, torch.mv, torch.dot, torch.linalg.matmul),
    *("matmul", "__matmul__", "bmm", "mm", "mv", "dot"),
    tensor="other",
    mat2="other",
    vec="other",
)
declare("addmm(input, mat1, mat2, beta=1, alpha=1)", torch.addmm, "addmm", "addmm_")
declare("baddbmm(input, batch1, batch2, beta=1, alpha=1)", torch.baddbmm, "baddbmm", "baddbmm_")


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


# ---- convolutions: input (N, C, ...), weight (out, C / groups, ...), of a transposed one (C, out / groups, ...)

for _function in (F.conv1d, F.conv2d, F.conv3d):
    _arguments = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1"
    declare(f"{_function.__name__}({_arguments})", _function)
for _function in (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d):
    _arguments = "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1"
    declare(f"{_function.__name__}({_arguments})", _function)


# ---- normalization

_STATISTICS = "training=False, momentum=0.1, eps=1e-5"  # of the batch itself where there are no running ones
batch_norm = declare(
    f"batch_norm(input, running_mean, running_var, weight=None, bias=None, {_STATISTICS})", F.batch_norm
)
layer_norm = declare("layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5)", F.layer_norm)
declare("rms_norm(input, normalized_shape, weight=None, eps=None)", F.rms_norm, torch.rms_norm)
declare("group_norm(input, num_groups, weight=None, bias=None, eps=1e-5)", F.group_norm, torch.group_norm)
declare(
    "instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
    "momentum=0.1, eps=1e-5)",
    F.instance_norm,
)
declare("local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0)", F.local_response_norm)
narrower(
    layer_norm,
    "layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True)",
    torch.layer_norm,
)
narrower(
    batch_norm,
    "batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)",
    torch.batch_norm,
)


# ---- attention and embedding

declare(
    "scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, "
    "enable_gqa=False)",
    F.scaled_dot_product_attention,
)
embedding = declare("embedding(input, weight, padding_idx=None)", F.embedding, mapped=False)


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


declare(
    "embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode='mean', "
    "sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None)",
    F.embedding_bag,
)
declare("one_hot(input, num_classes=-1)", F.one_hot)
