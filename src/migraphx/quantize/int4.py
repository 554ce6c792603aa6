"""Weights in 4 bits: what is multiplied stays float."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import operation
from migraphx.ir.program import reachable
from migraphx.ir.size import is_open
from migraphx.ops.quantize import PackInt4
from migraphx.passes.constants import is_constant, value_of, without_repeats
from migraphx.runtime.cores import available
from migraphx.runtime.side_by_side import side_by_side

BLOCK = 32
COLUMNS = 64
"""So many columns at a time become codes: what is computed on the way there stays in a core's cache."""
WORTH_THREADS = 1 << 18
"""Weights; fewer are codes before threads begin."""
PACKED = ("float", "half", "bf16")


def pack_weights(main: Module, block: int = BLOCK) -> None:
    """Constant float, half and bf16 weights {K, N} of dots become unpack_int4 and dequantizelinear of packed literals.

    Of dots in `main` and in the modules that it refers to. `block` weights along K share a scale: the largest magnitude
    over 7. Weights whose K is no multiple of it, or that are batched, stay. What half and bf16 weights multiply becomes
    float, and the product what it was. ValueError for a block that is odd or below 2.
    """
    if block < 2 or block % 2:
        raise ValueError(f"int4 weights: the block must be even and positive, is {block}")
    for module in reachable(main):
        made: dict[tuple, Instruction] = {}  # by memory: weights that several dots share are packed once
        for ins in list(module):
            if ins.name != "dot" or ins.shape.type not in PACKED or not is_constant(ins.inputs[1]):
                continue
            x, y = ins.inputs
            if is_open(y.shape.lens):
                continue
            weights = without_repeats(value_of(y))
            k, n = y.shape.lens[-2:]
            if weights.size != k * n or k % block:
                continue
            b = Builder(module, before=ins, origin=ins.origin)
            key = (weights.__array_interface__["data"][0], weights.shape, weights.strides)
            if key not in made:
                made[key] = unpacked(b, weights.reshape(k, n), block)
            wide = b.broadcast_to(made[key], y.shape.lens)
            if x.shape.type == "float":
                module.replace_operation(ins, ins.op, [x, wide])
            else:
                product = b.dot(b.convert(x, target_type="float"), wide)
                module.replace_operation(ins, operation("convert", target_type=x.shape.type), [product])


def unpacked(b: Builder, weights: np.ndarray, block: int) -> Instruction:
    """{K, N} again, from packed literals."""
    k, n = weights.shape
    codes, scale = np.empty((k, n), np.int8), np.empty((k // block, 1, n), np.float32)

    def fill(at: int) -> None:
        some = slice(at, min(at + COLUMNS, n))
        blocks = np.asarray(weights[:, some], np.float32).reshape(k // block, block, -1)
        made, scale[..., some] = rounded(blocks)
        codes[:, some] = made.reshape(k, -1)

    side_by_side(fill, range(0, n, COLUMNS), available() if codes.size >= WORTH_THREADS else 1)
    packed = b.unpack_int4(b.literal(PackInt4(axis=0).compute(codes)), axis=0)
    blocks = b.reshape(packed, dims=(k // block, block, n))
    real = b.dequantizelinear(blocks, b.broadcast_to(b.literal(scale), blocks.shape.lens))
    return b.reshape(real, dims=(k, n))


def rounded(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers from -8 to 7 and scales of weights {blocks, block, N}, the scales with a length of 1."""
    largest = np.maximum(blocks.max(1, keepdims=True), -blocks.min(1, keepdims=True))
    scale = np.where(largest > 0, largest / 7, 1).astype(np.float32)
    return np.clip(np.rint(blocks / scale), -8, 7).astype(np.int8), scale
