"""Recurrent layers become loops; the operators around them become gathers and slices."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.recurrent import Recurrent
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, rewrite, rewrites, substitute


def _given(ins: Instruction) -> Instruction | None:
    return None if ins.name == "undefined" else ins


@rewrites(lambda b, x, lens: b.rnn_var_sl_shift_sequence(x, lens))
def shift_sequence(b: Builder, x: Instruction, lens: Instruction) -> Instruction:
    """x[t - (T - lengths)] where that is a step, else 0"""
    steps = x.shape.lens[0]
    at, lengths = _table(b, lens, steps)
    source = b.sub(at, b.sub(b.full(steps, at), lengths))
    return _rows_or_zero(b, x, source, b.greater(source, b.full(-1, source)), 1)


@rewrites(lambda b, x, lens: b.rnn_var_sl_shift_output(x, lens))
def shift_output(b: Builder, x: Instruction, lens: Instruction, root: Instruction) -> Instruction:
    """x[t], or x[t + (T - lengths)] of a direction read backwards, where t is below the length, else 0"""
    steps = x.shape.lens[0]
    at, lengths = _table(b, lens, steps)
    inside = b.less(at, lengths)
    made: list[Instruction] = []
    for d in range(x.shape.lens[1]):
        back = root.op.attributes()["direction"] == "reverse" or d == 1
        source = b.add(at, b.sub(b.full(steps, at), lengths)) if back else at
        made.append(_rows_or_zero(b, b.slice(x, axes=(1,), starts=(d,), ends=(d + 1,)), source, inside, 2, back))
    return b.concat(*made, axis=1) if len(made) > 1 else made[0]


@rewrites(lambda b, x, lens: b.rnn_var_sl_last_output(x, lens))
def last_output(b: Builder, x: Instruction, lens: Instruction, root: Instruction) -> Instruction:
    """Step lengths - 1 of a direction read forwards, step 0 of one read backwards"""
    _, count, batch, hidden = x.shape.lens
    made: list[Instruction] = []
    for d in range(count):
        one = b.slice(x, axes=(1,), starts=(d,), ends=(d + 1,))
        if root.op.attributes()["direction"] == "reverse" or d == 1:
            made.append(b.slice(one, axes=(0,), starts=(0,), ends=(1,)))
            continue
        at = b.cast(lens, "int64")
        at = b.clamp(b.sub(at, b.full(1, at)), 0, x.shape.lens[0] - 1)
        at = b.multibroadcast(b.unsqueeze(at, axes=(0, 1, 3)), out_lens=(1, 1, batch, hidden))
        made.append(b.gather_elements(one, at, axis=0))
    return b.squeeze(b.concat(*made, axis=1) if count > 1 else made[0], axes=(0,))


@rewrites(lambda b, x: b.one_of(("rnn_last_hs_output", "rnn_last_cell_output"), x))
def last_state(b: Builder, x: Instruction, root: Instruction) -> Instruction:
    """The last step of a direction read forwards, the first of one read backwards"""
    steps, count, *_ = x.shape.lens
    made: list[Instruction] = []
    for d in range(count):
        at = 0 if root.op.attributes()["direction"] == "reverse" or d == 1 else steps - 1
        made.append(b.slice(x, axes=(0, 1), starts=(at, d), ends=(at + 1, d + 1)))
    return b.squeeze(b.concat(*made, axis=1) if count > 1 else made[0], axes=(0,))


def _table(b: Builder, lens: Instruction, steps: int) -> tuple[Instruction, Instruction]:
    """Each step's number, and each sequence's length, {T, N} both."""
    batch = lens.shape.lens[0]
    numbers = b.literal(np.arange(steps, dtype=np.int64).reshape(steps, 1))
    lengths = b.clamp(b.cast(lens, "int64"), 0, steps)
    out = (steps, batch)
    return b.multibroadcast(numbers, out_lens=out), b.multibroadcast(b.unsqueeze(lengths, axes=(0,)), out_lens=out)


def _rows_or_zero(
    b: Builder, x: Instruction, source: Instruction, inside: Instruction, batch: int, moved: bool = True
) -> Instruction:
    """x[source] along the steps where `inside`, else 0; sequences are dimension `batch` of x."""
    axes = [d for d in range(1, x.shape.ndim) if d != batch]

    def broadcast(v: Instruction) -> Instruction:
        return b.multibroadcast(b.unsqueeze(v, axes=axes), out_lens=x.shape.lens)

    if moved:
        x = b.gather_elements(x, broadcast(b.clamp(source, 0, x.shape.lens[0] - 1)), axis=0)
    return b.where(broadcast(inside), x, b.full(0, x))


def rewrite_rnn(module: Module) -> Refusals:
    """rnn, gru and lstm become what their operators say (ops/recurrent.py): one dot for all inputs, and a loop.

    Operators that select last steps or shift sequences of unequal length become slices and gathers.

    before:
        r = @param:r -> float_type, {1, 2, 2}, {4, 2, 1}
        w = @param:w -> float_type, {1, 2, 3}, {6, 3, 1}
        x = @param:x -> float_type, {5, 1, 3}, {3, 3, 1}
        @3 = rnn[hidden_size=2,actv_func={},direction=reverse,clip=0,actv_alpha={},actv_beta={}](x,w,r)
        @4 = rnn_last_hs_output[direction=reverse](@3)
        @5 = @return(@4)

    after:
        module: "main"
        @0 = @literal{1} -> bool_type, {1}, {1}
        @1 = @literal{5} -> int64_type, {1}, {1}
        @2 = @literal{0} -> float_type, {1}, {1}
        r = @param:r -> float_type, {1, 2, 2}, {4, 2, 1}
        w = @param:w -> float_type, {1, 2, 3}, {6, 3, 1}
        x = @param:x -> float_type, {5, 1, 3}, {3, 3, 1}
        @6 = slice[axes={0},starts={0},ends={1}](w) -> float_type, {1, 2, 3}, {6, 3, 1}
        @7 = squeeze[axes={0}](@6) -> float_type, {2, 3}, {3, 1}
        @8 = slice[axes={0},starts={0},ends={1}](r) -> float_type, {1, 2, 2}, {4, 2, 1}
        @9 = squeeze[axes={0}](@8) -> float_type, {2, 2}, {2, 1}
        @10 = transpose[permutation={1, 0}](@7) -> float_type, {3, 2}, {1, 3}
        @11 = multibroadcast[out_lens={5, 3, 2},out_dyn_dims={}](@10) -> float_type, {5, 3, 2}, {0, 1, 3}
        @12 = dot(x,@11) -> float_type, {5, 1, 2}, {2, 2, 1}
        @13 = multibroadcast[out_lens={1, 2},out_dyn_dims={}](@2) -> float_type, {1, 2}, {0, 0}
        @14 = loop[max_iterations=5,scan_output_directions={1}](@1,@0,@13), [main:rnn0]
        @15 = get_tuple_elem[index=1](@14) -> float_type, {5, 1, 2}, {2, 2, 1}
        @16 = unsqueeze[axes={1},steps={}](@15) -> float_type, {5, 1, 1, 2}, {2, 2, 2, 1}
        @17 = slice[axes={0, 1},starts={0, 0},ends={1, 1}](@16) -> float_type, {1, 1, 1, 2}, {2, 2, 2, 1}
        @18 = squeeze[axes={0}](@17) -> float_type, {1, 1, 2}, {2, 2, 1}
        @19 = @return(@18)

        module: "main:rnn0"
        main:rnn0:state0 = @param:state0 -> float_type, {1, 2}, {2, 1}
        main:rnn0:condition = @param:condition -> bool_type, {1}, {1}
        main:rnn0:step = @param:step -> int64_type, {1}, {1}
        main:rnn0:@3 = scan_slice[axis=0,direction=1](@12,main:rnn0:step) -> float_type, {1, 1, 2}, {2, 2, 1}
        main:rnn0:@4 = squeeze[axes={0}](main:rnn0:@3) -> float_type, {1, 2}, {2, 1}
        main:rnn0:@5 = transpose[permutation={1, 0}](@9) -> float_type, {2, 2}, {1, 2}
        main:rnn0:@6 = multibroadcast[out_lens={2, 2},out_dyn_dims={}](main:rnn0:@5) -> float_type, {2, 2}, {1, 2}
        main:rnn0:@7 = dot(main:rnn0:state0,main:rnn0:@6) -> float_type, {1, 2}, {2, 1}
        main:rnn0:@8 = add(main:rnn0:@4,main:rnn0:@7) -> float_type, {1, 2}, {2, 1}
        main:rnn0:@9 = tanh(main:rnn0:@8) -> float_type, {1, 2}, {2, 1}
        main:rnn0:@10 = @return(main:rnn0:condition,main:rnn0:@9,main:rnn0:@9)
    """
    for ins in module:
        if isinstance(ins.op, Recurrent):
            made = ins.op.in_loops(Builder(module, before=ins, origin=ins.origin), list(map(_given, ins.inputs)))
            if ins.op.states == 1:
                substitute(ins, made[0])
            for user in list(ins.users):  # elements of the tuple
                index: int = user.op.attributes()["index"]
                substitute(user, made[index])
                remove_unused(module, [user])
            remove_unused(module, [ins])
    return rewrite(module, [shift_sequence, shift_output, last_output, last_state])
