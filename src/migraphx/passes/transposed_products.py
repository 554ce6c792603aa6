"""Transposed convolutions of dequantized numbers are convolutions: those have products of integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ops.convolution import ConvolutionBackwards, both_sides
from migraphx.passes.constants import broadcast_literal
from migraphx.passes.simplify_qdq import Weights, activation, quantized_weights, shallow


def transposed_products(module: Module) -> None:
    """convolution_backwards(dequantize(x), dequantize(w)) -> convolution, whose channels are put side by side.

    Of s * s neighbouring results each is a convolution of the same inputs with other taps: together they are one
    convolution with s * s times the channels, zeros where a tap is missing. Left alone is what `simplify_qdq` would
    leave in floats: weights that are not constant codes with one scale an output channel, too few inputs.

    before:
        @0 = @literal{1, 2, 3, 4, 5, 6} -> int8_type, {3, 1, 2}, {2, 2, 1}
        @1 = @literal{0.5} -> float_type, {1}, {1}
        x = @param:x -> int8_type, {1, 3, 4}, {12, 4, 1}
        @3 = multibroadcast[out_lens={1, 3, 4},out_dyn_dims={}](@1)
        @4 = dequantizelinear(x,@3)
        @5 = multibroadcast[out_lens={3, 1, 2},out_dyn_dims={}](@1)
        @6 = dequantizelinear(@0,@5)
        @7 = convolution_backwards[padding={0},stride={2},dilation={1},padding_mode=0,group=1](@4,@6)
        @8 = @return(@7)

    after:
        @0 = @literal{1, 3, 5, 2, 4, 6} -> int8_type, {2, 3, 1}, {3, 1, 1}
        @1 = @literal{0.5} -> float_type, {1}, {1}
        @2 = @literal{0.5} -> float_type, {1}, {1}
        x = @param:x -> int8_type, {1, 3, 4}, {12, 4, 1}
        @4 = multibroadcast[out_lens={1, 3, 4},out_dyn_dims={}](@2)
        @5 = dequantizelinear(x,@4)
        @6 = multibroadcast[out_lens={2, 3, 1},out_dyn_dims={}](@1)
        @7 = dequantizelinear(@0,@6)
        @8 = convolution[padding={0, 0},stride={1},dilation={1},group=1,padding_mode=0](@5,@7)
        @9 = reshape[dims={1, 1, 2, 1, 4}](@8)
        @10 = transpose[permutation={0, 1, 3, 4, 2}](@9)
        @11 = reshape[dims={1, 1, 8}](@10)
        @12 = slice[axes={2},starts={0},ends={8}](@11)
        @13 = @return(@12)
    """
    for ins in module:
        if not isinstance(ins.op, ConvolutionBackwards):
            continue
        weights = quantized_weights(ins.inputs[1], 1, ins.op.group)
        if isinstance(weights, Weights) and not shallow(ins) and activation(ins.inputs[0], ins.name) is not None:
            module.replace(ins, _convolution(Builder(module, before=ins, origin=ins.origin), ins, ins.op, weights))


@dataclass(frozen=True)
class _Axis:
    """One dimension: results `stride` apart read `taps` inputs that lie side by side, of weights {taps * stride}.

    Of the full output, `before` elements are left out, and `length` are kept.
    """

    stride: int
    taps: int
    before: int
    length: int


def _convolution(b: Builder, ins: Instruction, op: ConvolutionBackwards, weights: Weights) -> Instruction:
    x, (_, channels, *kernel) = ins.inputs[0], weights.lens
    dims = zip(kernel, op.stride, op.dilation, both_sides(op.padding, len(kernel)), ins.shape.lens[2:], strict=True)
    axes = [_Axis(s, -(-(d * (k - 1) + 1) // s), p[0], n) for k, s, d, p, n in dims]
    split = _by_place(b, ins.inputs[1], weights, op, axes)
    rank = len(axes)
    pads = tuple(a.taps - 1 for a in axes)
    ones = (1,) * rank
    y = b.convolution(x, split, padding=(*pads, *pads), stride=ones, dilation=ones, group=op.group)
    n, _, *places = y.shape.lens
    y = b.reshape(y, dims=(n, op.group, *(a.stride for a in axes), channels, *places))
    order = (0, 1, 2 + rank, *(k for axis in range(rank) for k in (3 + rank + axis, 2 + axis)))
    y = b.transpose(y, permutation=order)
    y = b.reshape(y, dims=(n, channels * op.group, *(a.stride * m for a, m in zip(axes, places, strict=True))))
    spatial = tuple(range(2, 2 + rank))
    return b.slice(y, axes=spatial, starts=[a.before for a in axes], ends=[a.before + a.length for a in axes])


def _by_place(b: Builder, w: Instruction, weights: Weights, op: ConvolutionBackwards, axes: list[_Axis]) -> Instruction:
    """Weights {strides * O, C / group, taps} of the results at each place within a stride, dequantized.

    The channels of a place lie together, as they do in the result's memory: so they are moved as one.
    """
    c, channels, *kernel = weights.lens
    rank, each = len(axes), prod(a.stride for a in axes)
    point = np.broadcast_to(weights.zeros, (1, channels, *(1,) * rank))
    codes = np.broadcast_to(point, (c, channels, *(a.taps * a.stride for a in axes))).copy()
    at = tuple(slice(0, d * (k - 1) + 1, d) for k, d in zip(kernel, op.dilation, strict=True))
    codes[(..., *at)] = weights.codes
    parted = codes.reshape(op.group, c // op.group, channels, *(n for a in axes for n in (a.taps, a.stride)))
    taps, places = (range(first, first + 2 * rank, 2) for first in (3, 4))
    parted = np.flip(parted, tuple(taps)).transpose(0, *places, 2, 1, *taps)
    lens = (op.group * channels * each, c // op.group, *(a.taps for a in axes))

    def by_output(values: np.ndarray) -> Instruction:
        repeated = np.tile(values.reshape(-1), op.group * each if values.size > 1 else 1)
        return broadcast_literal(b, repeated.reshape(-1, *(1,) * (rank + 1)), lens)

    given = [by_output(weights.scale.astype(w.shape.numpy_dtype))]
    if weights.zeros.any():
        given.append(by_output(weights.zeros))
    return b.dequantizelinear(b.literal(np.ascontiguousarray(parted.reshape(lens))), *given)
