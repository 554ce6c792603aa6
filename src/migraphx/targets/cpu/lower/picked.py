"""Products with some of several constant matrices, which are read where they lie: the experts that a token takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from migraphx.ir.module import Instruction
from migraphx.ir.size import divides, is_open, least_of
from migraphx.targets.common.lowering import LoweringContext, described
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.indexing import simple_call
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.quantized import picked_gemm_call
from migraphx.targets.cpu.emit.structs import Gather
from migraphx.targets.cpu.lower.registry import features_of
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.panels import zeros
from migraphx.targets.cpu.pack.vnni import pack_vnni

PICKED = ("float", "half", "bf16", "double")
SWAPPED = (0, 2, 1)


@dataclass(frozen=True)
class Picked:
    """The second operand {T, K, N} of a dot: matrices of constants {E, K, N} that the indices {T} of a gather name."""

    gather: Instruction
    matrices: np.ndarray
    key: tuple

    @property
    def indices(self) -> Instruction:
        return self.gather.inputs[1]


def picked(ctx: LoweringContext, operand: Instruction) -> Picked | None:
    """What a dot's second operand picks; None where it is no gather of constants, or others read that too."""
    swapped = operand.name == "transpose" and operand.op.attributes()["permutation"] == SWAPPED
    gather = operand.inputs[0] if swapped else operand
    if not is_picked(ctx, gather):
        return None
    constant = ctx.constant(gather.inputs[0])
    assert constant is not None
    value, key = constant
    return Picked(gather, value.transpose(SWAPPED), (*key, "swapped")) if swapped else Picked(gather, value, key)


def is_picked(ctx: LoweringContext, ins: Instruction) -> bool:
    """Whether matrices that `ins` gathers are read by dots alone, which take them as they lie."""
    if ins.name != "gather" or ins.shape.ndim != 3 or ins.shape.type not in PICKED or is_open(ins.shape.lens[1:]):
        return False
    constant = ctx.constant(ins.inputs[0])
    along = ins.op.attributes()["axis"] in (0, -3) and ins.inputs[1].shape.ndim == 1
    if constant is None or constant[0].ndim != 3 or not along or ins in ctx.output_views or not ins.shape.elements:
        return False
    if ins.shape.type == "bf16" and features_of(ctx).bf16_words and any(n % 2 for n in ins.shape.lens[1:]):
        return False  # pairs along the depth, whichever that is
    return bool(ins.users) and all(of_dot for user in ins.users for of_dot in _of_dots(ins, user))


def _of_dots(ins: Instruction, user: Instruction) -> Iterator[bool]:
    """Of each use by `user`: whether `ins` is a dot's second operand there, perhaps transposed."""
    if user.name == "transpose" and user.op.attributes()["permutation"] == SWAPPED and user.users:
        for reader in user.users:
            yield _is_second(user, reader)
    else:
        yield _is_second(ins, user)


def _is_second(value: Instruction, user: Instruction) -> bool:
    if user.name == "dot":
        return user.inputs[1] is value and user.inputs[0] is not value
    if user.name != "group" or list(user.inputs).count(value) != 1:
        return False
    parameter = list(user.modules[0].parameters.values())[list(user.inputs).index(value)]
    return [(u.name, list(u.inputs).index(parameter)) for u in parameter.users] == [("dot", 1)]


def stand_in(ctx: LoweringContext, ins: Instruction) -> View:
    """A view for what is not gathered, which nothing reads."""
    source = ctx.view(ins.inputs[0])
    return replace(source, lens=ins.shape.lens, strides=(0, *source.strides[1:]))


def picked_dot(ctx: LoweringContext, c: Contraction, of: Picked) -> None:
    """a {T, M, K} times, for each of the T, the matrix that is picked; packed ahead, all of them."""
    a, origin, nr = ctx.view(c.operands[0]), c.origin, features_of(ctx).panel
    batches, m, k = a.lens
    n = c.write.lens[-1]
    words = a.type == "bf16" and features_of(ctx).bf16_words
    each = 2 if words else 1
    if a.strides[-1] != 1 or not all(divides(each, s) for s in a.strides[:2]):
        a = ctx.standard(a, origin)
    if words:
        packed = ctx.packed((*of.key, "picked words"), lambda: pack_vnni(of.matrices, nr))
    else:
        packed = ctx.packed((*of.key, "picked"), lambda: _pack(of.matrices, nr))
    experts = len(of.matrices)
    size = packed.elements // experts
    read = replace(packed, lens=(least_of(batches, experts), size), strides=(size, 1))  # at most, of all that there is
    sizes = (batches, m, n, k // each, a.strides[1] // each, a.strides[0] // each, size)
    call = picked_gemm_call(a, read, picks_of(ctx, of), sizes, c.epilogue((0, 1), 2), words, ctx.fast_math, origin)
    ctx.call(call)


def picks_of(ctx: LoweringContext, of: Picked) -> View:
    """The indices, counted from the front; one that is out of range is reported, and 0 here."""
    experts = len(of.matrices)
    message = f"{described(of.gather)}: an index is out of range for a length of {experts}"
    numbers_of = ctx.packed(("counted", experts), lambda: _counted(experts))
    indices = ctx.standard(ctx.view(of.indices), of.gather.origin)
    picks = ctx.temporary(replace(of.indices.shape.as_standard(), type="int64"))
    numbers = Numbers()
    fill = Gather(1, experts, 1, indices.elements, ctx.check(message)).cpp(numbers)
    head, writes = f"gather(t, {fill}, p0, p1, p2, p3);", (picks, ctx.status)
    ctx.call(simple_call(head, (numbers_of, indices), writes, numbers, "gather", of.gather.origin, gathers=True))
    return picks


def _counted(experts: int) -> np.ndarray:
    made = zeros((experts,), np.int64)
    made[:] = range(experts)
    return made


def _pack(matrices: np.ndarray, nr: int) -> np.ndarray:
    """{E, K, N} -> {E, ceil(N / NR), K, NR}"""
    experts, k, n = matrices.shape
    made = zeros((experts, -(-n // nr), k, nr), matrices.dtype)
    for to, matrix in zip(made, matrices, strict=True):
        to[...] = pack_dot(matrix, nr)
    return made
