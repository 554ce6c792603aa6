"""Python floats that Dynamo takes for inputs of a graph, with `dynamic=True`: attributes become numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import fx
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import TensorifyState
from torch._guards import CompileContext, Source
from torch.fx.experimental.symbolic_shapes import guard_scalar

_numbers: dict[tuple[int, Source], float] = {}
"""What was made a number, of each code that Dynamo compiles (its frame)."""

_again: set[str] = set()
"""What the graph that Dynamo traces again has numbers for, by AOTAutograd's wish."""


@contextmanager
def specialized_attributes(gm: fx.GraphModule) -> Iterator[None]:
    """Compile floats in that are attributes: a module's epsilon, its scale of attention, `math.pi`. Dynamo guards them.

    Most of what takes them needs numbers, which AOTAutograd finds out at its end; then Dynamo traces all again. Floats
    that are arguments may differ at each call and stay inputs, as does an attribute that has had another value. What
    Dynamo has guarded already is a number in any case. In this context AOTAutograd knows of them.
    """
    before = set(TensorifyState.force_specializations)
    current = CompileContext.current_compile_id()
    frame = -1 if current is None or current.frame_id is None else current.frame_id
    for n in gm.graph.find_nodes(op="placeholder"):
        given = n.meta.get("grapharg")
        value = getattr(n.meta.get("example_value"), "item_memo", None)  # of a tensor that stands for a float
        if isinstance(value, torch.SymFloat) and (value.node.expr.is_number or _is_kept(frame, given.source, value)):
            for item in [u for u in n.users if u.target == "item"]:
                item.replace_all_uses_with(guard_scalar(value))
                gm.graph.erase_node(item)
            TensorifyState.specialize(value.node._expr.name)  # what the input was called, not what it is now
    wanted: set[str] = set()
    try:
        yield
    except TensorifyScalarRestartAnalysis:  # Dynamo traces the graph again, with these and what AOTAutograd added
        wanted = _again | (TensorifyState.force_specializations - before)
        raise
    finally:  # the next graph has names of its own
        TensorifyState.force_specializations &= (before - _again) | wanted
        _again.clear()
        _again.update(wanted)


def _is_kept(frame: int, source: Source, value: torch.SymFloat) -> bool:
    """Whether it is an attribute that had no other value yet."""
    number = value.node.hint
    return isinstance(source, AttrSource) and _numbers.setdefault((frame, source), number) == number
