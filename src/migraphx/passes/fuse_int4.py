"""Dots of weights that are unpacked from 4 bits read them packed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.ops.quantize import PackInt4
from migraphx.passes.constants import computed, is_constant, without_repeats
from migraphx.passes.interface import Refusals


def fuse_int4(module: Module) -> Refusals:
    """dot(x, dequantize(unpack_int4(codes))) -> dot_int4(x, codes, scales, zeros), one scale a block along the depth.

    The weights may be {K, N} or, transposed, {N, K}, their codes signed or not.

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
    made: dict[Int4Weights, list[Instruction]] = {}  # several dots may share them
    refusals: list[Refusal[Instruction]] = []
    for ins in module:
        found = _packed(ins.inputs[1]) if ins.name == "dot" and ins.shape.type == "float" else None
        if found is not None:
            b = Builder(module, before=ins, origin=ins.origin)
            if found not in made:
                operands = found.operands()
                if isinstance(operands, Refuse):
                    refusals.append(Refusal(ins, "fuse_int4", operands))
                    continue
                made[found] = [b.literal(o) if isinstance(o, np.ndarray) else o for o in operands]
            module.replace(ins, b.dot_int4(ins.inputs[0], *made[found]))
    return refusals


@dataclass(frozen=True)
class Int4Weights:
    """Weights {blocks, block, N}, or {N, blocks, block} where `transposed`, dequantized from constant codes."""

    blocks: Instruction
    unpack: Instruction
    transposed: bool

    def operands(self) -> list[np.ndarray | Instruction] | Refuse:
        """Packed codes {K / 2, N}, scales {blocks, N} and, unless all are 0, zeros."""
        given = [computed(i) for i in self.blocks.inputs[1:]]
        if any(v is None or without_repeats(v).shape[self._within] != 1 for v in given):
            return Refuse("a block of its weights has several scales, or they are not constant")
        scales, *zeros = (np.array(self._by_block(v), order="C") for v in given if v is not None)
        signed = self.unpack.shape.type == "int8"
        if not signed:
            if any((z > 127 + 8).any() for z in zeros):
                return Refuse("the zero points of its weights are no int8")
            zeros = [(z.astype(np.int16) - 8).astype(np.int8) for z in zeros] or [np.full(scales.shape, -8, np.int8)]
        codes = self.unpack.inputs[0]
        as_is = signed and is_constant(codes) and not self.transposed and self.unpack.op.attributes()["axis"] in (0, -2)
        return [codes if as_is else self._repacked(), scales, *(z for z in zeros if z.any())]

    @property
    def _within(self) -> int:
        return 2 if self.transposed else 1

    def _by_block(self, wide: np.ndarray) -> np.ndarray:
        """{blocks, N}"""
        return wide[:, :, 0].T if self.transposed else wide[:, 0]

    def _repacked(self) -> np.ndarray:
        codes = computed(self.unpack)
        assert codes is not None
        signed = codes if codes.dtype == np.int8 else codes.astype(np.int8) - np.int8(8)
        return PackInt4(axis=0).compute(signed.T if self.transposed else signed)


def _packed(y: Instruction) -> Int4Weights | None:
    """The weights {.., K, N} of a dot as what they are unpacked from."""
    if y.name == "multibroadcast":
        y = y.inputs[0]
    transposed = y.name == "transpose" and y.op.attributes()["permutation"] == (1, 0)
    if transposed:
        y = y.inputs[0]
    if y.name != "reshape" or y.shape.ndim != 2 or y.inputs[0].name != "dequantizelinear":
        return None
    codes = y.inputs[0].inputs[0]
    columns = 0 if transposed else -1
    if codes.name != "reshape" or codes.shape.ndim != 3 or codes.shape.lens[columns] != y.shape.lens[columns]:
        return None
    unpack = codes.inputs[0]
    if unpack.name != "unpack_int4" or unpack.shape.lens != y.shape.lens or computed(unpack.inputs[0]) is None:
        return None
    return Int4Weights(y.inputs[0], unpack, transposed)
