"""Simplifies control flow: branches on constants, loops of few trips, loop-invariant instructions, groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal
from migraphx.ops.control import Loop
from migraphx.ops.quantize import DequantizeLinear, UnpackInt4
from migraphx.passes.constants import is_constant, scalar_of
from migraphx.passes.rewrite import remove_unused, substitute

FEW_TRIPS = 4


def simplify_control_flow(module: Module) -> None:
    """An `if` of a constant condition becomes its branch; a `loop` of at most four trips, as many copies of its body.

    Loop-invariant instructions of other loops move ahead of them. A `group` that the program came with is dissolved:
    later passes decide what becomes one kernel. Refuses to unroll loops whose number of trips
    depends on a value or that hold others, and to move what could fail where no trip is made (indices out of range).

    before:
        module: "main"
        x = @param:x -> float_type, {2}, {1}
        @1 = @literal{2} -> int64_type, {1}, {1}
        @2 = @literal{1} -> bool_type, {1}, {1}
        @3 = loop[max_iterations=2,scan_output_directions={}](@1,@2,x), [body]
        @4 = get_tuple_elem[index=0](@3) -> float_type, {2}, {1}
        @5 = get_tuple_elem[index=1](@3) -> float_type, {2, 2}, {2, 1}
        @6 = @return(@4,@5)

        module: "body"
        body:s = @param:s -> float_type, {2}, {1}
        body:c = @param:c -> bool_type, {1}, {1}
        body:i = @param:i -> int64_type, {1}, {1}
        body:@3 = add(body:s,x) -> float_type, {2}, {1}
        body:@4 = @return(body:c,body:@3,body:@3)

    after:
        module: "main"
        x = @param:x -> float_type, {2}, {1}
        @1 = add(x,x) -> float_type, {2}, {1}
        @2 = unsqueeze[axes={0},steps={}](@1) -> float_type, {1, 2}, {2, 1}
        @3 = add(@1,x) -> float_type, {2}, {1}
        @4 = unsqueeze[axes={0},steps={}](@3) -> float_type, {1, 2}, {2, 1}
        @5 = concat[axis=0](@2,@4) -> float_type, {2, 2}, {2, 1}
        @6 = @return(@3,@5)
    """
    for ins in [i for i in module if i.modules]:
        if ins.name == "group":
            (body,) = ins.modules
            substitute(ins, module.inline(body, _bound(body, ins.inputs), ins)[0])
            remove_unused(module, [ins])
        elif ins.name == "if" and (known := scalar_of(ins.inputs[0])) is not None:
            chosen = ins.modules[0 if known else 1]
            _replace(module, ins, module.inline(chosen, _bound(chosen, ins.inputs[1:]), ins))
        elif isinstance(ins.op, Loop):
            trips = _trips(ins, ins.op)
            nested = any(inner.modules for inner in ins.modules[0])
            if trips is not None and trips <= FEW_TRIPS and not nested:
                _replace(module, ins, _unrolled(module, ins, ins.op, trips))
            else:
                _hoist(module, ins)


def _bound(module: Module, values: Sequence[Instruction]) -> dict[str, Instruction]:
    return dict(zip(module.parameters, values, strict=True))


def _replace(module: Module, ins: Instruction, values: Sequence[Instruction]) -> None:
    """The elements of a tuple become these values."""
    users = list(ins.users)
    for user in users:
        index: int = user.op.attributes()["index"]
        substitute(user, values[index])
    remove_unused(module, [*users, ins])


def _trips(ins: Instruction, op: Loop) -> int | None:
    """How many trips a loop makes; None where that depends on a value."""
    count, first = scalar_of(ins.inputs[0]), scalar_of(ins.inputs[1])
    (body,) = ins.modules
    going = body.outputs[0]
    stays = going is list(body.parameters.values())[1] or scalar_of(going) is True
    if count is None or first is None or (first and not stays):
        return None
    return min(max(int(count), 0), op.max_iterations) if first else 0


def _unrolled(module: Module, ins: Instruction, op: Loop, trips: int) -> list[Instruction]:
    """The loop's results: a copy of the body for each trip, gathered rows concatenated, zeros for trips not made."""
    b, (body,) = Builder(module, before=ins, origin=ins.origin), ins.modules
    number = next(iter(body.parameters.values()))
    condition, *state = ins.inputs[1:]
    rows: list[list[Instruction]] = []
    for k in range(trips):
        at = b.literal(np.full(number.shape.lens, k, np.int64))
        _, *made = module.inline(body, _bound(body, [at, condition, *state]), ins)
        state, gathered = made[: len(state)], made[len(state) :]
        rows.append([b.unsqueeze(v, axes=(0,)) for v in gathered])
    whole: list[Instruction] = []
    for n, shape in enumerate(ins.shape.sub_shapes[len(state) :]):
        column = [row[n] for row in rows]
        if trips < op.max_iterations or not trips:
            zero = b.literal(np.zeros(1, shape.numpy_dtype))
            column.append(b.multibroadcast(zero, out_lens=(op.max_iterations - trips, *shape.lens[1:])))
        column = column[::-1] if op.backwards(n) else column
        whole.append(b.concat(*column, axis=0) if len(column) > 1 else column[0])
    return [*state, *whole]


def _hoistable(ins: Instruction) -> bool:
    """Whether an instruction may be computed once ahead of a loop that perhaps makes no trip: it cannot fail.

    A dequantization stays beside the product that may take its codes instead.
    """
    op = ins.op
    computes = bool(ins.inputs) and not ins.modules and not is_constant(ins) and not ins.shape.dynamic
    return computes and op.pure and not (op.can_fail or op.deferred or isinstance(op, (DequantizeLinear, UnpackInt4)))


def _hoist(module: Module, loop: Instruction) -> None:
    """Move ahead of the loop what its body computes from values around it only."""
    (body,) = loop.modules
    outside: dict[Instruction, Instruction] = {}

    def fixed(ins: Instruction) -> bool:
        return ins.owner is not body or ins in outside or is_constant(ins)

    def copied(ins: Instruction) -> Instruction:
        """A value that does not change from trip to trip, ahead of the loop."""
        if ins.owner is not body:
            return ins
        if ins not in outside:
            if isinstance(ins.op, Literal):
                outside[ins] = module.add_literal(ins.op.value, ins.origin)
            else:
                inputs = [copied(i) for i in ins.inputs]
                outside[ins] = module.add_instruction(ins.op, inputs, before=loop, origin=ins.origin)
        return outside[ins]

    moved: list[Instruction] = []
    for ins in body:
        if _hoistable(ins) and all(map(fixed, ins.inputs)):
            substitute(ins, copied(ins))
            moved.append(ins)
    remove_unused(body, moved)
