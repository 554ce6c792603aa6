"""The operators; importing this package declares them all."""

from migraphx.ops import (
    composites_activation,
    composites_norm,
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
    "composites_activation",
    "composites_norm",
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
