"""Operators that the standard previews."""

from __future__ import annotations

import math

from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import Graph, OnnxError, element_type
from migraphx.onnx.registry import converter
from migraphx.ops.composites.products import shared_heads, swapped

Value = Instruction


@converter("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    b: OnnxBuilder,
    q: Value,
    k: Value,
    v: Value,
    *,
    scale: float | None = None,
    score_mod: Graph | None = None,
    prob_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> Value:
    """softmax(score_mod(q k^T * scale)) v, the probabilities through prob_mod (2412.05496).

    The softmax and what follows is computed in float at least.
    """
    if not q.shape.ndim == k.shape.ndim == v.shape.ndim == 4:
        raise OnnxError("takes q, k and v of four dimensions")
    factor = 1 / math.sqrt(q.shape.lens[3]) if scale is None else scale
    root = math.sqrt(factor)
    left, right = (b.mul(x, b.full(root, x)) for x in (q, shared_heads(b, q, k)))
    least = "double" if q.shape.type == "double" else "float"
    wide = least if softmax_precision is None else element_type(softmax_precision)
    scores = b.cast(b.matmul(left, swapped(b, right)), wide)
    shares = b.softmax(modified(b, score_mod, scores), axis=3)
    made = b.matmul(modified(b, prob_mod, shares), b.cast(shared_heads(b, q, v), wide))
    return b.cast(made, v.shape.type)


def modified(b: OnnxBuilder, graph: Graph | None, x: Value) -> Value:
    """x through a graph of one input and one output."""
    if graph is None:
        return x
    (made,) = b.subgraph(graph, [x])
    if made.shape.lens != x.shape.lens:
        raise OnnxError(f"graph {graph.name!r} changes lens {x.shape.lens} to {made.shape.lens}")
    return b.cast(made, x.shape.type)
