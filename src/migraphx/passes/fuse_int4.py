"""Dots whose weights are unpacked from 4 bits take them packed."""

from __future__ import annotations

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.passes.constants import is_constant, scalar_of, value_of


def fuse_int4(module: Module) -> None:
    """dot(x, dequantize(unpack_int4(codes))) -> dot_int4(x, codes, scales), with one scale a block along the depth.

    before:
        x = @param:x -> float_type, {2, 4}, {4, 1}
        @1 = @literal{-31, 18} -> int8_type, {2, 1}, {1, 1}
        @2 = @literal{0.5, 0.25} -> float_type, {2, 1, 1}, {1, 1, 1}
        @3 = unpack_int4[axis=0](@1)
        @4 = reshape[dims={2, 2, 1}](@3)
        @5 = multibroadcast[out_lens={2, 2, 1},out_dyn_dims={}](@2)
        @6 = dequantizelinear(@4,@5)
        @7 = reshape[dims={4, 1}](@6)
        @8 = dot(x,@7)
        @9 = @return(@8)

    after:
        @0 = @literal{0.5, 0.25} -> float_type, {2, 1}, {1, 1}
        x = @param:x -> float_type, {2, 4}, {4, 1}
        @2 = @literal{-31, 18} -> int8_type, {2, 1}, {1, 1}
        @3 = dot_int4(x,@2,@0) -> float_type, {2, 1}, {1, 1}
        @4 = @return(@3)
    """
    made: dict[Instruction, Instruction] = {}  # scales {blocks, N}, which several dots may share
    for ins in module:
        found = _packed(ins.inputs[1]) if ins.name == "dot" and ins.shape.type == "float" else None
        if found is not None:
            codes, scales = found
            b = Builder(module, before=ins, origin=ins.origin)
            if scales not in made:  # a copy, as a length of 1 may have any stride
                made[scales] = b.literal(np.array(value_of(scales)[:, 0], order="C"))
            module.replace(ins, b.dot_int4(ins.inputs[0], codes, made[scales]))


def _packed(y: Instruction) -> tuple[Instruction, Instruction] | None:
    """The packed codes {K / 2, N} and the scales {blocks, block, N} of weights {.., K, N}."""
    if y.name == "multibroadcast":
        y = y.inputs[0]
    if y.name != "reshape" or y.shape.ndim != 2 or y.inputs[0].name != "dequantizelinear":
        return None
    blocks, scales, *zero = y.inputs[0].inputs
    if blocks.name != "reshape" or blocks.shape.ndim != 3 or (zero and scalar_of(zero[0]) != 0):
        return None
    unpack = blocks.inputs[0]
    signed = unpack.name == "unpack_int4" and unpack.shape.type == "int8" and unpack.shape.ndim == 2
    if not signed or unpack.op.attributes()["axis"] not in (0, -2) or unpack.shape.lens != y.shape.lens:
        return None
    constant = is_constant(unpack.inputs[0]) and is_constant(scales)
    shared = scales.shape.lens[1] == 1 or scales.shape.strides[1] == 0
    return (unpack.inputs[0], scales) if constant and shared else None
