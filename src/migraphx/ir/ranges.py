"""Shapes with ranges for lengths: their ends, and what holds two of them."""

from __future__ import annotations

from migraphx.ir.shape import UNBOUNDED, UNKNOWN, DynamicDimension, Shape


def ranges(shape: Shape) -> tuple[DynamicDimension, ...]:
    """A dynamic dimension for each dimension, fixed ones included."""
    return shape.dyn_dims or tuple(DynamicDimension(n, n) for n in shape.lens)


def unknown(shape: Shape) -> bool:
    return shape == UNKNOWN or any(map(unknown, shape.sub_shapes))


def at_bound(shape: Shape, bound: str, unbounded: int) -> Shape:
    """The shape with every dynamic dimension at its `min` or its `max`, which is `unbounded` where there is none."""
    if shape.sub_shapes:
        return Shape.tuple_of(at_bound(s, bound, unbounded) for s in shape.sub_shapes)
    if not shape.dyn_dims:
        return shape
    bounds = (getattr(d, bound) for d in shape.dyn_dims)
    lens = zip(bounds, shape.dyn_dims, strict=True)
    return Shape(shape.type, tuple(max(unbounded, d.min) if n == UNBOUNDED else n for n, d in lens))


def unbounded_where(shape: Shape, differs: Shape) -> Shape:
    """The shape without a bound in the dimensions that are not fixed in `differs`."""
    if shape.sub_shapes:
        pairs = zip(shape.sub_shapes, differs.sub_shapes, strict=True)
        return Shape.tuple_of(unbounded_where(s, d) for s, d in pairs)
    dims = zip(ranges(shape), ranges(differs), strict=True)
    return Shape.of_dims(shape.type, [a if b.is_fixed else DynamicDimension(a.min, UNBOUNDED) for a, b in dims])


def hull(least: Shape, most: Shape) -> Shape:
    """The shape of everything from `least` to `most`; ValueError where their ranks or types differ."""
    if least == most:
        return least
    if least.type != most.type or least.ndim != most.ndim or len(least.sub_shapes) != len(most.sub_shapes):
        raise ValueError(f"its output would have another rank or type for other sizes: {least}, {most}")
    if least.sub_shapes:
        return Shape.tuple_of(hull(a, b) for a, b in zip(least.sub_shapes, most.sub_shapes, strict=True))
    dims = zip(ranges(least), ranges(most), strict=True)
    return Shape.of_dims(least.type, [DynamicDimension(min(a.min, b.min), max(a.max, b.max)) for a, b in dims])
