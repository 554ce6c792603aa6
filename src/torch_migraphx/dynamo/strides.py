"""Outputs with the strides and the shared memory that tracing promised: AOTAutograd and the caller depend on them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from torch_migraphx.fx.tracer.acc_tracer import acc_ops
from torch_migraphx.lower import copied

logger = logging.getLogger(__name__)


def with_strides(gm: fx.GraphModule, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose outputs have the strides of `gm`'s: a backward may view them by those."""
    output = gm.graph.output_node().args[0]
    nodes = output if isinstance(output, tuple | list) else [output]
    wanted = [_strides(n) for n in nodes]

    def restrided(*args: Any) -> list[Any]:
        results = function(*args)
        return [
            x if w is None or x.stride() == w else _laid_out(x, w) for x, w in zip(results, wanted, strict=True)
        ]

    return restrided


def _strides(n: Any) -> tuple[int, ...] | None:
    """What strides an output must have; None where they are known only at run time, and of inputs."""
    value = n.meta.get("val") if isinstance(n, fx.Node) and n.op != "placeholder" else None
    return tuple(value.stride()) if isinstance(value, torch.Tensor) and _known(value) else None


def _laid_out(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy of x with these strides; dimensions of stride 0 hold one element."""
    sizes = x.shape
    for d, s in enumerate(strides):
        if s == 0 and sizes[d] > 1:
            x = x.narrow(d, 0, 1)
    out = torch.empty_strided(x.shape, strides, dtype=x.dtype)
    return out.copy_(x).expand(sizes)


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
        whole = [k for k, v in group if v.nbytes == v.untyped_storage().nbytes() and _dense(v)]
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


def _known(value: torch.Tensor) -> bool:
    return all(isinstance(s, int) for s in (*value.shape, *value.stride(), value.storage_offset()))


def _dense(value: torch.Tensor) -> bool:
    """Whether the elements lie together, each in a place of its own."""
    order = sorted(range(value.ndim), key=lambda d: (value.stride(d), value.shape[d]))
    return value.permute(order[::-1]).is_contiguous()


def in_memory_order(gm: fx.GraphModule) -> tuple[fx.GraphModule, list[Layout]]:
    """A graph with its outputs permuted to be row-major, and what gives each its own strides back."""
    outputs = gm.graph.output_node().args[0]
    layouts = [_layout(n) for n in outputs]  # type: ignore[union-attr]
    if any(layout.order for layout in layouts):
        gm = copied(gm)
        output = gm.graph.output_node()
        with gm.graph.inserting_before(output):
            pairs = zip(output.args[0], layouts, strict=True)  # type: ignore[arg-type]
            made = [_turned(gm.graph, n, layout.order) for n, layout in pairs]
        output.args = (tuple(made),)
    return gm, layouts


@dataclass(frozen=True)
class Layout:
    """An output's place in memory: `order` of its dimensions, or `strides` where it has gaps or is expanded.

    An order of no dimensions: row-major. Both None: unknown strides, an input, no tensor.
    """

    order: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """What the graph gave, laid out so; a piece that runs in torch may have given another order."""
        if self.order is not None:
            x = x.contiguous()
            return x.permute([self.order.index(d) for d in range(x.ndim)]) if self.order else x
        return x if self.strides is None else _laid_out(x, self.strides)


def _turned(graph: fx.Graph, n: Any, order: tuple[int, ...] | None) -> Any:
    if not order:
        return n
    turned = graph.call_function(acc_ops.permute, (), {"input": n, "permutation": order})
    turned.meta = n.meta | {"val": _value(n).permute(order)}
    turned.meta.pop("example_value", None)
    return turned


def _value(n: fx.Node) -> Any:
    return n.meta.get("example_value", n.meta.get("val"))


def _layout(n: Any) -> Layout:
    value = _value(n) if isinstance(n, fx.Node) and n.op != "placeholder" else None
    if not isinstance(value, torch.Tensor) or not _known(value):
        return Layout()
    if value.is_contiguous() or not value.numel():
        return Layout(order=())
    if not _dense(value):
        return Layout(strides=tuple(value.stride()))
    return Layout(order=tuple(sorted(range(value.ndim), key=lambda d: (-value.stride(d), -value.shape[d]))))


def with_layouts(function: Callable[..., Any], layouts: list[Layout]) -> Callable[..., Any]:
    """`function`, whose outputs are laid out so."""
    if all(layout == Layout() for layout in layouts):
        return function

    def call(*args: Any) -> tuple[Any, ...]:
        return tuple(layout.of(x) for x, layout in zip(function(*args), layouts, strict=True))

    return call
