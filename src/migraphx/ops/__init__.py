"""The operators; importing this package declares them all."""

from migraphx.ops import pointwise

__all__ = ["pointwise"]
