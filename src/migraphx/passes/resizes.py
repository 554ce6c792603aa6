"""Rules about resized images: they are written once, in the order of what reads them, or not at all.

`simplify_reshapes` applies them with its own.
"""

from __future__ import annotations

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import likely_less
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.vision import Resize
from migraphx.passes.rewrite import Rule, rewrites

Answer = Instruction | Refuse


@rewrites(lambda b, x: b.layout(b.resize(x)))
def layout_of_resize(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """layout(resize(x)) -> resize(layout(x)) where x is smaller: a resize keeps the order that it gets"""
    resize = root.inputs[0]
    if len(resize.users) > 1:
        return Refuse("others read the resized image in its own order")
    if not likely_less(x.shape.elements, root.shape.elements):
        return Refuse("the image does not grow")
    if resize.op.infer(root.op.infer(x.shape)) != root.shape:
        return Refuse("x is so small that it lies in several orders at once")
    return b.resize(b.layout(x, **root.op.attributes()), **resize.op.attributes())


@rewrites(lambda b, x: b.resize(x))
def resize_of_one(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """resize(x) -> broadcast(x) where x has one element along all that is resampled, and arithmetic reads it"""
    assert isinstance(root.op, Resize)
    if not root.op.repeats(x.shape.lens):
        return Mismatch("its elements differ")
    if not all(isinstance(user.op, Pointwise) for user in root.users):
        return Refuse("what reads it would copy a broadcast")
    return b.multibroadcast(x, out_lens=root.shape.lens)


RESIZES: list[Rule] = [layout_of_resize, resize_of_one]
