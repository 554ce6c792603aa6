"""Products with weights of 4 bits."""

from __future__ import annotations

import numpy as np

from migraphx.ops.quantize import UnpackInt4
from migraphx.targets.common.lower.packing import int4_operands
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.lowerings import Contraction
from migraphx.targets.gpu.choices import Problem
from migraphx.targets.gpu.costs.products import int4_cost, int4_products
from migraphx.targets.gpu.emit.contract import label_of
from migraphx.targets.gpu.emit.quantized import CHUNK, int4_call
from migraphx.targets.gpu.lower.contractions import call_best, choices_of
from migraphx.targets.gpu.lower.registry import GPU


@GPU.of_contraction("dot_int4")
def dot_int4(ctx: LoweringContext, c: Contraction) -> None:
    rank, origin = len(c.write.lens), c.origin
    a, (codes, scales, *zeros) = int4_operands(ctx, c)
    packed = (
        ctx.packed((*codes[1], "int4 chunks"), lambda: pack_int4_chunks(UnpackInt4(axis=0).compute(codes[0]))),
        *(
            ctx.packed((*key, "columns"), lambda of=value: np.ascontiguousarray(of.T))
            for value, key in (scales, *zeros)
        ),
    )
    block = a.lens[1] // scales[0].shape[0]
    epilogue = c.epilogue(range(rank - 1), rank - 1)
    label = label_of("dot_int4", epilogue)
    facts, shape = choices_of(ctx).facts, (1, a.lens[0], c.write.lens[-1], a.lens[1])
    call_best(
        ctx,
        Problem("dot_int4", (*shape, block), ("float", *(["zeros"] * len(zeros))), label),
        int4_products(shape),
        lambda config: int4_cost(config, shape, facts),
        lambda config: [int4_call(a, packed, block, epilogue, config, label, origin)],
    )


def pack_int4_chunks(codes: np.ndarray) -> np.ndarray:
    """int8 {K, N} from -8 to 7 -> bytes {N, chunks * 32}, as kernels/int4.py states."""
    k, n = codes.shape
    chunks = -(-k // CHUNK)
    wide = np.full((n, chunks * CHUNK), 8, np.uint8)
    wide[:, :k] = (codes + np.int8(8)).T.view(np.uint8)
    low, high = wide.reshape(n, chunks, 2, 4, CHUNK // 8).transpose(2, 0, 1, 4, 3)
    return (low | high << 4).reshape(n, -1)
