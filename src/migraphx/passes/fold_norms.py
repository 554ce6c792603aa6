"""Batch norms of narrow floats, which are computed in float, folded into the convolution before them."""

from __future__ import annotations

from math import prod

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ir.size import hint_of
from migraphx.ops.convolution import CONVOLUTIONS, Convolution, ConvolutionBackwards
from migraphx.passes.constants import broadcast_literal, compact, is_constant
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import rewrite, rewrites

NARROW = {"half", "bf16"}


@rewrites(
    lambda b, x, w, a, c: b.convert(
        b.add(
            b.once(b.mul(b.once(b.convert(b.once(b.one_of(CONVOLUTIONS, x, b.constant("w"))))), b.constant("a"))),
            b.constant("c"),
        )
    )
)
def norm_of_convolution(
    b: Builder, x: Instruction, w: Instruction, a: Instruction, c: Instruction, root: Instruction
) -> Instruction | Refuse:
    """narrow(wide(convolution(x, w)) * a + c) -> convolution(x, narrow(w * a)) + narrow(c); of transposed ones, too"""
    type = root.shape.type
    if type not in NARROW or x.shape.type != type or a.shape.type != "float":
        return Mismatch("not a norm of a narrow convolution")
    op = next(u.op for u in w.users if u.name in CONVOLUTIONS)
    assert isinstance(op, Convolution | ConvolutionBackwards)
    if len(w.users) > 1 or w.inputs:
        return Refuse("the weights are shared")
    scale, offset = compact(a), compact(c)
    if not all(v.size == v.shape[1] for v in (scale, offset)):
        return Refuse("the norm is not one for each channel")
    of = dtypes.to_numpy(type)
    with np.errstate(over="ignore"):
        by_output = op.by_output(compact(w).astype(np.float32))
        weights = (by_output * scale.reshape(-1, *(1,) * (w.shape.ndim - 1))).astype(of)
        narrow = offset.astype(of)
    if not all(np.isfinite(v.astype(np.float32)).all() for v in (weights, narrow)):
        return Refuse("the scaled weights or the offset overflow")
    largest = np.abs(weights.astype(np.float32)).max(tuple(range(1, weights.ndim)))
    if ((largest < 2 * dtypes.smallest_normal(type)) & (scale.reshape(-1) != 0)).any():
        return Refuse("the scaled weights underflow")
    scaled = broadcast_literal(b, op.by_output(weights), w.shape.lens)
    folded = b.instruction(op.name, (x, scaled), **op.attributes())
    return b.add(folded, broadcast_literal(b, narrow, root.shape.lens))


LEAST_ROWS = 1024  # of a convolution's results: fewer are no more work than to scale its weights


@rewrites(lambda b, y, a, c: b.convert(b.add(b.once(b.mul(b.once(b.convert(y)), a)), c)))
def norm_of_inputs(
    b: Builder, y: Instruction, a: Instruction, c: Instruction, root: Instruction
) -> Instruction | Refuse:
    """The same where weights or statistics are inputs, whose products the program computes at each run."""
    type = root.shape.type
    alone = y.name == "convolution" and len(y.users) == 1
    if not alone or type not in NARROW or y.shape.type != type or a.shape.type != "float":
        return Mismatch("not a norm of a narrow convolution")
    x, w = y.inputs
    if is_constant(w) and is_constant(a):
        return Mismatch("weights and norm are constants")
    scale, offset = (_by_channel(i) for i in (a, c))
    if scale is None or offset is None:
        return Refuse("the norm is not one for each channel")
    channels = w.shape.lens[0]
    if hint_of(prod(root.shape.lens)) < LEAST_ROWS * channels or y.op.attributes()["group"] > 1:
        return Refuse("the convolution is too small")
    each = b.multibroadcast(b.reshape(scale, dims=(channels, *(1,) * (w.shape.ndim - 1))), out_lens=w.shape.lens)
    scaled = b.convert(b.mul(b.convert(w, target_type="float"), each), target_type=type)
    folded = b.instruction(y.name, (x, scaled), **y.op.attributes())
    return b.add(folded, b.multibroadcast(b.convert(offset, target_type=type), out_lens=root.shape.lens))


@rewrites(
    lambda b, a, c: b.add(b.once(b.add(b.once(b.convolution(...)), a)), b.once(b.add(b.once(b.convolution(...)), c)))
)
def offsets_meet(b: Builder, a: Instruction, c: Instruction, root: Instruction) -> Instruction | Refuse:
    """(p + a) + (q + c) -> (p + q) + (a + c), where norms were folded into the convolutions p and q

    So that one kernel may compute both.
    """
    sums = [next(i for i in side.inputs if i.name == "convolution") for side in root.inputs]
    first, second = _by_channel(a), _by_channel(c)
    scaled = all(i.inputs[1].name == "convert" for i in sums)
    if not scaled or first is None or second is None or first.shape.lens != second.shape.lens:
        return Mismatch("not two convolutions into which norms were folded")
    return b.add(b.add(*sums), b.multibroadcast(b.add(first, second), out_lens=root.shape.lens))


def _by_channel(ins: Instruction) -> Instruction | None:
    """What is broadcast to all images and places, a number for each channel."""
    lens = ins.shape.lens
    if ins.name != "multibroadcast":
        return None
    small = ins.inputs[0]
    own = (1,) * (len(lens) - small.shape.ndim) + tuple(small.shape.lens)
    return small if own == (1, lens[1], *(1,) * (len(lens) - 2)) else None


def fold_norms(module: Module) -> Refusals:
    """A norm goes into the weights and a bias, both rounded once; the product is not rounded before it.

    Libraries add biases to their products, but have no scales; kernels read half as much. Weights that are inputs are
    scaled at each run: a ResNet-50 of 32 images writes 51 MB for it and takes a fifth less time on an H200. That the
    range of half suffices is not known then: scaled weights above it are infinite.

    before:
        x = @param:x -> half_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @1 = @literal{1, 2} -> half_type, {2, 1, 1, 1}, {1, 1, 1, 1}
        @2 = @literal{3, 5} -> float_type, {2, 1, 1}, {1, 1, 1}
        @3 = @literal{7, 9} -> float_type, {2, 1, 1}, {1, 1, 1}
        @4 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@1)
        @5 = convert[target_type=float](@4)
        @6 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@2)
        @7 = mul(@5,@6)
        @8 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@3)
        @9 = add(@7,@8)
        @10 = convert[target_type=half](@9)
        @11 = @return(@10)

    after:
        @0 = @literal{7, 9} -> half_type, {2, 1, 1}, {1, 1, 1}
        @1 = @literal{3, 10} -> half_type, {2, 1, 1, 1}, {1, 1, 1, 1}
        x = @param:x -> half_type, {1, 1, 2, 2}, {4, 4, 2, 1}
        @3 = convolution[padding={0, 0},stride={1, 1},dilation={1, 1},group=1,padding_mode=0](x,@1)
        @4 = multibroadcast[out_lens={1, 2, 2, 2},out_dyn_dims={}](@0)
        @5 = add(@3,@4)
        @6 = @return(@5)
    """
    return rewrite(module, [norm_of_convolution, norm_of_inputs, offsets_meet])
