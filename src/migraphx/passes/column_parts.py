"""Slices of a product's columns, and products of slices of the weights in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import is_open
from migraphx.ops.movement import Reshaping, Slice, Transpose
from migraphx.passes.rewrite import remove_unused, substitute
from migraphx.passes.simplify_reshapes import groups


@dataclass(frozen=True)
class Moved:
    """A transpose, or a reshape, behind which index c of `axis` holds the columns from c * `each` on, `each` of them.

    As of three groups of heads of a {rows, columns} that became {rows, 3, heads, width}.
    """

    view: Instruction
    axis: int
    each: int


@dataclass(frozen=True)
class ColumnPart:
    """The columns start <= c < stop of a product, which `slice` takes of the last of `views`."""

    start: int
    stop: int
    slice: Instruction
    views: tuple[Moved, ...]

    def of(self, b: Builder, product: Instruction) -> Instruction:
        """What the slice takes, of a product that has these columns alone."""
        for moved in self.views:
            if isinstance(moved.view.op, Transpose):
                product = b.transpose(product, permutation=moved.view.op.permutation)
            else:
                count, lens = (self.stop - self.start) // moved.each, moved.view.shape.lens
                product = b.reshape(product, dims=[count if d == moved.axis else n for d, n in enumerate(lens)])
        return product


@dataclass(frozen=True)
class ColumnParts:
    """A product that is read by slices of its columns alone, from left to right, no two of which overlap.

    `result`: the addition that alone reads the product, or itself.
    """

    dot: Instruction
    result: Instruction
    parts: tuple[ColumnPart, ...]

    def split(self, module: Module) -> None:
        """A product in place of each slice."""
        b, (x, w) = Builder(module, before=self.result, origin=self.result.origin), self.dot.inputs
        for part in self.parts:
            product = b.dot(x, _columns(b, w, part))
            if self.result is not self.dot:
                product = b.add(*(product if i is self.dot else _columns(b, i, part) for i in self.result.inputs))
            substitute(part.slice, part.of(b, product))
        remove_unused(module, [p.slice for p in self.parts])


def column_parts(dot: Instruction) -> ColumnParts | None:
    """The slices of a product, or of its sum with a bias, also behind views; None where something else reads it."""
    user = next(iter(dot.users)) if len(dot.users) == 1 else dot
    result = user if user.name == "add" and user.inputs[0] is not user.inputs[1] else dot
    if is_open(result.shape.lens) or not result.shape.elements:
        return None
    found = [*_read(result, result.shape.ndim - 1, 1, ())]
    parts = sorted((p for p in found if p), key=lambda p: p.start)
    apart = all(left.stop <= right.start for left, right in pairwise(parts))
    return ColumnParts(dot, result, tuple(parts)) if parts and apart and len(parts) == len(found) else None


def _read(ins: Instruction, axis: int, each: int, views: tuple[Moved, ...]) -> Iterator[ColumnPart | None]:
    """What reads a value whose `axis` holds columns: slices of it, behind views; None: something else."""
    for user in ins.users:
        if user.owner is not ins.owner:
            yield None
        elif isinstance(user.op, Slice):
            spans = user.op.spans(ins.shape.lens)
            mine = [*spans] == [axis]
            yield ColumnPart(spans[axis].start * each, spans[axis].stop * each, user, views) if mine else None
        elif place := _place(user, ins, axis):
            there, more = place
            yield from _read(user, there, each * more, (*views, Moved(user, there, each * more)))
        else:
            yield None


def _place(view: Instruction, ins: Instruction, axis: int) -> tuple[int, int] | None:
    """The axis of a view that an axis of its input becomes, or begins with, and how much of that each index holds."""
    if isinstance(view.op, Transpose):
        return view.op.permutation.index(axis), 1
    lens = view.shape.lens
    for mine, theirs in (groups(ins.shape.lens, lens) or []) if isinstance(view.op, Reshaping) else []:
        if mine == [axis] and theirs:
            first = next((d for d in theirs if lens[d] > 1), theirs[0])
            return first, prod(lens[d] for d in theirs if d > first)
    return None


def _columns(b: Builder, ins: Instruction, part: ColumnPart) -> Instruction:
    return b.slice(ins, axes=(ins.shape.ndim - 1,), starts=(part.start,), ends=(part.stop,))
