"""The operators; importing this package declares them all."""

from migraphx.ops import convolution, matmul, movement, pointwise

__all__ = ["convolution", "matmul", "movement", "pointwise"]
