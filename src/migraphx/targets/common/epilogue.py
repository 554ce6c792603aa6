"""Epilogues of contractions, and the geometry of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from migraphx.ir.module import Module
from migraphx.ir.operation import Literal, Operation, Parameter, Return
from migraphx.ir.size import hint_of
from migraphx.targets.common.views import View


@dataclass(frozen=True)
class Epilogue:
    """What is computed of a contraction's result while it is in registers, and where it is stored.

    `module`: a pointwise body, or None to store the result as it is. `reads`: the views of its parameters, None
    for the one that stands for the result. Rows of the matrix are the elements of `row_dims` in order, its
    columns those of `col_dim`; all views have the lens of `write`.
    """

    module: Module | None
    reads: tuple[View | None, ...]
    write: View
    row_dims: tuple[int, ...]
    col_dim: int

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(v for v in self.reads if v is not None)

    @property
    def operators(self) -> list[Operation]:
        """Those of the body."""
        given = (Parameter, Literal, Return)
        return [i.op for i in self.module if not isinstance(i.op, given)] if self.module else []


@dataclass(frozen=True)
class Window:
    """A convolution's or pooling's geometry, its spatial dimensions padded to three with leading ones."""

    size: tuple[int, ...]  # input
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]  # before the first element

    @classmethod
    def of(
        cls,
        size: Sequence[int],
        out: Sequence[int],
        kernel: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
        pad: Sequence[int],
    ) -> Window:
        lead = 3 - len(size)
        ones, zeros = (1,) * lead, (0,) * lead
        return cls(
            (*ones, *size), (*ones, *out), (*ones, *kernel), (*ones, *stride), (*ones, *dilation),
            (*zeros, *pad[: len(size)]),
        )  # fmt: skip

    @property
    def at_hand(self) -> Window:
        """The window at the lengths of this compilation, where it is for many."""
        size, out, pad = (tuple(map(hint_of, n)) for n in (self.size, self.out, self.pad))
        return replace(self, size=size, out=out, pad=pad)
