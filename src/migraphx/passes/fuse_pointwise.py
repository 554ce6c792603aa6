"""Pointwise operators become kernels, as few and as large as possible."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal
from migraphx.passes.grouping import Grouping, body_names, body_of, put
from migraphx.passes.interface import Refusals


def fuse_pointwise(module: Module) -> Refusals:
    """Pointwise operators of equal lens that lead to one result become one `pointwise`.

    A lone operator becomes one with a body of one operator, so that targets lower one form only. Numbers go
    into the body; broadcasts and other views stay outside. Refuses to compute a value twice: an operator
    whose result is used outside stays a kernel of its own (a convert to a wider type apart, which is free).

    before:
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {3}, {1}
        @2 = @literal{0.5} -> float_type, {1}, {1}
        @3 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](y)
        @4 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](@2)
        @5 = add(x,@3)
        @6 = mul(@5,@4)
        @7 = sigmoid(@6)
        @8 = mul(@6,@7)
        @9 = @return(@8)

    after:
        module: "main"
        x = @param:x -> float_type, {2, 3}, {3, 1}
        y = @param:y -> float_type, {3}, {1}
        @2 = multibroadcast[out_lens={2, 3},out_dyn_dims={}](y)
        @3 = pointwise(x,@2), [main:pointwise0] -> float_type, {2, 3}, {3, 1}
        @4 = @return(@3)

        module: "main:pointwise0"
        main:pointwise0:@0 = @literal{0.5} -> float_type, {1}, {0}
        main:pointwise0:x1 = @param:x1 -> float_type, {1}, {0}
        main:pointwise0:x0 = @param:x0 -> float_type, {1}, {0}
        main:pointwise0:@3 = add(main:pointwise0:x0,main:pointwise0:x1)
        main:pointwise0:@4 = mul(main:pointwise0:@3,main:pointwise0:@0)
        main:pointwise0:@5 = sigmoid(main:pointwise0:@4)
        main:pointwise0:@6 = mul(main:pointwise0:@4,main:pointwise0:@5)
        main:pointwise0:@7 = @return(main:pointwise0:@6)
    """
    names, refusals = body_names(module, "pointwise"), list[Refusal[Instruction]]()
    for group in Grouping(module).groups():
        if group.space is None:
            refusals += [Refusal(ins, "fuse_pointwise", why) for ins, why in group.refused.items()]
            put(module, group, "pointwise", body_of(group, next(names)))
    return refusals
