"""Rotary positions: the halves of a vector exchanged, one of them negated, without a kernel for each."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.movement import Concat, Multibroadcast, Slice
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.constants import broadcast_literal, compact, scalar_of
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute

DEPTH = 6  # operators behind and beside the rotation that go with it


def rotate_halves(module: Module) -> Refusals:
    """The rotation becomes x as {.., 2, h}, of which each half reads the other; what follows goes along.

    before:
        x = @param:x -> float_type, {3, 4}, {4, 1}
        cos = @param:cos -> float_type, {4}, {1}
        sin = @param:sin -> float_type, {4}, {1}
        @3 = multibroadcast[out_lens={3, 4},out_dyn_dims={}](cos)
        @4 = multibroadcast[out_lens={3, 4},out_dyn_dims={}](sin)
        @5 = slice[axes={1},starts={0},ends={2}](x)
        @6 = slice[axes={1},starts={2},ends={4}](x)
        @7 = neg(@6)
        @8 = concat[axis=1](@7,@5)
        @9 = mul(x,@3)
        @10 = mul(@8,@4)
        @11 = add(@9,@10)
        @12 = @return(@11)

    after:
        module: "main"
        @0 = @literal{1, 0} -> bool_type, {2, 1}, {1, 1}
        x = @param:x -> float_type, {3, 4}, {4, 1}
        cos = @param:cos -> float_type, {4}, {1}
        sin = @param:sin -> float_type, {4}, {1}
        @4 = unsqueeze[axes={1},steps={2}](x) -> float_type, {3, 2, 2}, {4, 2, 1}
        @5 = unsqueeze[axes={0},steps={2}](cos) -> float_type, {2, 2}, {2, 1}
        @6 = multibroadcast[out_lens={3, 2, 2},out_dyn_dims={}](@5) -> float_type, {3, 2, 2}, {0, 2, 1}
        @7 = mul(@4,@6) -> float_type, {3, 2, 2}, {4, 2, 1}
        @8 = unsqueeze[axes={1},steps={2}](x) -> float_type, {3, 2, 2}, {4, 2, 1}
        @9 = slice[axes={1},starts={0},ends={1}](@8) -> float_type, {3, 1, 2}, {4, 2, 1}
        @10 = unsqueeze[axes={1},steps={2}](x) -> float_type, {3, 2, 2}, {4, 2, 1}
        @11 = slice[axes={1},starts={1},ends={2}](@10) -> float_type, {3, 1, 2}, {4, 2, 1}
        @12 = multibroadcast[out_lens={3, 2, 2},out_dyn_dims={}](@9) -> float_type, {3, 2, 2}, {4, 0, 1}
        @13 = multibroadcast[out_lens={3, 2, 2},out_dyn_dims={}](@11) -> float_type, {3, 2, 2}, {4, 0, 1}
        @14 = multibroadcast[out_lens={3, 2, 2},out_dyn_dims={}](@0) -> bool_type, {3, 2, 2}, {0, 1, 0}
        @15 = neg(@13) -> float_type, {3, 2, 2}, {4, 2, 1}
        @16 = where(@14,@15,@12) -> float_type, {3, 2, 2}, {4, 2, 1}
        @17 = unsqueeze[axes={0},steps={2}](sin) -> float_type, {2, 2}, {2, 1}
        @18 = multibroadcast[out_lens={3, 2, 2},out_dyn_dims={}](@17) -> float_type, {3, 2, 2}, {0, 2, 1}
        @19 = mul(@16,@18) -> float_type, {3, 2, 2}, {4, 2, 1}
        @20 = add(@7,@19) -> float_type, {3, 2, 2}, {4, 2, 1}
        @21 = reshape[dims={3, 4}](@20) -> float_type, {3, 4}, {4, 1}
        @22 = @return(@21)
    """
    for ins in list(module):
        x = _rotated(ins)
        if x is not None and ins.owner is module:
            _rewrite(module, ins, x)
    return []


def _rotated(ins: Instruction) -> Instruction | None:
    """x of concat(neg(slice(x)), slice(x)), whose slices are its second and its first half; else None."""
    if not isinstance(ins.op, Concat) or len(ins.inputs) != 2:
        return None
    negated, first = ins.inputs
    if negated.name != "neg" or any(not isinstance(i.op, Slice) for i in (first, negated.inputs[0])):
        return None
    second, x = negated.inputs[0], first.inputs[0]
    axis, n = _axis(ins), ins.shape.lens[_axis(ins)]
    if second.inputs[0] is not x or x.shape.lens != ins.shape.lens or n % 2 or x.shape.dynamic:
        return None
    wanted = ((first, 0, n // 2), (second, n // 2, n))
    return x if all(_cuts(part, axis, start, end) for part, start, end in wanted) else None


def _axis(concat: Instruction) -> int:
    return concat.op.attributes()["axis"] % concat.shape.ndim


def _cuts(part: Instruction, axis: int, start: int, end: int) -> bool:
    given = part.op.attributes()
    return (tuple(given["axes"]), tuple(given["starts"]), tuple(given["ends"])) == ((axis,), (start,), (end,))


def _rewrite(module: Module, rotated: Instruction, x: Instruction) -> None:
    axis, root = _axis(rotated), rotated
    along = {rotated}
    while len(along) < DEPTH and len(root.users) == 1:
        user = next(iter(root.users))
        if not isinstance(user.op, Pointwise) or user.shape.lens != rotated.shape.lens:
            break
        root = user
        along.add(root)
    b = Builder(module, before=root, origin=rotated.origin)
    lens = (*x.shape.lens[:axis], 2, x.shape.lens[axis] // 2, *x.shape.lens[axis + 1 :])

    def split(i: Instruction, depth: int = DEPTH) -> Instruction:
        """The same elements with the axis in two."""
        if i is rotated:
            halves = [b.slice(split(x, 0), axes=[axis], starts=[k], ends=[k + 1]) for k in (0, 1)]
            first, second = (b.multibroadcast(h, out_lens=lens) for h in halves)
            left = np.array([True, False]).reshape(2, *[1] * (len(lens) - axis - 1))
            return b.where(broadcast_literal(b, left, lens), b.neg(second), first)
        if scalar_of(i) is not None:
            return broadcast_literal(b, compact(i), lens)
        if isinstance(i.op, Pointwise) and (i in along or (depth and len(i.users) == 1 and i.owner is module)):
            inputs = [split(j, depth - (i not in along)) for j in i.inputs]
            return b.instruction(i.name, inputs, **i.op.attributes())
        if isinstance(i.op, Multibroadcast):
            small = i.inputs[0]
            at = small.shape.ndim - (i.shape.ndim - axis)
            if at >= 0:
                wide = small.shape.lens[at] > 1
                small = b.unsqueeze(small, axes=[at], steps=[2] if wide else [])
            return b.multibroadcast(small, out_lens=lens)
        return b.unsqueeze(i, axes=[axis], steps=[2])

    whole = b.reshape(split(root), dims=root.shape.lens)
    substitute(root, whole)
    remove_unused(module, [root])
