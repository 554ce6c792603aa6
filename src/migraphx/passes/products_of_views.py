"""Rules that move views away from between products: each product multiplies what lies in memory already.

`simplify_reshapes` applies them with its own.
"""

from __future__ import annotations

import math

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.operation import operators
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import is_open
from migraphx.ops.movement import Reshaping
from migraphx.passes.constants import compact
from migraphx.passes.rewrite import rewrites

FEW = 8  # planes that are mixed, or made
LONG = 256  # elements of one at least: of shorter ones there is little to gather

Answer = Instruction | Refuse
RESHAPES = operators(lambda op: issubclass(op, Reshaping))


@rewrites(lambda b, x, w: b.dot(b.one_of(RESHAPES, x), b.constant("w")))
def dot_of_reshape(b: Builder, x: Instruction, w: Instruction, root: Instruction) -> Answer:
    """dot(reshape(x), w) -> reshape(dot(x, w)) where the reshape splits or merges leading dimensions

    x may also be {B, L, H, K / H}, the heads of an attention.
    """
    matrix, lens = compact(w), x.shape.lens
    if matrix.shape[-2:] != w.shape.lens[-2:] or matrix.size != matrix.shape[-1] * matrix.shape[-2]:
        return Refuse("a batch of products")
    if not x.shape.elements:
        return Refuse("x is empty")
    splits = [j for j in range(1, len(lens)) if math.prod(lens[j:]) == matrix.shape[-2]]
    if not splits or (splits[-1] == 1 and len(lens) > 2):
        return Refuse("the reshape does more than split or merge leading dimensions")
    outer = lens[: splits[-1]]
    if root.shape.lens[:-1] == outer:
        return Mismatch("the rows stay as they are")
    if not x.shape.standard and sum(n > 1 for n in lens[len(outer) :]) < 2 and len(lens) > len(outer) + 1:
        return Refuse("squeezing x takes no copy, and reshape_as_split would come back to it")
    y = b.reshape(x, dims=(*outer, matrix.shape[-2])) if len(lens) > len(outer) + 1 else x
    weights = w
    while weights.name == "multibroadcast":
        weights = weights.inputs[0]
    if weights.shape.ndim != 2:
        weights = b.literal(matrix.reshape(matrix.shape[-2:]))
    wide = b.broadcast_to(weights, (*outer[:-1], *matrix.shape[-2:]))
    return b.reshape(b.dot(y, wide), dims=root.shape.lens)


@rewrites(lambda b, x, w: b.dot(b.transpose(x), b.multibroadcast(w)))
def dot_of_transpose(b: Builder, x: Instruction, w: Instruction, root: Instruction) -> Answer:
    """dot(transpose(x), w) -> transpose(dot(x, w)) where only rows change places: they are one matrix to w"""
    order = root.inputs[0].op.attributes()["permutation"]
    if w.shape.ndim != 2 or order[-1] != len(order) - 1:
        return Mismatch("a batch of products, or the depth moves")
    if not x.shape.standard:
        return Refuse("the rows of x do not follow one another either")
    wide = b.broadcast_to(w, (*x.shape.lens[:-2], *w.shape.lens))
    return b.transpose(b.dot(x, wide), permutation=order)


@rewrites(lambda b, x, w: b.dot(b.transpose(x), b.constant("w")))
def dot_of_planes(b: Builder, x: Instruction, w: Instruction, root: Instruction) -> Answer:
    """dot(transpose(x), w) -> transpose(dot(w transposed, x)) where the depth is few planes of x, one behind the other

    So heads are mixed (CaiT): each result is a sum of planes, where rows would be gathered from all of them.
    """
    order, lens, matrix = root.inputs[0].op.attributes()["permutation"], x.shape.lens, compact(w)
    at = order[-1]
    if (
        is_open(lens)
        or matrix.size != math.prod(w.shape.lens[-2:])
        or order[:-1] != (*range(at), *range(at + 1, x.shape.ndim))
    ):
        return Mismatch("a batch of products, or more than the depth moves")
    outer, inner = lens[:at], lens[at + 1 :]
    depth, columns = w.shape.lens[-2:]
    if not x.shape.standard or not 0 < max(depth, columns) <= FEW or math.prod(inner) < LONG:
        return Mismatch("planes of x are many or short, or many are made")
    planes = b.reshape(x, dims=(*outer, depth, math.prod(inner)))
    left = b.broadcast_to(b.literal(matrix.reshape(depth, columns).T), (*outer, columns, depth))
    return b.transpose(b.reshape(b.dot(left, planes), dims=(*outer, columns, *inner)), permutation=order)


@rewrites(lambda b, x, y: b.dot(x, y))
def dot_of_merged(b: Builder, x: Instruction, y: Instruction, root: Instruction) -> Answer:
    """reshape(dot(reshape(x), reshape(y))) -> dot(x, y) where batches are merged before and split alike behind

    So torch makes `bmm` of `matmul`. A merged operand of other origin, such as probabilities, is split.
    """
    split = {i.shape.lens for i in root.users if i.name in RESHAPES}
    if len(split) != 1 or any(i.name not in RESHAPES for i in root.users):
        return Mismatch("users do not reshape it, or not alike")
    (lens,) = split
    if root.shape.ndim != 3 or len(lens) < 4 or lens[-2:] != root.shape.lens[-2:]:
        return Mismatch("users do not split the batch")
    outer = lens[:-2]
    parts = [_before_merging(b, i, outer) for i in (x, y)]
    if parts == [None, None]:
        return Refuse("no operand was merged so")
    left, right = (
        b.reshape(i, dims=(*outer, *i.shape.lens[-2:])) if part is None else part
        for part, i in zip(parts, (x, y), strict=True)
    )
    return b.reshape(b.dot(left, right), dims=root.shape.lens)


def _before_merging(b: Builder, x: Instruction, outer: tuple[int, ...]) -> Instruction | None:
    """The same matrices in batches of `outer`, where `x` was made of them."""
    if x.name in RESHAPES:
        return x.inputs[0] if x.inputs[0].shape.lens == (*outer, *x.shape.lens[-2:]) else None
    if x.name != "transpose" or x.op.attributes()["permutation"] != (0, 2, 1):
        return None
    y = _before_merging(b, x.inputs[0], outer)
    n = len(outer)
    return None if y is None else b.transpose(y, permutation=(*range(n), n + 1, n))


@rewrites(lambda b, x: b.one_of(RESHAPES, b.once(b.softmax(b.one_of(RESHAPES, x)))))
def softmax_of_merged(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """reshape(softmax(reshape(x))) -> softmax(x) where only batches were merged meanwhile"""
    softmax = root.inputs[0]
    last = softmax.shape.ndim - 1
    if x.shape.lens != root.shape.lens or softmax.op.attributes()["axis"] % softmax.shape.ndim != last:
        return Mismatch("other lens, or not along the last dimension")
    if x.shape.lens[-1] != softmax.shape.lens[-1]:
        return Mismatch("the last dimension is not kept")
    return b.softmax(x, axis=x.shape.ndim - 1)
