"""What passes ask about the memory of a value."""

from __future__ import annotations

from migraphx.ir.shape import Shape


def same_memory(a: Shape, b: Shape) -> bool:
    """Whether two shapes of equal lens have equal strides wherever strides matter."""
    return all(s == t for n, s, t in zip(a.lens, a.strides, b.strides, strict=True) if n > 1)
