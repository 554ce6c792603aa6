"""The converters, one file a family; importing this package registers them all."""

from torch_migraphx.fx.converters import (
    activation,
    attention,
    convolution,
    creation,
    image,
    indexing,
    matmul,
    normalization,
    order,
    pointwise,
    recurrent,
    reduction,
    resize,
    shape,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "creation",
    "image",
    "indexing",
    "matmul",
    "normalization",
    "order",
    "pointwise",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
