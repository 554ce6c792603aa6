"""The operators; importing this package declares them all."""

from migraphx.ops import (
    control,
    convolution,
    fused,
    indexing,
    matmul,
    movement,
    pointwise,
    pooling,
    reduce,
    vision,
)

__all__ = [
    "control",
    "convolution",
    "fused",
    "indexing",
    "matmul",
    "movement",
    "pointwise",
    "pooling",
    "reduce",
    "vision",
]
