"""Which function lowers which operator, a registry for each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.call import Call
from migraphx.targets.common.epilogue import Epilogue
from migraphx.targets.common.views import View

Lowering = Callable[[Any, Instruction], None]
"""lower(context, instruction): appends the calls to a LoweringContext."""


class Emitter(Protocol):
    """The calls that shared lowerings make; each target writes them in its own kernels."""

    def copy(self, read: View, write: View, origin: str = "") -> Call[Any]:
        """A call that copies one view into another of equal lens and type."""
        ...

    def pointwise(self, module: Module, reads: Sequence[View], write: View, origin: str = "") -> Call[Any]:
        """A call that computes a pointwise body for each element of `write`."""
        ...

    def gather(
        self, data: View, index: View, write: View, status: View, axis: int, check: int, origin: str = ""
    ) -> Call[Any]:
        """A call that picks one row of row-major data along an axis.

        Where the index is out of range it writes `check` and the index to `status`.
        """
        ...


@dataclass(frozen=True)
class Contraction:
    """A dot or convolution, and the pointwise body that finishes it (None: there is none).

    `reads`: the views of the body's parameters, None for the one that stands for the contraction's result.
    """

    anchor: Instruction
    operands: Sequence[Instruction]
    module: Module | None
    reads: tuple[View | None, ...]
    write: View
    origin: str

    def epilogue(self, row_dims: Sequence[int], col_dim: int) -> Epilogue:
        """The body, with these dimensions of the result as the rows and the columns of a matrix."""
        return Epilogue(self.module, self.reads, self.write, tuple(row_dims), col_dim)


ContractionLowering = Callable[[Any, Contraction], None]


class Lowerings:
    """How each operator becomes calls on one target; what the target does not declare, `base` may.

    `body` names the attribute of a user's operator that holds its text for the target.
    """

    def __init__(self, target: str, base: Lowerings | None = None, body: str = "") -> None:
        self.target, self.body = target, body
        self._base = base
        self._custom: Lowering | None = None
        self._operators: dict[str, Lowering] = {}
        self._contractions: dict[str, ContractionLowering] = {}

    def of(self, *names: str) -> Callable[[Lowering], Lowering]:
        """Declare the lowering of operators; TypeError for a second one."""

        def declare(fn: Lowering) -> Lowering:
            for name in names:
                if name in self._operators:
                    raise TypeError(f"{name!r} is lowered twice for target {self.target!r}")
                self._operators[name] = fn
            return fn

        return declare

    def of_contraction(self, name: str) -> Callable[[ContractionLowering], ContractionLowering]:
        """Declare the lowering of a dot or convolution, alone or with an epilogue."""

        def declare(fn: ContractionLowering) -> ContractionLowering:
            def alone(ctx: Any, ins: Instruction) -> None:
                fn(ctx, Contraction(ins, ins.inputs, None, (None,), ctx.result(ins), ins.origin))

            self.of(name)(alone)
            self._contractions[name] = fn
            return fn

        return declare

    def of_custom(self, fn: Lowering) -> Lowering:
        """Declare the lowering of every user's operator that has a body for this target."""
        self._custom = fn
        return fn

    def find(self, ins: Instruction) -> Lowering | None:
        """The lowering of an instruction; None where there is none."""
        if isinstance(ins.op, CustomOperation):
            return self._custom if self.body and getattr(ins.op, self.body, None) else None
        return self._operators.get(ins.name) or (self._base.find(ins) if self._base else None)

    def has(self, name: str) -> bool:
        """Whether an operator has a lowering."""
        return name in self._operators or (self._base is not None and self._base.has(name))

    def refusal(self, ins: Instruction) -> Refusal[Instruction] | None:
        """Why an instruction that the passes are done with has no lowering; None where it has one."""
        if self.find(ins) is not None:
            return None
        hint = f" without a body for it, `{self.body}`" if isinstance(ins.op, CustomOperation) else ""
        return Refusal(ins, f"target {self.target}", f"there is no kernel{hint}")

    def contraction(self, name: str) -> ContractionLowering:
        """The lowering of a dot or convolution with an epilogue."""
        return self._contractions[name]

    def contractions(self) -> set[str]:
        """The names of all dots and convolutions that may have an epilogue."""
        return set(self._contractions)

    def operators(self) -> set[str]:
        """The names of all operators that have a lowering."""
        return self._operators.keys() | (self._base.operators() if self._base else set())


NEUTRAL = Lowerings("common")
"""What all targets share; filled by `migraphx.targets.common.lower`."""
