"""Weights in 4 bits: what is multiplied stays float."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program, reachable
from migraphx.ops.quantize import PackInt4
from migraphx.passes.constants import is_constant, value_of, without_repeats

BLOCK = 32


def pack_weights(program: Program, block: int = BLOCK) -> None:
    """Constant float weights {K, N} of dots become unpack_int4 and dequantizelinear of packed literals.

    `block` weights along K share a scale: the largest magnitude over 7. Weights whose K is no multiple of it, or
    that are batched, stay. ValueError for a block that is odd or below 2.
    """
    if block < 2 or block % 2:
        raise ValueError(f"int4 weights: the block must be even and positive, is {block}")
    for module in reachable(program.main):
        made: dict[tuple, Instruction] = {}  # by memory: weights that several dots share are packed once
        for ins in list(module):
            if ins.name != "dot" or ins.shape.type != "float" or not is_constant(ins.inputs[1]):
                continue
            x, y = ins.inputs
            weights = without_repeats(value_of(y))
            k, n = y.shape.lens[-2:]
            if weights.size != k * n or k % block:
                continue
            b = Builder(module, before=ins, origin=ins.origin)
            key = (weights.__array_interface__["data"][0], weights.shape, weights.strides)
            if key not in made:
                made[key] = unpacked(b, weights.reshape(k, n), block)
            module.replace_operation(ins, ins.op, [x, b.broadcast_to(made[key], y.shape.lens)])


def unpacked(b: Builder, weights: np.ndarray, block: int) -> Instruction:
    """{K, N} again, from packed literals."""
    k, n = weights.shape
    codes, scale = rounded(weights.reshape(k // block, block, n))
    packed = b.unpack_int4(b.literal(PackInt4(axis=0).compute(codes.reshape(k, n))), axis=0)
    blocks = b.reshape(packed, dims=(k // block, block, n))
    real = b.dequantizelinear(blocks, b.broadcast_to(b.literal(scale), blocks.shape.lens))
    return b.reshape(real, dims=(k, n))


def rounded(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers from -8 to 7 and scales of weights {blocks, block, N}, the scales with a length of 1."""
    largest = np.abs(blocks).max(1, keepdims=True)
    scale = np.where(largest > 0, largest / 7, 1).astype(np.float32)
    return np.clip(np.rint(blocks / scale), -8, 7).astype(np.int8), scale
