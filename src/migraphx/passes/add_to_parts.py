"""What is added to a concatenation with a constant is added to its parts."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import is_open
from migraphx.passes.constants import folded, is_constant
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import rewrite, rewrites


@rewrites(lambda b, a: b.add(b.once(b.concat(...)), b.constant("a")))
def add_of_concat(b: Builder, a: Instruction, root: Instruction) -> Instruction | Refuse:
    """concat(c, x) + a -> concat(c + a[:n], x + a[n:]), where c is constant"""
    joined = next(i for i in root.inputs if i.name == "concat")
    axis: int = joined.op.attributes()["axis"] % root.shape.ndim
    lens = [part.shape.lens[axis] for part in joined.inputs]
    if is_open(lens) or not any(is_constant(part) for part in joined.inputs):
        return Mismatch("nothing is known ahead")
    added = [
        folded(b, "add", part, rest) if is_constant(part) else b.add(part, rest)
        for part, rest in zip(joined.inputs, b.split(a, lens, axis), strict=True)
    ]
    return b.concat(*added, axis=axis)


def add_to_parts(module: Module) -> Refusals:
    """Each part is added to where it is computed, in its place: nothing reads and writes the whole once more.

    So it is with the token of a class and the positions of a picture's patches.

    before:
        x = @param:x -> float_type, {2, 3, 4}, {12, 4, 1}
        @1 = @literal{1, 2, 3, 4} -> float_type, {1, 1, 4}, {4, 4, 1}
        @2 = @literal{0, 1, 2, 3} -> float_type, {4, 1}, {1, 1}
        @3 = multibroadcast[out_lens={2, 1, 4},out_dyn_dims={}](@1)
        @4 = multibroadcast[out_lens={2, 4, 4},out_dyn_dims={}](@2)
        @5 = relu(x)
        @6 = concat[axis=1](@3,@5)
        @7 = add(@6,@4)
        @8 = @return(@7)

    after:
        @0 = @literal{1, 2, 3, 4} -> float_type, {4}, {1}
        x = @param:x -> float_type, {2, 3, 4}, {12, 4, 1}
        @2 = @literal{0, 1, 2, 3} -> float_type, {4, 1}, {1, 1}
        @3 = multibroadcast[out_lens={2, 4, 4},out_dyn_dims={}](@2) -> float_type, {2, 4, 4}, {0, 1, 0}
        @4 = relu(x) -> float_type, {2, 3, 4}, {12, 4, 1}
        @5 = slice[axes={1},starts={1},ends={4}](@3) -> float_type, {2, 3, 4}, {0, 1, 0}
        @6 = multibroadcast[out_lens={2, 1, 4},out_dyn_dims={}](@0) -> float_type, {2, 1, 4}, {0, 0, 1}
        @7 = add(@4,@5) -> float_type, {2, 3, 4}, {12, 4, 1}
        @8 = concat[axis=1](@6,@7) -> float_type, {2, 4, 4}, {16, 4, 1}
        @9 = @return(@8)
    """
    return rewrite(module, [add_of_concat])
