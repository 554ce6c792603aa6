"""Matrix products."""

from __future__ import annotations

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.registry import converter
from migraphx.ops.composites_activation import scaled

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
    return b.einsum(*operands, equation=equation)


@converter("MatMulInteger")
def matmul_integer(
    b: OnnxBuilder, x: Value, y: Value, x_zero: Value | None = None, y_zero: Value | None = None
) -> Value:
    """(x - x_zero) @ (y - y_zero) in int32; zeros are one number, or one a row of x and a column of y."""
    return b.matmul(centred(b, x, x_zero, row=True), centred(b, y, y_zero, row=False))


def centred(b: OnnxBuilder, x: Value, zero: Value | None, row: bool) -> Value:
    """x - zero as int32."""
    wide = b.cast(x, "int32")
    if zero is None:
        return wide
    if row and zero.shape.ndim == 1 and zero.shape.elements > 1:
        zero = b.unsqueeze(zero, axes=(1,))
    return b.sub(wide, b.broadcast_to(b.cast(zero, "int32"), x.shape.lens))
