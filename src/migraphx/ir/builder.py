"""Builder: the one vocabulary in which rules, converters, importers, composites and tests write graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import OPERATIONS, declare_all, operation
from migraphx.ir.shape import broadcast_lens
from migraphx.ir.size import ones_matter

COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Operators that are written in terms of others: name -> function(builder, *inputs, **attributes)."""


def composite(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a composite; it becomes a method of every builder under the function's name."""
    name = fn.__name__.rstrip("_")
    if name in COMPOSITES or name in OPERATIONS:
        raise TypeError(f"{name!r} is declared twice")
    COMPOSITES[name] = fn
    return fn


@dataclass(frozen=True)
class Builder:
    """`b.relu(x)` adds a relu to the module; every operator and every composite is a method.

    New instructions go before `before`, or to the end, and carry `origin`.
    """

    module: Module
    before: Instruction | None = None
    origin: str = ""

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        if name not in OPERATIONS:
            declare_all()
        if name in COMPOSITES:
            return lambda *inputs, **attributes: COMPOSITES[name](self, *inputs, **attributes)
        if name not in OPERATIONS:
            near = get_close_matches(name, [*OPERATIONS, *COMPOSITES], 1)
            raise AttributeError(f"no operator {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

        def add(*inputs: Instruction, modules: Sequence[Module] = (), **attributes: Any) -> Instruction:
            return self.instruction(name, inputs, modules, **attributes)

        return add

    def instruction(
        self, name: str, inputs: Sequence[Instruction], modules: Sequence[Module] = (), **attributes: Any
    ) -> Instruction:
        op = operation(name, **attributes)
        return self.module.add_instruction(op, inputs, modules, before=self.before, origin=self.origin)

    def at(self, before: Instruction | None, origin: str = "") -> Builder:
        """The same builder, inserting before another instruction."""
        return replace(self, before=before, origin=origin or self.origin)

    def literal(self, value: Any, type: str | None = None) -> Instruction:
        """A constant; `type` converts it to a MIGraphX type."""
        array = np.asarray(value, dtypes.to_numpy(type) if type else None)
        return self.module.add_literal(array, self.origin)

    def full(self, value: float | bool, like: Instruction) -> Instruction:
        """A constant of `like`'s type, broadcast to its lens.

        Integers wrap, as sums and products of them do; a float that an integer type cannot hold is a ValueError.
        """
        lens, type = like.shape.lens, like.shape.type
        if isinstance(value, float) and type in dtypes.INTEGERS:
            low, high = dtypes.limits(type)
            if not low <= value < high + 1:
                raise ValueError(f"{value} is no {type}")
        scalar = self.literal(np.full(lens and (1,), value).astype(like.shape.numpy_dtype))
        return self.multibroadcast(scalar, out_lens=lens) if lens else scalar

    def broadcast_to(self, x: Instruction, lens: Sequence[int]) -> Instruction:
        """`x` as `lens` by NumPy's rules; nothing is added when it has them already."""
        with ones_matter(False):  # a dimension of 1 that is made longer may be made 1, too
            already = x.shape.ndim == len(lens) and x.shape.lens == tuple(lens)
        return x if already else self.multibroadcast(x, out_lens=tuple(lens))

    def cast(self, x: Instruction, type: str) -> Instruction:
        """`x` as another element type; nothing is added when it has it already."""
        return x if x.shape.type == type else self.convert(x, target_type=type)

    def common(self, *inputs: Instruction) -> list[Instruction]:
        """The inputs broadcast to their common lens and converted to their common type, as NumPy would."""
        lens = broadcast_lens(*(i.shape.lens for i in inputs))
        type = common_type(*(i.shape.type for i in inputs))
        return [self.broadcast_to(self.cast(i, type), lens) for i in inputs]

    def outputs(self, x: Instruction, n: int) -> list[Instruction]:
        """The `n` elements of a tuple."""
        return [self.get_tuple_elem(x, index=k) for k in range(n)]


def common_type(*types: str) -> str:
    """The narrowest type that holds all: floats over integers over bool, wider over narrower."""
    first, *rest = types
    for other in rest:
        if other == first:
            continue
        pair = {first, other}
        if pair & dtypes.FLOATS and not pair <= dtypes.FLOATS:
            first = next(t for t in pair if t in dtypes.FLOATS)
        elif pair <= dtypes.FLOATS and pair & dtypes.NARROW_FLOATS and not pair & {"float", "double"}:
            first = "float"
        else:
            first = dtypes.from_numpy(np.promote_types(dtypes.to_numpy(first), dtypes.to_numpy(other)))
    return first
