"""Of a value whose few rows alone are read, by a slice or by constant indices, only these are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import is_open
from migraphx.ops.indexing import Gather, GatherElements
from migraphx.ops.matmul import Dot
from migraphx.ops.movement import Multibroadcast, Reshape, Reshaping, Slice, Squeeze, Transpose
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction, Softmax
from migraphx.passes.column_parts import column_parts
from migraphx.passes.constants import broadcast_literal, compact, is_constant
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute
from migraphx.passes.simplify_reshapes import again, groups

FEWER = 2  # times: what is read of a value has so few rows
TAKES_ROWS = (Slice, Gather, GatherElements)


class Rows(NamedTuple):
    """The indices start <= i < stop of an axis, of its `length`."""

    axis: int
    start: int
    stop: int
    length: int


def slice_first(module: Module) -> Refusals:
    """Slice what products read instead of what is computed of them, where nobody reads the rest.

    The last layer of a classifier that looks at its first token alone is computed for that token, and of relative
    positions (DeBERTa's) those that there are among so many tokens. Where one product makes queries, keys and values,
    and few queries are read, each of them becomes a product.

    before:
        w = @param:w -> float_type, {1, 8, 16}, {128, 16, 1}
        x = @param:x -> float_type, {1, 6, 8}, {48, 8, 1}
        @2 = dot(x,w)
        @3 = relu(@2)
        @4 = slice[axes={1},starts={0},ends={1}](@3)
        @5 = @return(@4)

    after:
        w = @param:w -> float_type, {1, 8, 16}, {128, 16, 1}
        x = @param:x -> float_type, {1, 6, 8}, {48, 8, 1}
        @2 = slice[axes={1},starts={0},ends={1}](x) -> float_type, {1, 1, 8}, {48, 8, 1}
        @3 = dot(@2,w) -> float_type, {1, 1, 16}, {16, 16, 1}
        @4 = relu(@3) -> float_type, {1, 1, 16}, {16, 16, 1}
        @5 = @return(@4)
    """
    read = _read(module)
    if not any(isinstance(ins.op, Dot) for ins in read):
        return []
    if _apart(module, read):
        read = _read(module)
    made: dict[Instruction, Instruction] = {}
    for ins in list(module):
        rows = read.get(ins)
        if rows is not None:
            b = Builder(module, before=ins, origin=ins.origin)
            wanted = [_of_input(ins, k, rows) for k in range(len(ins.inputs))]
            inputs = [_cut(b, i, made, want) for i, want in zip(ins.inputs, wanted, strict=True)]
            made[ins] = _again(b, ins, inputs, rows)
        elif isinstance(ins.op, TAKES_ROWS) and ins.inputs[0] in made:
            substitute(ins, _taken(module, ins, made[ins.inputs[0]]))
    remove_unused(module, [ins for ins in module if ins in read or isinstance(ins.op, TAKES_ROWS)])
    return []


def _read(module: Module) -> dict[Instruction, Rows]:
    """The values of which only these rows are read, and that can be computed for them alone."""
    found: dict[Instruction, Rows] = {}
    for ins in reversed(list(module)):
        if ins.name.startswith("@") or not ins.users or any(u.owner is not module for u in ins.users):
            continue
        rows = _all_want(ins, found)
        if rows is not None and any(_of_input(ins, k, rows) is not None for k in range(len(ins.inputs))):
            found[ins] = rows
    return found


def _all_want(ins: Instruction, found: dict[Instruction, Rows]) -> Rows | None:
    """The rows that all users read; None where they differ, or read all."""
    wanted = {_wanted(user, ins, found) for user in ins.users}
    return wanted.pop() if len(wanted) == 1 else None


def _apart(module: Module, read: dict[Instruction, Rows]) -> bool:
    """Products of parts of the weights, where of some columns few rows are read; whether there are any."""
    found = [product for ins in module if isinstance(ins.op, Dot) and (product := column_parts(ins))]
    found = [product for product in found if any(_all_want(part.slice, read) for part in product.parts)]
    for product in found:
        product.split(module)
    return bool(found)


def _wanted(user: Instruction, ins: Instruction, found: dict[Instruction, Rows]) -> Rows | None:
    """The rows of `ins` that a user reads, alike at all places where it reads it; None: all."""
    if isinstance(user.op, TAKES_ROWS):
        cut = None if is_open(ins.shape.lens) else _spanned(user, ins)
        few = cut is not None and 0 < (cut.stop - cut.start) * FEWER <= cut.length
        return cut if few else None
    rows = found.get(user)
    if rows is None:
        return None
    wanted = {_of_input(user, k, rows) for k, i in enumerate(user.inputs) if i is ins}
    return wanted.pop() if len(wanted) == 1 else None


def _spanned(user: Instruction, ins: Instruction) -> Rows | None:
    """The rows of `ins` from the first to the last one that a slice, or constant indices, take of one axis."""
    lens = ins.shape.lens
    if isinstance(user.op, Slice):
        cut = [(a, s) for a, s in user.op.spans(lens).items() if s.length != lens[a]]
        return Rows(cut[0][0], cut[0][1].start, cut[0][1].stop, lens[cut[0][0]]) if len(cut) == 1 else None
    assert isinstance(user.op, (Gather, GatherElements))
    data, indices = user.inputs
    axis = user.op.axis % len(lens)
    if data is not ins or indices is ins or not is_constant(indices) or not indices.shape.elements:
        return None
    value = compact(indices)
    if value.min() < 0 or value.max() >= lens[axis]:  # from the end, or an error
        return None
    return Rows(axis, int(value.min()), int(value.max()) + 1, lens[axis])


def _taken(module: Module, ins: Instruction, cut: Instruction) -> Instruction:
    """What a slice, or constant indices, take of the rows that are left: all, or what lies at less high indices."""
    if isinstance(ins.op, Slice):
        return cut
    b, value = Builder(module, before=ins, origin=ins.origin), compact(ins.inputs[1])
    indices = broadcast_literal(b, value - value.min(), ins.inputs[1].shape.lens)
    return again(b, ins, [cut, indices])


def _of_input(ins: Instruction, k: int, rows: Rows) -> Rows | None:
    """The rows of input k that those of the output are made of; None: all of them."""
    axis, source, op = rows.axis, ins.inputs[k], ins.op
    if isinstance(op, Transpose):
        axis = op.permutation[axis]
    elif isinstance(op, Multibroadcast):
        axis -= ins.shape.ndim - source.shape.ndim
    elif isinstance(op, Reshaping):
        parts = groups(source.shape.lens, ins.shape.lens) or []
        axis = next((mine[0] for mine, theirs in parts if theirs == [axis] and len(mine) == 1), -1)
    elif isinstance(op, Dot):
        last = ins.shape.ndim - 1
        axis = -1 if axis == (last - 1 if k else last) else axis
    elif isinstance(op, Reduction):
        axis = -1 if not op.axes or axis in [a % ins.shape.ndim for a in op.axes] else axis
    elif isinstance(op, Softmax):
        axis = -1 if axis == op.axis % ins.shape.ndim else axis
    elif not isinstance(op, Pointwise) or source.shape.ndim != ins.shape.ndim:
        return None
    return rows._replace(axis=axis) if axis >= 0 and source.shape.lens[axis] == rows.length else None


def _cut(b: Builder, ins: Instruction, made: dict[Instruction, Instruction], rows: Rows | None) -> Instruction:
    """These rows of an input."""
    if rows is None:
        return ins
    if ins in made:
        return made[ins]
    if isinstance(ins.op, Multibroadcast) and _of_input(ins, 0, rows) is None:
        return b.multibroadcast(ins.inputs[0], out_lens=_lens(ins, rows))
    return b.slice(ins, axes=(rows.axis,), starts=(rows.start,), ends=(rows.stop,))


def _again(b: Builder, ins: Instruction, inputs: Sequence[Instruction], rows: Rows) -> Instruction:
    """The operation on the rows of its inputs."""
    if isinstance(ins.op, Multibroadcast):
        return b.multibroadcast(inputs[0], out_lens=_lens(ins, rows))
    if isinstance(ins.op, Reshape) or (isinstance(ins.op, Squeeze) and not ins.op.axes):
        return b.reshape(inputs[0], dims=_lens(ins, rows))
    return again(b, ins, inputs)


def _lens(ins: Instruction, rows: Rows) -> tuple[int, ...]:
    return tuple(rows.stop - rows.start if d == rows.axis else n for d, n in enumerate(ins.shape.lens))
