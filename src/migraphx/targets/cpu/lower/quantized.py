"""Products of narrow types."""

from __future__ import annotations

import numpy as np

from migraphx.ir.refusal import Refuse
from migraphx.ops.quantize import UnpackInt4
from migraphx.targets.common.constants import shared_matrix
from migraphx.targets.common.lower.packing import int4_operands
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.cpu.emit.quantized import int4_gemm_call
from migraphx.targets.cpu.lower.contractions import convolution, dot
from migraphx.targets.cpu.lower.registry import CPU, features_of
from migraphx.targets.cpu.lower.vnni import groups_fill_lanes, vnni_convolution, vnni_dot
from migraphx.targets.cpu.pack.dot import pack_dot
from migraphx.targets.cpu.pack.int4 import pack_int4_panels

NO_INT8_WEIGHTS = Refuse("the weights are no constant int8")


@CPU.of_contraction("quant_dot")
def quant_dot(ctx: LoweringContext, c: Contraction) -> None:
    """By quant.hpp where the weights are constant int8, else as a dot of wider integers."""
    constant, rank = ctx.constant(c.operands[1]), len(c.write.lens)
    matrix = None if constant is None else shared_matrix(constant[0])
    if matrix is None or matrix.dtype != np.int8:
        ctx.refuse(c.anchor, "8-bit products", NO_INT8_WEIGHTS)
        dot(ctx, c)
        return
    vnni_dot(ctx, ctx.view(c.operands[0]), matrix, c.epilogue(range(rank - 1), rank - 1), "quant_dot", c.origin)


@CPU.of_contraction("quant_convolution")
def quant_convolution(ctx: LoweringContext, c: Contraction) -> None:
    """By quant.hpp where the weights are constant int8 and groups are of whole quads, else in wider integers."""
    constant, attributes = ctx.constant(c.operands[1]), c.anchor.op.attributes()
    if constant is None or constant[0].dtype != np.int8 or not groups_fill_lanes(constant[0], attributes["group"]):
        whole = constant is None or constant[0].dtype != np.int8
        ctx.refuse(
            c.anchor, "8-bit products", NO_INT8_WEIGHTS if whole else Refuse("its groups are not of whole words")
        )
        convolution(ctx, c)
        return
    epilogue = c.epilogue((0, *range(2, len(c.write.lens))), 1)
    vnni_convolution(ctx, ctx.view(c.operands[0]), *constant, attributes, epilogue, "quant_convolution", c.origin)


@CPU.of_contraction("dot_int4")
def dot_int4(ctx: LoweringContext, c: Contraction) -> None:
    rank, origin = len(c.write.lens), c.origin
    a, (codes, scales, *zeros) = int4_operands(ctx, c)
    unpacked, nr = UnpackInt4(axis=0).compute, features_of(ctx).panel
    m, k = a.lens
    block = k // scales[0].shape[0]
    packed = (
        ctx.packed((*codes[1], "int4", block), lambda: pack_int4_panels(codes[0], block, nr, unpacked)),
        *(ctx.packed((*key, "dot"), lambda of=value: pack_dot(of, nr)) for value, key in (scales, *zeros)),
    )
    sizes = (m, c.write.lens[-1], k, a.strides[0], block)
    epilogue = c.epilogue(range(rank - 1), rank - 1)
    ctx.call(int4_gemm_call(a, packed, sizes, epilogue, ctx.fast_math, origin))
