"""A product whose halves meet again, as a gated layer's do, becomes two products, which one kernel may compute."""

from __future__ import annotations

from functools import partial

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import hint_of, is_open
from migraphx.ops.matmul import Dot
from migraphx.ops.movement import Slice
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute

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
            result = _with_bias(dot)
            halves = _halves(result)
            rows = hint_of(dot.shape.elements) // max(1, hint_of(dot.shape.lens[-1]))
            if halves and rows >= LEAST and _made_of(halves[0]) & _made_of(halves[1]):
                _split(module, dot, result, halves)
    return []


def _with_bias(dot: Instruction) -> Instruction:
    """The addition that alone reads a product; itself where there is none."""
    user = next(iter(dot.users), dot)
    return user if len(dot.users) == 1 and user.name == "add" and user.inputs[0] is not user.inputs[1] else dot


def _halves(ins: Instruction) -> list[Instruction]:
    """The slices that halve the columns, in order, where nothing else reads the value; none where they are others."""
    last, length = ins.shape.ndim - 1, ins.shape.lens[-1]
    if is_open(length) or len(ins.users) != 2:
        return []
    found = {}
    for user in ins.users:
        spans = user.op.spans(ins.shape.lens) if isinstance(user.op, Slice) else {}
        if [*spans] == [last] and 2 * spans[last].length == length:
            found[spans[last].start] = user
    return [found[0], found[length // 2]] if found.keys() == {0, length // 2} else []


def _made_of(ins: Instruction) -> set[Instruction]:
    """What pointwise operators make of a value, and of what they made."""
    found, left = set[Instruction](), [ins]
    while left:
        new = {u for u in left.pop().users if isinstance(u.op, Pointwise)} - found
        found |= new
        left += new
    return found


def _split(module: Module, dot: Instruction, result: Instruction, halves: list[Instruction]) -> None:
    b, (x, w) = Builder(module, before=result, origin=result.origin), dot.inputs
    width = result.shape.lens[-1] // 2
    for n, half in enumerate(halves):
        columns = partial(_columns, b, start=n * width, end=n * width + width)
        part = b.dot(x, columns(w))
        if result is not dot:
            part = b.add(*(part if i is dot else columns(i) for i in result.inputs))
        substitute(half, part)
    remove_unused(module, halves)


def _columns(b: Builder, ins: Instruction, start: int, end: int) -> Instruction:
    return b.slice(ins, axes=(ins.shape.ndim - 1,), starts=(start,), ends=(end,))
