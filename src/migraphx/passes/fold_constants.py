"""Compute at compile time what depends on literals only."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, Return
from migraphx.ir.size import is_open
from migraphx.ops.movement import Broadcasting, Layout, Reshaping, Slice
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.constants import compact, is_constant, value_of, without_repeats
from migraphx.passes.rewrite import remove_unused, substitute

SMALL = 1 << 20  # bytes: smaller results are folded whatever their inputs' size, such as masks
GROWTH = 2  # a larger result may be so many times as large as the literals that it is computed from
LEVELS = 4  # of operators between a part of a literal and what is the same for all parts
DEQUANTIZED = 4  # as GROWTH, where bytes become floats: passes before this one took what could stay integers


def fold_constants(module: Module) -> None:
    """Instructions whose inputs are all literals become literals.

    Views (transpose, slice ...) become views of the same memory. Broadcasts stay: they cost nothing and
    their expansion would. `layout` stays: the target packs weights in the order it wants anyhow. Weights of 4 bits
    that `fuse_int4` left become floats. Refuses operators with side effects, random results, modules or tuples, and
    results of over 1 MiB that are more than twice as large as their inputs (four times, of dequantized numbers).

    before:
        @0 = @literal{1, 2, 3} -> float_type, {3}, {1}
        @1 = @literal{2} -> float_type, {1}, {1}
        @2 = multibroadcast[out_lens={3},out_dyn_dims={}](@1) -> float_type, {3}, {0}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @4 = mul(@0,@2) -> float_type, {3}, {1}
        @5 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@4) -> float_type, {2, 3}, {0, 1}
        @6 = add(x,@5) -> float_type, {2, 3}, {3, 1}
        @7 = @return(@6)

    after:
        @0 = @literal{2, 4, 6} -> float_type, {3}, {1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @2 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@0) -> float_type, {2, 3}, {0, 1}
        @3 = add(x,@2) -> float_type, {2, 3}, {3, 1}
        @4 = @return(@3)
    """
    for ins in module:
        if is_open(ins.shape.lens):
            _fold_elementwise(ins)
        elif _foldable(ins):
            value = _plain(ins.op.compute(*map(value_of, ins.inputs)))
            b = Builder(module, before=ins, origin=ins.origin)
            substitute(ins, b.broadcast_to(b.literal(without_repeats(value)), value.shape))
            remove_unused(module, [ins])  # at once, so that two copies of the weights never exist


def _fold_elementwise(ins: Instruction) -> None:
    """Of what is broadcast to lens that change from run to run, the elements are computed.

    And what is computed of a part of a literal, where any part gives the same number everywhere, such as whether a
    position is negative.
    """
    if not isinstance(ins.op, Pointwise) or not ins.op.pure:
        return
    if all(map(is_constant, ins.inputs)):
        value = ins.op.compute(*np.broadcast_arrays(*map(compact, ins.inputs)))
    elif ins.shape.type == "bool" and (whole := _of_whole(ins, _part_read(ins))) is not None and _uniform(whole):
        value = whole[:1].reshape((1,) * ins.shape.ndim)
    else:
        return
    b = Builder(ins.owner or Module(), before=ins, origin=ins.origin)
    substitute(ins, b.broadcast_to(b.literal(without_repeats(value)), ins.shape.lens))
    remove_unused(b.module, [ins])


def _part_read(ins: Instruction, levels: int = LEVELS) -> Instruction | None:
    """The slice of a literal, of a length that changes from run to run, that a value is computed of."""
    if isinstance(ins.op, Slice):
        return ins if is_open(ins.shape.lens) and is_constant(ins.inputs[0]) else None
    if not isinstance(ins.op, (Pointwise, Reshaping)) or not levels:
        return None
    return next((found for i in ins.inputs if (found := _part_read(i, levels - 1)) is not None), None)


def _of_whole(ins: Instruction, part: Instruction | None, levels: int = LEVELS) -> np.ndarray | None:
    """The elements, had they been computed of the whole literal that `part` is cut from; None where of others, too."""
    if part is None or not levels:
        return None
    if ins is part:
        return value_of(ins.inputs[0]).reshape(-1)
    if is_constant(ins):
        return compact(ins).reshape(-1) if compact(ins).size == 1 else None
    if isinstance(ins.op, Reshaping):  # in the same order
        return _of_whole(ins.inputs[0], part, levels - 1)
    if not isinstance(ins.op, Pointwise) or not ins.op.pure:
        return None
    values = [v for i in ins.inputs if (v := _of_whole(i, part, levels - 1)) is not None]
    return ins.op.compute(*np.broadcast_arrays(*values)) if len(values) == len(ins.inputs) else None


def _uniform(value: np.ndarray) -> bool:
    return bool(value.size) and bool((value == value[0]).all())


def _foldable(ins: Instruction) -> bool:
    if isinstance(ins.op, (Literal, Parameter, Return)) or not ins.op.pure or ins.modules:
        return False
    if isinstance(ins.op, (Broadcasting, Layout)) or ins.shape.sub_shapes or ins.shape.dynamic or not ins.users:
        return False
    if not all(i.owner is ins.owner and is_constant(i) for i in ins.inputs):
        return False
    if any(is_open(i.shape.lens) for i in ins.inputs):
        return False  # its value changes from run to run
    size = ins.shape.elements * ins.shape.numpy_dtype.itemsize
    growth = DEQUANTIZED if ins.name == "dequantizelinear" else GROWTH
    return ins.op.view or size <= max(SMALL, growth * sum(i.shape.bytes for i in ins.inputs))


def _plain(value: np.ndarray) -> np.ndarray:
    """`value` as a literal can hold it: with strides that are whole, positive numbers of elements."""
    odd = any(s < 0 or s % value.itemsize for s in value.strides)
    return np.ascontiguousarray(value) if odd else value
