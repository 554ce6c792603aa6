"""The operators; importing this package declares them all."""

from migraphx.ops import control, fused, pointwise, reduce

__all__ = ["control", "fused", "pointwise", "reduce"]
