"""Epilogues: pointwise operators behind a dot or convolution, computed while its result is in registers."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Return, operation
from migraphx.ir.origin import joined
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.passes.interface import Refusals


def fuse_epilogue(module: Module) -> Refusals:
    """Put a dot or convolution and the pointwise that is its only user into one group.

    before:
        module: "main"
        y = @param:y -> float_type, {2, 4}, {4, 1}
        w = @param:w -> float_type, {3, 4}, {4, 1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @3 = dot(x,w) -> float_type, {2, 4}, {4, 1}
        @4 = pointwise(@3,y), [body] -> float_type, {2, 4}, {4, 1}
        @5 = @return(@4)

        module: "body"
        body:x1 = @param:x1 -> float_type, {1}, {0}
        body:x0 = @param:x0 -> float_type, {1}, {0}
        body:@2 = add(body:x0,body:x1) -> float_type, {1}, {0}
        body:@3 = @return(body:@2)

    after:
        module: "main"
        y = @param:y -> float_type, {2, 4}, {4, 1}
        w = @param:w -> float_type, {3, 4}, {4, 1}
        x = @param:x -> float_type, {2, 3}, {3, 1}
        @3 = group[tag=epilogue](x,w,y), [dot_body] -> float_type, {2, 4}, {4, 1}
        @4 = @return(@3)

        module: "dot_body"
        dot_body:x2 = @param:x2 -> float_type, {2, 4}, {4, 1}
        dot_body:x1 = @param:x1 -> float_type, {3, 4}, {4, 1}
        dot_body:x0 = @param:x0 -> float_type, {2, 3}, {3, 1}
        dot_body:@3 = dot(dot_body:x0,dot_body:x1) -> float_type, {2, 4}, {4, 1}
        dot_body:@4 = pointwise(dot_body:@3,dot_body:x2), [body] -> float_type, {2, 4}, {4, 1}
        dot_body:@5 = @return(dot_body:@4)

        module: "body"
        body:x1 = @param:x1 -> float_type, {1}, {0}
        body:x0 = @param:x0 -> float_type, {1}, {0}
        body:@2 = add(body:x0,body:x1) -> float_type, {1}, {0}
        body:@3 = @return(body:@2)
    """
    order = {ins: n for n, ins in enumerate(module)}
    for ins in module:
        if ins.name == "pointwise":
            anchors = [i for i in ins.inputs if i.op.takes_epilogue and len(i.users) == 1 and i.owner is module]
            if anchors and ins.inputs.count(anchors[-1]) == 1:
                _fuse(module, max(anchors, key=order.__getitem__), ins)
    alone = [(ins, _why_alone(ins)) for ins in module if ins.op.takes_epilogue]
    return [Refusal(ins, "fuse_epilogue", why) for ins, why in alone if why]


def _why_alone(ins: Instruction) -> str:
    """Why a dot or convolution has no epilogue; "" where nothing follows it."""
    users = [u for u in ins.users if not isinstance(u.op, Return)]
    if not users:
        return ""
    if len(ins.users) > 1:
        return Refuse("its result is used more than once")
    if users[0].name == "group":
        return Refuse("what follows it is the epilogue of another product")
    if users[0].name == "pointwise":
        return Refuse("the pointwise operator behind it reads it twice")
    return Refuse("what follows it is no pointwise operator")


def _fuse(module: Module, anchor: Instruction, pointwise: Instruction) -> None:
    inputs = list(dict.fromkeys([*anchor.inputs, *(i for i in pointwise.inputs if i is not anchor)]))
    body = Module(f"{anchor.name}_{pointwise.modules[0].name}")
    env = {i: body.add_parameter(f"x{n}", i.shape) for n, i in enumerate(inputs)}
    env[anchor] = body.add_instruction(anchor.op, [env[i] for i in anchor.inputs], origin=anchor.origin)
    result = body.add_instruction(
        pointwise.op, [env[i] for i in pointwise.inputs], pointwise.modules, origin=pointwise.origin
    )
    body.add_return([result])
    group, origin = operation("group", tag="epilogue"), joined((anchor.origin, pointwise.origin))
    fused = module.add_instruction(group, inputs, [body], before=pointwise, origin=origin)
    module.replace(pointwise, fused)
    module.remove(pointwise)
    module.remove(anchor)
