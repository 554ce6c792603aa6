"""Dimensions that are expressions of named ones, such as "n * 3 + 1"."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from itertools import product
from operator import add, floordiv, mul, sub

from migraphx.ir.shape import DynamicDimension

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Div: floordiv,
}


def expression(text: str, named: Mapping[str, DynamicDimension]) -> DynamicDimension:
    """The range of an expression of sums, differences, products and whole quotients; its symbol is the expression.

    ValueError where it is none, has a name that is not given, or may be negative.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"dynamic_dimension: {text!r} is no expression") from None
    low, high = _bounds(tree, named, text)
    if low < 0:
        raise ValueError(f"dynamic_dimension: {text!r} may be {low}")
    optimals: tuple[int, ...] = ()
    if names := {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}:
        name, *more = names
        if not more:
            chosen = (_bounds(tree, {name: DynamicDimension(n, n)}, text)[0] for n in named[name].optimals)
            optimals = tuple(sorted({n for n in chosen if low <= n <= high}))
    return DynamicDimension(low, high, optimals, ast.unparse(tree))


def _bounds(node: ast.expr, named: Mapping[str, DynamicDimension], text: str) -> tuple[int, int]:
    """The least and the largest value."""
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value, value
        case ast.Name(id=name):
            if name not in named:
                raise ValueError(f"dynamic_dimension: {text!r} has {name!r}, the names given are {', '.join(named)}")
            return named[name].min, named[name].max
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = _bounds(left, named, text), _bounds(right, named, text)
            if OPERATORS[type(op)] is floordiv and b[0] <= 0 <= b[1]:
                raise ValueError(f"dynamic_dimension: {text!r} may divide by 0")
            found = [OPERATORS[type(op)](x, y) for x, y in product(a, b)]
            return min(found), max(found)
    raise ValueError(f"dynamic_dimension: {text!r} has {ast.unparse(node)!r}, which is no sum, product or quotient")
