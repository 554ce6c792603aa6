"""The operators; importing this package declares them all."""

from migraphx.ops import control, convolution, fused, matmul, movement, pointwise, reduce

__all__ = ["control", "convolution", "fused", "matmul", "movement", "pointwise", "reduce"]
