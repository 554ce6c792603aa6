"""Channels last: convolutions and pooling run on values {N, C, spatial...} whose memory is {N, spatial..., C}."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operation
from migraphx.ir.shape import Shape, permuted
from migraphx.ops.movement import Concat, Reshape, Transpose
from migraphx.ops.pointwise import Pointwise
from migraphx.passes.rewrite import refresh
from migraphx.passes.shapes import same_memory

RANKS = (3, 4, 5)


def channels_last(ndim: int) -> tuple[int, ...]:
    """The permutation {0, 2, ..., 1}."""
    return (0, *range(2, ndim), 1)


def is_image(shape: Shape) -> bool:
    """Whether channels are innermost and pixels follow each other, with gaps perhaps: a slice of channels is one."""
    n, c, *spatial = shape.lens
    pixel = next((s for k, s in zip(reversed(spatial), reversed(shape.strides), strict=False) if k > 1), c)
    wide = permuted(shape.type, (n, pixel, *spatial), channels_last(shape.ndim))
    return same_memory(shape, wide) and pixel >= c


def layout(module: Module) -> None:
    """Put a `layout` before each spatial operator whose input is not channels-last already.

    The operators between (pointwise, concat, pad, reductions) keep the layout that they get, so a chain of
    convolutions has one `layout` at its start; where such an operator meets a value in another order (a
    residual from outside), that value is laid out likewise. Behind a transpose (pixels become tokens) channels are in
    another place, and nothing is laid out for their sake. A slice of channels is an image as it is, and channels that
    change places (a shuffle) do so within each pixel. A picture of one channel gets a `layout` that moves nothing, so
    that what is computed of it is channels-last. Weights stay: the target packs them anyhow.
    Refuses ranks other than 3 to 5, and what is not float or integer data of one type.

    before:
        x = @param:x -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        w = @param:w -> float_type, {2, 2, 1, 1}, {2, 1, 1, 1}
        y = @param:y -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        @3 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,w)
        @4 = relu(@3)
        @5 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](@4,w)
        @6 = add(@5,y)
        @7 = reduce_mean[axes={2, 3}](@6)
        @8 = reshape[dims={1, 2}](@7)
        @9 = @return(@8)

    after:
        x = @param:x -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        w = @param:w -> float_type, {2, 2, 1, 1}, {2, 1, 1, 1}
        y = @param:y -> float_type, {1, 2, 4, 4}, {32, 16, 4, 1}
        @3 = layout[permutation={0, 2, 3, 1}](x) -> float_type, {1, 2, 4, 4}, {32, 1, 8, 2}
        @4 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](@3,w)
        @5 = relu(@4) -> float_type, {1, 2, 4, 4}, {32, 1, 8, 2}
        @6 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](@5,w)
        @7 = layout[permutation={0, 2, 3, 1}](y) -> float_type, {1, 2, 4, 4}, {32, 1, 8, 2}
        @8 = add(@6,@7) -> float_type, {1, 2, 4, 4}, {32, 1, 8, 2}
        @9 = reduce_mean[axes={2, 3}](@8) -> float_type, {1, 2, 1, 1}, {2, 1, 2, 2}
        @10 = reshape[dims={1, 2}](@9)
        @11 = @return(@10)
    """
    made: dict[Instruction, Instruction] = {}
    flow: set[Instruction] = set()  # channels-last because a spatial operator is
    for ins in module:
        if ins.shape.ndim not in RANKS or not ins.inputs:
            continue
        wanted = ins.inputs[:1] if ins.op.spatial else _those_in_other_order(ins, flow)
        if (shuffled := _shuffled(module, ins, flow)) is not None:
            module.replace(ins, shuffled)
            flow.add(shuffled)
            refresh(shuffled.users)
            continue
        if ins.op.spatial or (any(i in flow for i in ins.inputs) and not isinstance(ins.op, Transpose)):
            flow.add(ins)
        unclear = ins.op.spatial and _other_order(ins)  # of one channel or one pixel both orders are the same memory
        other = [i for i in wanted if unclear or _other_order(i)]
        if not other:
            continue
        inputs = [_laid_out(module, i, ins, made) if i in other else i for i in ins.inputs]
        module.replace_operation(ins, ins.op, inputs, ins.modules)
        refresh(ins.users)


def _those_in_other_order(ins: Instruction, flow: set[Instruction]) -> list[Instruction]:
    """The inputs to lay out because another input is channels-last; broadcast ones have no say."""
    if not isinstance(ins.op, (Pointwise, Concat)):  # these give their inputs' layout where all share it
        return []
    if not any(i in flow and not _other_order(i) and not i.shape.standard for i in ins.inputs):
        return []
    return [i for i in ins.inputs if not i.shape.broadcasted]


def _other_order(ins: Instruction) -> bool:
    return ins.shape.ndim in RANKS and not is_image(ins.shape)


def _shuffled(module: Module, ins: Instruction, flow: set[Instruction]) -> Instruction | None:
    """A reshape that makes channels of what channels of an image became: the same pixel by pixel, in its order."""
    if not isinstance(ins.op, Reshape):
        return None
    x, rank = ins.inputs[0], ins.shape.ndim
    source, spatial = x, rank - 2
    while _keeps_pixels(source, spatial):
        source = source.inputs[0]
    if source is x or source not in flow or source.shape.ndim != rank or source.shape.standard or _other_order(source):
        return None
    if x.shape.ndim <= rank or not _keeps_pixels(ins, spatial):
        return None
    channels = range(1, x.shape.ndim - spatial)
    pixels = (0, *range(x.shape.ndim - spatial, x.shape.ndim))
    moved = module.add_instruction(operation("transpose", permutation=(*pixels, *channels)), [x], before=ins)
    n, c, *lens = ins.shape.lens
    made = module.add_instruction(operation("reshape", dims=(n, *lens, c)), [moved], before=ins, origin=ins.origin)
    back = (0, rank - 1, *range(1, rank - 1))
    return module.add_instruction(operation("transpose", permutation=back), [made], before=ins)


def _keeps_pixels(ins: Instruction, spatial: int) -> bool:
    """Whether a view leaves the first dimension and the last ones, as many as `spatial`, where they are."""
    if not isinstance(ins.op, (Reshape, Transpose)):
        return False
    before, after = ins.inputs[0].shape, ins.shape
    if isinstance(ins.op, Transpose):
        order, rank = ins.op.permutation, after.ndim
        return order[:1] == (0,) and order[-spatial:] == tuple(range(rank - spatial, rank))
    return before.lens[:1] == after.lens[:1] and before.lens[-spatial:] == after.lens[-spatial:]


def _laid_out(module: Module, x: Instruction, user: Instruction, made: dict[Instruction, Instruction]) -> Instruction:
    if x not in made:
        op = operation("layout", permutation=channels_last(x.shape.ndim))
        made[x] = module.add_instruction(op, [x], before=user, origin=x.origin)
    return made[x]
