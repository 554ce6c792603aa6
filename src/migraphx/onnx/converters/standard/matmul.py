"""Matrix products."""

from __future__ import annotations

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import converter
from migraphx.ops.composites.activation import scaled
from migraphx.passes.constants import is_constant, value_of
from migraphx.passes.integer_products import integer_product

Value = Instruction


@converter("MatMul")
def matmul(b: OnnxBuilder, x: Value, y: Value) -> Value:
    return b.matmul(x, y)


@converter("Gemm")
def gemm(
    b: OnnxBuilder,
    x: Value,
    y: Value,
    c: Value | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
    broadcast: int = 0,
) -> Value:
    """alpha * x @ y + beta * c, x and y transposed where asked for."""
    x = b.transpose(x, permutation=(1, 0)) if transA else x
    y = b.transpose(y, permutation=(1, 0)) if transB else y
    product = scaled(b, b.dot(x, y), alpha)
    if c is None or beta == 0:
        return product
    return b.add(product, b.broadcast_to(scaled(b, c, beta), product.shape.lens))


@converter("Einsum")
def einsum(b: OnnxBuilder, *operands: Value, equation: str) -> Value:
    """All ellipses stand for equally many dimensions, and the output keeps them."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if any("." in t.replace("...", "", 1) for t in (*terms, output)):
        raise OnnxError(f"equation {equation!r} has a dot that is no ellipsis, or two ellipses in one term")
    pairs = zip(terms, operands, strict=False)
    hidden = {x.shape.ndim - len(t.replace("...", "")) for t, x in pairs if "..." in t}
    if len(hidden) > 1:
        raise OnnxError(f"the ellipses of {equation!r} stand for {sorted(hidden)} dimensions")
    if hidden - {0} and arrow and "..." not in output:
        raise OnnxError(f"the output of {equation!r} has no ellipsis")
    return b.einsum(*operands, equation=equation)


@converter("MatMulInteger")
def matmul_integer(
    b: OnnxBuilder, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None
) -> Value:
    """(x - x_zero) @ (y - y_zero) in int32; zeros are one number, or one a row of x and a column of y."""
    one = x_zero is None or x_zero.shape.elements == 1
    if one and x.shape.ndim >= y.shape.ndim == 2 and is_constant(y) and (y_zero is None or is_constant(y_zero)):
        weights = value_of(y)
        zeros = np.zeros((1, 1), weights.dtype) if y_zero is None else value_of(y_zero).reshape(1, -1)
        lens = (*x.shape.lens[:-2], *weights.shape)
        return integer_product(b, "quant_dot", x, 0 if x_zero is None else x_zero, weights, zeros, lens)
    type = "float" if x.shape.lens[-1] * 255**2 < 2**24 else "int32"  # in which the sums are exact
    return b.cast(b.matmul(centred(b, x, x_zero, type, row=True), centred(b, y, y_zero, type, row=False)), "int32")


def centred(b: OnnxBuilder, x: Value, zero: Value | None, type: str, row: bool) -> Value:
    """x - zero as `type`."""
    wide = b.cast(x, type)
    if zero is None:
        return wide
    if zero.shape.lens == x.shape.lens and zero.shape.ndim > 1:
        b.deviates(f"its zero point of lens {zero.shape.lens} has one for each number")
    if row and zero.shape.ndim == 1 and zero.shape.elements > 1:
        zero = b.unsqueeze(zero, axes=(1,))
    return b.sub(wide, b.broadcast_to(b.cast(zero, type), x.shape.lens))
