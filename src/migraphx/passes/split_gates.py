"""A product whose halves meet again, as a gated layer's do, becomes two products, which one kernel may compute."""

from __future__ import annotations

from collections.abc import Sequence

from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import hint_of
from migraphx.ops.matmul import Dot
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.column_parts import ColumnPart, ColumnParts, column_parts
from migraphx.passes.interface import Refusals

LEAST = 64  # rows, below which one wide product is a launch less
TYPES = ("half", "bf16")


def split_gates(module: Module) -> Refusals:
    """The slices of a product, or of its sum with a bias, become products of slices where they are its two halves.

    GEGLU and SwiGLU multiply one half by a function of the other. As slices of one result they are read from memory;
    as two products, one is the epilogue of the other.

    before:
        x = @param:x -> half_type, {64, 4}, {4, 1}
        w = @param:w -> half_type, {4, 6}, {6, 1}
        @2 = dot(x,w)
        @3 = slice[axes={1},starts={0},ends={3}](@2)
        @4 = slice[axes={1},starts={3},ends={6}](@2)
        @5 = relu(@4)
        @6 = mul(@3,@5)
        @7 = @return(@6)

    after:
        x = @param:x -> half_type, {64, 4}, {4, 1}
        w = @param:w -> half_type, {4, 6}, {6, 1}
        @2 = slice[axes={1},starts={0},ends={3}](w) -> half_type, {4, 3}, {6, 1}
        @3 = dot(x,@2) -> half_type, {64, 3}, {3, 1}
        @4 = slice[axes={1},starts={3},ends={6}](w) -> half_type, {4, 3}, {6, 1}
        @5 = dot(x,@4) -> half_type, {64, 3}, {3, 1}
        @6 = relu(@5) -> half_type, {64, 3}, {3, 1}
        @7 = mul(@3,@6) -> half_type, {64, 3}, {3, 1}
        @8 = @return(@7)
    """
    for dot in list(module):
        if isinstance(dot.op, Dot) and dot.shape.type in TYPES and dot.inputs[0].shape.type in TYPES:
            product = column_parts(dot)
            rows = hint_of(dot.shape.elements) // max(1, hint_of(dot.shape.lens[-1]))
            if product and rows >= LEAST and _halved(product) and _meet(product.parts):
                product.split(module)
    return []


def _halved(product: ColumnParts) -> bool:
    """Whether what is read of a product is its two halves, as they are."""
    middle, odd = divmod(product.dot.shape.lens[-1], 2)
    plain = [(p.start, p.stop) for p in product.parts if not p.views]
    return not odd and len(product.parts) == 2 and plain == [(0, middle), (middle, 2 * middle)]


def _meet(parts: Sequence[ColumnPart]) -> bool:
    """Whether pointwise operators make something of both."""
    return bool(_made_of(parts[0].slice) & _made_of(parts[1].slice))


def _made_of(ins: Instruction) -> set[Instruction]:
    """What pointwise operators make of a value, and of what they made."""
    found, left = set[Instruction](), [ins]
    while left:
        new = {u for u in left.pop().users if isinstance(u.op, Pointwise)} - found
        found |= new
        left += new
    return found
