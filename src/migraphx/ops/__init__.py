"""The operators; importing this package declares them all."""

from migraphx.ops import (
    composites,
    composites_activation,
    composites_einsum,
    composites_norm,
    control,
    convolution,
    fused,
    group,
    indexing,
    matmul,
    movement,
    pointwise,
    pooling,
    quantize,
    reduce,
    vision,
)

__all__ = [
    "composites",
    "composites_activation",
    "composites_einsum",
    "composites_norm",
    "control",
    "convolution",
    "fused",
    "group",
    "indexing",
    "matmul",
    "movement",
    "pointwise",
    "pooling",
    "quantize",
    "reduce",
    "vision",
]
