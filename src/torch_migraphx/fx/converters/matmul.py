"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten


@converter(acc_ops.linear, aten.linear.default)
def linear(b: Builder, input: Value, weight: Value, bias: Value | None = None) -> Value:
    return b.linear(input, weight, bias)


@converter(acc_ops.matmul, aten.matmul.default)
def matmul(b: Builder, input: Value, other: Value) -> Value:
    if not rank(input) or not rank(other):
        raise UnsupportedError("a matrix product of a 0-d tensor is an error in torch")
    return b.matmul(input, other)


@converter(
    *(aten.mm.default, aten.bmm.default, named(aten.mv.default, vec="mat2")),
    named(aten.dot.default, tensor="mat2"),
)
def mm(b: Builder, input: Value, mat2: Value) -> Value:
    return b.matmul(input, mat2)


@converter(acc_ops.addmm, aten.addmm.default)
def addmm(b: Builder, input: Value, mat1: Value, mat2: Value, beta: float = 1, alpha: float = 1) -> Value:
    return b.addmm(input, mat1, mat2, beta=float(beta), alpha=float(alpha))


@converter(acc_ops.baddbmm, aten.baddbmm.default)
def baddbmm(b: Builder, input: Value, batch1: Value, batch2: Value, beta: float = 1, alpha: float = 1) -> Value:
    return b.addmm(input, batch1, batch2, beta=float(beta), alpha=float(alpha))


@converter(aten.addmv.default)
def addmv(b: Builder, input: Value, mat: Value, vec: Value, beta: float = 1, alpha: float = 1) -> Value:
    column, term = (b.view(x, [*lens(x), 1]) for x in (vec, input))
    return b.view(addmm(b, term, mat, column, beta, alpha), [lens(mat)[0]])


@converter(aten.addbmm.default)
def addbmm(b: Builder, input: Value, batch1: Value, batch2: Value, beta: float = 1, alpha: float = 1) -> Value:
    """The sum over the batch is one product of matrices laid side by side."""
    batch, rows, depth = lens(batch1)
    beside = b.view(b.permute(batch1, [1, 0, 2]), [rows, batch * depth])
    below = b.view(batch2, [batch * depth, lens(batch2)[2]])
    return addmm(b, input, beside, below, beta, alpha)


@converter(acc_ops.bilinear, aten.bilinear.default)
def bilinear(b: Builder, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    """x1 @ weight[o] for every o, then the products with x2 summed."""
    *outer, first = lens(input1)
    out, _, second = lens(weight)
    rows = math.prod(outer)
    x1, x2 = b.view(input1, [rows, first]), b.view(input2, [rows, second, 1])
    flat = b.view(b.permute(weight, [1, 0, 2]), [first, out * second])
    product = b.view(b.dot(x1, flat), [rows, out, second])
    y = b.view(b.dot(product, x2), [*outer, out])
    return y if bias is None else b.pointwise("add", y, bias)


def _einsum(b: Builder, equation: str, operands: Sequence[Value]) -> Value:
    if len({dtype_of(v) for v in operands}) > 1:
        raise UnsupportedError("einsum of several types is an error in torch")
    return b.einsum(*operands, equation=equation.replace(" ", ""))


@converter(acc_ops.einsum)
def einsum(b: Builder, equation: str, operands: Sequence[Value]) -> Value:
    return _einsum(b, equation, operands)


@converter(named(aten.einsum.default, tensors="operands"))
def aten_einsum(b: Builder, equation: str, operands: Sequence[Value], path: Sequence[int] | None = None) -> Value:
    if path is not None:
        raise UnsupportedError("einsum with a path")
    return _einsum(b, equation, operands)
