"""Outputs with the strides and the shared memory that tracing promised: AOTAutograd and the caller depend on them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.converters.shape import dense_order
from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.lower import copied

logger = logging.getLogger(__name__)


def with_strides(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs have the strides of `gm`'s: a caller or a backward may view them by those."""
    values = [_value(n) for n in gm.graph.output_node().args[0]]  # type: ignore[union-attr]
    wanted = [None if v is None else v.stride() for v in values]

    def restrided(*args: Any) -> list[Any]:
        return [
            x if w is None or x.stride() == w else _laid_out(x, w)
            for x, w in zip(function(*args), wanted, strict=True)
        ]

    return restrided


def _value(n: Any) -> torch.Tensor | None:
    """The tensor that an output promises to be; None where its strides are known only at run time, and of inputs."""
    if not isinstance(n, fx.Node) or n.op == "placeholder":
        return None
    value = n.meta.get("val", n.meta.get("example_value"))
    return value if isinstance(value, torch.Tensor) and _known(value) else None


def _known(value: torch.Tensor) -> bool:
    if foreign(value):
        return False
    return all(isinstance(s, int) for s in (*value.shape, *value.stride(), value.storage_offset()))


def _laid_out(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """`x` with these strides, copied where an element has to move; dimensions of stride 0 hold one element."""
    sizes = x.shape
    if all(n == 1 or own == s for n, own, s in zip(sizes, x.stride(), strides, strict=True)):
        return x.as_strided(sizes, strides)
    for d, s in enumerate(strides):
        if s == 0 and sizes[d] > 1:
            x = x.narrow(d, 0, 1)
    out = torch.empty_strided(x.shape, strides, dtype=x.dtype)
    return out.copy_(x).expand(sizes)


def in_memory_order(gm: fx.GraphModule) -> tuple[fx.GraphModule, list[list[int] | None]]:
    """A graph with its outputs permuted to be row-major, as the engine's are, and each one's order of dimensions.

    None: an output is as it was (row-major, with gaps, expanded, of unknown strides, an input, no tensor).
    """
    orders = [_order(n) for n in gm.graph.output_node().args[0]]  # type: ignore[union-attr]
    if any(orders):
        gm = copied(gm)
        output = gm.graph.output_node()
        with gm.graph.inserting_before(output):
            made = [_turned(gm.graph, n, o) for n, o in zip(output.args[0], orders, strict=True)]  # type: ignore[arg-type]
        output.args = (tuple(made),)
    return gm, orders


def _order(n: Any) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None where they are not to be permuted."""
    value = _value(n)
    return None if value is None or value.is_contiguous() else dense_order(value.shape, value.stride())


def _turned(graph: fx.Graph, n: Any, order: list[int] | None) -> Any:
    if order is None:
        return n
    value = _value(n)
    assert value is not None
    turned = graph.call_function(acc_ops.permute, (), {"input": n, "permutation": tuple(order)})
    turned.meta = n.meta | {"val": value.permute(order)}
    turned.meta.pop("example_value", None)
    return turned


def turned_back(function: Callable[..., Any], orders: list[list[int] | None]) -> Callable[..., Any]:
    """`function` of a graph in memory order, its outputs with their dimensions as they were."""
    backs = [o and [o.index(d) for d in range(len(o))] for o in orders]
    if not any(backs):
        return function

    def call(*args: Any) -> list[Any]:
        return [x if b is None else x.permute(b) for x, b in zip(function(*args), backs, strict=True)]

    return call


def with_shared_memory(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs share memory with one another where those of `gm` do: a write to one shows in all.

    One output of a group has to hold all of the memory; else the graph runs in torch, which the log says.
    """
    nodes = gm.graph.output_node().args[0]
    groups: dict[StorageWeakRef, list[tuple[int, torch.Tensor]]] = {}
    for k, n in enumerate(nodes):  # type: ignore[arg-type]
        value = n.meta.get("val") if isinstance(n, fx.Node) else None
        if isinstance(value, torch.Tensor) and _known(value):
            groups.setdefault(StorageWeakRef(value.untyped_storage()), []).append((k, value))
    views: list[tuple[int, int, tuple[int, ...], tuple[int, ...], int]] = []
    for group in (g for g in groups.values() if len(g) > 1):
        full = [(k, v) for k, v in group if v.nbytes == v.untyped_storage().nbytes()]
        whole = [k for k, v in full if dense_order(v.shape, v.stride()) is not None]
        if not whole or len({v.dtype for _, v in group}) > 1:
            logger.warning("a graph runs in torch: its outputs share memory, which none of them holds whole")
            return gm.forward
        others = [(k, v) for k, v in group if k != whole[0]]
        views += [(k, whole[0], tuple(v.shape), v.stride(), int(v.storage_offset())) for k, v in others]
    if not views:
        return function

    def sharing(*args: Any) -> list[Any]:
        results = list(function(*args))
        for k, base, shape, stride, offset in views:
            results[k] = results[base].as_strided(shape, stride, results[base].storage_offset() + offset)
        return results

    return sharing
