"""Products of complex tensors, as products of their parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torch_migraphx.fx.graph_info import value_of

aten = torch.ops.aten


def rewrite_complex_ops(gm: fx.GraphModule) -> fx.GraphModule:
    """Complex products of an ATen graph become real ones, and pairs that were made complex for them stay pairs.

    Changes `gm` and returns it.
    """
    rewrite_complex_mul(gm)
    return remove_complex_real_ops(gm)


def rewrite_complex_mul(gm: fx.GraphModule) -> fx.GraphModule:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i, for each product of two complex tensors."""
    for n in list(gm.graph.nodes):
        operands = n.all_input_nodes
        if n.target is not aten.mul.Tensor or len(n.args) != 2 or not all(isinstance(a, fx.Node) for a in n.args):
            continue
        if not all(_is_complex(i) for i in operands):
            continue
        with gm.graph.inserting_before(n):
            (a, b), (c, d) = (_parts(gm.graph, x) for x in n.args)

            def binary(op: Any, x: fx.Node, y: fx.Node) -> fx.Node:
                return gm.graph.call_function(op, (x, y))

            real = binary(aten.sub.Tensor, binary(aten.mul.Tensor, a, c), binary(aten.mul.Tensor, b, d))
            imaginary = binary(aten.add.Tensor, binary(aten.mul.Tensor, a, d), binary(aten.mul.Tensor, b, c))
            pair = gm.graph.call_function(aten.stack.default, ([real, imaginary], -1))
            product = gm.graph.call_function(aten.view_as_complex.default, (pair,))
        product.meta = dict(n.meta)
        n.replace_all_uses_with(product)
        gm.graph.erase_node(n)
    gm.recompile()
    return gm


def _is_complex(n: fx.Node) -> bool:
    known: Any = value_of(n)
    known = n.meta.get("tensor_meta") if known is None else known
    dtype = getattr(known, "dtype", None)
    return dtype is not None and dtype.is_complex


def _parts(graph: fx.Graph, x: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The real and the imaginary part."""
    pair = graph.call_function(aten.view_as_real.default, (x,))
    real, imaginary = (graph.call_function(aten.select.int, (pair, -1, k)) for k in (0, 1))
    return real, imaginary


def remove_complex_real_ops(gm: fx.GraphModule) -> fx.GraphModule:
    """Who reads the pairs of a tensor that was made complex from pairs reads those pairs. Changes `gm`."""
    for n in list(gm.graph.nodes):
        if n.target is aten.view_as_real.default and n.args[0].target is aten.view_as_complex.default:
            n.replace_all_uses_with(n.args[0].args[0])
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
