"""Norms of channels-last images: all channels of a pixel are reduced at once, then what belongs together."""

from __future__ import annotations

from math import prod

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import hint_of, likely_less
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.passes.grouping import axes_of
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute

LEAST_ELEMENTS = 1 << 16  # fewer lie in a core's cache, whatever the order
SIDE_BY_SIDE = 64  # from so many elements on a row fills registers and lines of the cache by itself
MOST_AGAIN = 4  # operators that are computed again for each reduction: more are stored


def pixels_first(module: Module) -> Refusals:
    """A reduction over axes on both sides of a kept one in memory becomes two: outside first, then inside.

    A group norm of a channels-last image reduces pixels and the few channels of a group, which are all that lie side by
    side: of each pixel it would read a few bytes, as often as there are groups. Over pixels alone channels fill
    registers. A norm over pixels alone, of each channel, is taken apart, too, into the pixels of a line and the lines:
    as one kernel it would be shared by channels, and few occupy one thread.

    What the results are for a channel is then written out, so that what reads the image reads it so. Values of the
    image that are made of it are computed again where they are reduced, as they would be stored.

    before:
        x = @param:x -> float_type, {1, 2, 3, 99999}, {599994, 3, 1, 6}
        @1 = reduce_max[axes={2, 3}](x) -> float_type, {1, 2, 1, 1}, {2, 1, 1, 2}
        @2 = multibroadcast[out_lens={1, 2, 3, 99999},out_dyn_dims={}](@1)
        @3 = sub(x,@2) -> float_type, {1, 2, 3, 99999}, {599994, 3, 1, 6}
        @4 = @return(@3)

    after:
        x = @param:x -> float_type, {1, 2, 3, 99999}, {599994, 3, 1, 6}
        @1 = reduce_max[axes={3}](x) -> float_type, {1, 2, 3, 1}, {6, 3, 1, 6}
        @2 = reduce_max[axes={2}](@1) -> float_type, {1, 2, 1, 1}, {2, 1, 1, 2}
        @3 = multibroadcast[out_lens={1, 2, 3, 1},out_dyn_dims={}](@2) -> float_type, {1, 2, 3, 1}, {2, 1, 0, 2}
        @4 = contiguous(@3) -> float_type, {1, 2, 3, 1}, {6, 3, 1, 1}
        @5 = multibroadcast[out_lens={1, 2, 3, 99999},out_dyn_dims={}](@4) -> float_type, {1, 2, 3, 99999}, {6, 3, 1, 0}
        @6 = sub(x,@5) -> float_type, {1, 2, 3, 99999}, {599994, 3, 1, 6}
        @7 = @return(@6)
    """
    behind = set[Instruction]()
    for ins in list(module):
        if sides := _sides(ins):
            behind.add(_split(module, ins, *sides, behind))
        elif behind.intersection(ins.inputs) and (isinstance(ins.op, Pointwise) or ins.name == "multibroadcast"):
            behind.add(ins)
    return []


def _sides(ins: Instruction) -> tuple[list[int], list[int], bool] | None:
    """The axes that are reduced first, those that are then, and whether these lie inside the innermost kept one.

    None where nothing is gained.
    """
    if not isinstance(ins.op, Reduction) or ins.inputs[0].shape.type not in ("float", "double"):
        return None
    x, axes = ins.inputs[0].shape, axes_of(ins)
    if x.dynamic or 0 in x.strides:
        return None
    order = [d for d in x.permutation if hint_of(x.lens[d]) > 1]
    kept = max((n for n, d in enumerate(order) if d not in axes), default=0)
    outside, inside = [d for d in order[:kept] if d in axes], list(order[kept + 1 :])
    if not (outside if inside else len(outside) > 1 and _broadcasts(ins, x.lens)):
        return None
    if likely_less(x.elements, LEAST_ELEMENTS):  # asked last: it may be a wish, which makes forms of a program
        return None
    if not inside:
        return outside[-1:], outside[:-1], False
    return (outside, inside, True) if likely_less(prod(x.lens[d] for d in inside), SIDE_BY_SIDE) else None


def _split(
    module: Module, ins: Instruction, first: list[int], then: list[int], spread: bool, behind: set[Instruction]
) -> Instruction:
    b, x = Builder(module, before=ins, origin=ins.origin), ins.inputs[0]
    part = b.instruction(ins.name, [_again(b, x, behind)], axes=tuple(sorted(first)))
    whole = b.instruction(ins.name, [part], axes=tuple(sorted(then)))
    substitute(ins, whole)
    remove_unused(module, [ins])
    for wide in _broadcasts(whole, x.shape.lens):
        b, (small,) = Builder(module, before=wide, origin=wide.origin), wide.inputs
        each = b.contiguous(b.multibroadcast(small, out_lens=part.shape.lens) if spread else small)
        again = b.multibroadcast(each, out_lens=x.shape.lens)
        behind.add(again)
        substitute(wide, again)
        remove_unused(module, [wide])
    return whole


def _again(b: Builder, x: Instruction, behind: set[Instruction]) -> Instruction:
    """`x` anew where it is a little arithmetic on the result of a reduction that was split."""
    found, todo = dict[Instruction, None](), [x]
    while todo and len(found) <= MOST_AGAIN:
        ins = todo.pop()
        if ins in behind and ins not in found and isinstance(ins.op, Pointwise):
            found[ins] = None
            todo += ins.inputs
    if len(found) > MOST_AGAIN:
        return x
    made = dict[Instruction, Instruction]()

    def again(ins: Instruction) -> Instruction:
        if ins in found and ins not in made:
            made[ins] = b.instruction(ins.name, [again(i) for i in ins.inputs], **ins.op.attributes())
        return made.get(ins, ins)

    return again(x)


def _broadcasts(small: Instruction, lens: tuple[int, ...]) -> list[Instruction]:
    """Those of `small`, or of what is computed of it for each row, to all elements."""
    found, seen, todo = list[Instruction](), {small}, [small]
    while todo:
        for user in todo.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if user.name == "multibroadcast" and user.shape.lens == lens:
                found.append(user)
            elif isinstance(user.op, Pointwise) and user.shape.lens == small.shape.lens:
                todo.append(user)
    return found
