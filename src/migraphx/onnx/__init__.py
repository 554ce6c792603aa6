"""Reading ONNX models; importing this package declares the converters of all operators."""

from migraphx.onnx import (
    constants,
    control,
    convolution,
    indexing,
    matmul,
    movement,
    normalization,
    pointwise,
    pooling,
    quantize,
    recurrent,
    reduce,
    sampling,
    sequences,
    unknown,
    vision,
)

__all__ = [
    "constants",
    "control",
    "convolution",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pointwise",
    "pooling",
    "quantize",
    "recurrent",
    "reduce",
    "sampling",
    "sequences",
    "unknown",
    "vision",
]
