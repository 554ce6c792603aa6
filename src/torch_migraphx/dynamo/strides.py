"""Outputs with the strides that tracing promised: AOTAutograd's views and the caller's depend on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torch_migraphx.lower import copied


def with_strides(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs have the strides of `gm`'s: a backward may view them by those."""
    output = gm.graph.output_node().args[0]
    nodes = output if isinstance(output, tuple | list) else [output]
    wanted = [_strides(n) for n in nodes]
    if all(w is None for w in wanted):
        return function

    def restrided(*args: Any) -> list[Any]:
        results = function(*args)
        return [
            x if w is None or x.stride() == w else _laid_out(x, w) for x, w in zip(results, wanted, strict=True)
        ]

    return restrided


def _strides(n: Any) -> tuple[int, ...] | None:
    """What strides an output must have; None where row-major, or known only at run time."""
    value = n.meta.get("val") if isinstance(n, fx.Node) else None
    if not isinstance(value, torch.Tensor) or any(not isinstance(s, int) for s in (*value.shape, *value.stride())):
        return None
    return None if value.is_contiguous() else tuple(value.stride())


def _laid_out(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy of x with these strides; dimensions of stride 0 hold one element."""
    sizes = x.shape
    for d, s in enumerate(strides):
        if s == 0 and sizes[d] > 1:
            x = x.narrow(d, 0, 1)
    out = torch.empty_strided(x.shape, strides, dtype=x.dtype)
    return out.copy_(x).expand(sizes)


def in_memory_order(gm: fx.GraphModule) -> tuple[fx.GraphModule, list[tuple[int, ...] | None]]:
    """Dynamo's graph with its outputs permuted to be row-major, and what permutes each back.

    None: an output is as it was (row-major, expanded, of unknown strides, an input, no tensor).
    """
    orders = [_order(n) for n in gm.graph.output_node().args[0]]  # type: ignore[union-attr]
    if any(orders):
        gm = copied(gm)
        output = gm.graph.output_node()
        with gm.graph.inserting_before(output):
            made = [_turned(gm.graph, n, o) for n, o in zip(output.args[0], orders, strict=True)]  # type: ignore[arg-type]
        output.args = (tuple(made),)
    return gm, [o and tuple(o.index(d) for d in range(len(o))) for o in orders]


def _turned(graph: fx.Graph, n: Any, order: tuple[int, ...] | None) -> Any:
    if order is None:
        return n
    turned = graph.call_method("permute", (n, order))
    turned.meta = n.meta | {"example_value": n.meta["example_value"].permute(order)}
    return turned


def _order(n: Any) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory to the innermost; None where that is their own order."""
    value = n.meta.get("example_value") if isinstance(n, fx.Node) and n.op != "placeholder" else None
    if not isinstance(value, torch.Tensor) or any(not isinstance(s, int) for s in (*value.shape, *value.stride())):
        return None
    if value.is_contiguous() or 0 in value.stride() or not value.numel():
        return None
    order = tuple(sorted(range(value.ndim), key=lambda d: -value.stride(d)))
    return order if order != tuple(range(value.ndim)) else None


def turned_back(function: Callable[..., Any], backs: list[tuple[int, ...] | None]) -> Callable[..., Any]:
    """`function`, whose outputs are permuted by `backs`."""
    if not any(backs):
        return function

    def call(*args: Any) -> tuple[Any, ...]:
        return tuple(x if b is None else x.permute(b) for x, b in zip(function(*args), backs, strict=True))

    return call
