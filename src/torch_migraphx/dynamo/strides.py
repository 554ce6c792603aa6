"""Outputs with the strides that AOTAutograd was promised while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx


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
