"""What follows a concatenation of products becomes the epilogue of each."""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.size import is_open
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute


def concat_late(module: Module) -> Refusals:
    """A pointwise kernel that reads products side by side goes before their concatenation.

    So a product of each part of the channels, with windows of several sizes (MixNet), takes its norm and what follows
    along, and writes where the concatenation has it: nothing reads and writes the whole once more.

    before:
        module: "main"
        c = @param:c -> float_type, {5}, {1}
        v = @param:v -> float_type, {3, 3}, {3, 1}
        w = @param:w -> float_type, {3, 2}, {2, 1}
        x = @param:x -> float_type, {4, 3}, {3, 1}
        @4 = dot(x,w)
        @5 = dot(x,v)
        @6 = concat[axis=1](@4,@5)
        @7 = multibroadcast[out_lens={4, 5},out_dyn_dims={}](c)
        @8 = pointwise(@6,@7), [body] -> float_type, {4, 5}, {5, 1}
        @9 = @return(@8)

        module: "body"
        body:x1 = @param:x1 -> float_type, {1}, {0}
        body:x0 = @param:x0 -> float_type, {1}, {0}
        body:@2 = add(body:x0,body:x1) -> float_type, {1}, {0}
        body:@3 = relu(body:@2) -> float_type, {1}, {0}
        body:@4 = @return(body:@3)

    after:
        module: "main"
        c = @param:c -> float_type, {5}, {1}
        v = @param:v -> float_type, {3, 3}, {3, 1}
        w = @param:w -> float_type, {3, 2}, {2, 1}
        x = @param:x -> float_type, {4, 3}, {3, 1}
        @4 = dot(x,w) -> float_type, {4, 2}, {2, 1}
        @5 = dot(x,v) -> float_type, {4, 3}, {3, 1}
        @6 = multibroadcast[out_lens={4, 5},out_dyn_dims={}](c) -> float_type, {4, 5}, {0, 1}
        @7 = slice[axes={1},starts={0},ends={2}](@6) -> float_type, {4, 2}, {0, 1}
        @8 = slice[axes={1},starts={2},ends={5}](@6) -> float_type, {4, 3}, {0, 1}
        @9 = pointwise(@4,@7), [body] -> float_type, {4, 2}, {2, 1}
        @10 = pointwise(@5,@8), [body] -> float_type, {4, 3}, {3, 1}
        @11 = concat[axis=1](@9,@10) -> float_type, {4, 5}, {5, 1}
        @12 = @return(@11)

        module: "body"
        body:x1 = @param:x1 -> float_type, {1}, {0}
        body:x0 = @param:x0 -> float_type, {1}, {0}
        body:@2 = add(body:x0,body:x1) -> float_type, {1}, {0}
        body:@3 = relu(body:@2) -> float_type, {1}, {0}
        body:@4 = @return(body:@3)
    """
    for ins in list(module):
        joined = [i for i in ins.inputs if i.name == "concat"] if ins.name == "pointwise" else []
        if len(joined) == 1 and _joins_products(joined[0]):
            _before(module, joined[0], ins)
    return []


def _joins_products(concat: Instruction) -> bool:
    """Whether its parts are products that nothing else reads, nor the whole more than one instruction."""
    parts, axis = concat.inputs, concat.op.attributes()["axis"]
    alone = len(concat.users) == 1 and all(i.op.takes_epilogue and len(i.users) == 1 for i in parts)
    return alone and len(set(parts)) == len(parts) and not is_open([i.shape.lens[axis] for i in parts])


def _before(module: Module, concat: Instruction, pointwise: Instruction) -> None:
    b, axis = Builder(module, before=pointwise, origin=pointwise.origin), concat.op.attributes()["axis"]
    sizes: list[int] = [part.shape.lens[axis] for part in concat.inputs]
    operands = [concat.inputs if i is concat else b.split(i, sizes, axis) for i in pointwise.inputs]
    made = [b.instruction("pointwise", parts, pointwise.modules) for parts in zip(*operands, strict=True)]
    substitute(pointwise, b.concat(*made, axis=axis))
    remove_unused(module, [pointwise])
