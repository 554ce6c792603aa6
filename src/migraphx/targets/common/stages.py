"""Fused reductions as passes over the reduced elements: which values are per row, and which are kept in the output.

Every reduction belongs to a stage, a pass over the elements that it reduces. A value that a later stage needs, too, is
computed again from the inputs, which are in the cache by then; or it is kept in the output, where that is quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Parameter
from migraphx.ops.pointwise import Pointwise
from migraphx.ops.reduce import Reduction
from migraphx.ops.scalar import Cost
from migraphx.targets.common.views import Loops, View, loops

CHEAP = frozenset({Cost.ARITHMETIC, Cost.MASK})  # words that cost no more than a load


@dataclass(frozen=True)
class Stage:
    """One pass over the elements of a row.

    It computes `values` for each of them, in order, and with them the `reductions`; the last stage has none, where
    the output has every element. `waiting` is the value that it reads from the output instead of computing it again,
    `kept` the one that it leaves there.
    """

    reductions: tuple[Instruction, ...]
    values: tuple[Instruction, ...]
    waiting: Instruction | None = None
    kept: Instruction | None = None


@dataclass(frozen=True)
class FusedReduction:
    """The body of a `fused_reduce` on views.

    `views`: those of the parameters, then the output's, all with the lens of the reduced values' inputs. `kept` and
    `reduced` are the loops over the rows and over the elements of a row, ordered by the strides of view `lead`.
    `holds(type)`: whether memory of the type holds all that is computed in it, so that values can wait there.
    """

    module: Module
    views: tuple[View, ...]
    kept: Loops
    reduced: Loops
    lead: int
    full_output: bool  # an element of output for each reduced one; else one a row
    holds: Callable[[str], bool]

    @classmethod
    def of(
        cls,
        module: Module,
        axes: Sequence[int],
        reads: Sequence[View],
        write: View,
        holds: Callable[[str], bool] = lambda _: False,
    ) -> FusedReduction:
        full = next(i for i in module if isinstance(i.op, Reduction)).inputs[0].shape.lens
        axes = sorted(axes)
        views = (*(v.expanded(full) for v in reads), write.expanded(full) if write.lens != full else write)
        lead = next((k for k, v in enumerate(views) if all(v.strides[a] or full[a] == 1 for a in axes)), 0)
        rows = [d for d in range(len(full)) if d not in axes]
        return cls(module, views, loops(views, lead, rows), loops(views, lead, axes), lead, write.lens == full, holds)

    @property
    def out(self) -> int:
        """The number of the output's view."""
        return len(self.views) - 1

    @property
    def rowwise(self) -> bool:
        """Vectors run along the reduced elements; else across rows, each lane a row of its own."""
        along, across = self.reduced.strides[self.lead][-1], self.kept.strides[self.lead][-1]
        return not (across == 1 and along != 1) or self.kept.lens == (1,)

    @cached_property
    def number(self) -> dict[Instruction, int]:
        """The number of each parameter's view."""
        places = {name: k for k, name in enumerate(self.module.parameters)}
        return {i: places[i.op.parameter] for i in self.module if isinstance(i.op, Parameter)}

    @cached_property
    def level(self) -> dict[Instruction, int]:
        """How many stages must be over before a value is known."""
        found: dict[Instruction, int] = {}
        for ins in self.module:
            found[ins] = max((found[i] for i in ins.inputs), default=0) + isinstance(ins.op, Reduction)
        return found

    @cached_property
    def varies(self) -> dict[Instruction, bool]:
        """Whether a value differs within a row."""
        found: dict[Instruction, bool] = {}
        for ins in self.module:
            if ins in self.number:
                found[ins] = any(self.reduced.strides[self.number[ins]])
            else:
                found[ins] = not isinstance(ins.op, Reduction) and any(found[i] for i in ins.inputs)
        return found

    @cached_property
    def stages(self) -> list[Stage]:
        """The passes in order; the last one computes the output where that has every element."""
        reductions = [i for i in self.module if isinstance(i.op, Reduction)]
        made: list[Stage] = []
        waiting: Instruction | None = None
        for level in range(1, max(self.level[i] for i in reductions) + 1):
            own = tuple(i for i in reductions if self.level[i] == level)
            values = self._computed([i.inputs[0] for i in own], waiting)
            later = [i.inputs[0] for i in reductions if self.level[i] > level]
            kept = self._worth_keeping(values, [*later, *self.module.outputs], waiting) if self.full_output else None
            made.append(Stage(own, values, waiting, kept))
            waiting = kept or waiting
        if self.full_output:
            made.append(Stage((), self._computed(self.module.outputs, waiting), waiting))
        return made

    def _worth_keeping(
        self, values: Sequence[Instruction], roots: Sequence[Instruction], waiting: Instruction | None
    ) -> Instruction | None:
        """The last of a stage's values that the roots need, is expensive to compute again, and fits the output."""
        type = self.views[-1].type
        if not self.holds(type):
            return None
        needed = self._computed(roots, waiting, values)
        kept = [i for i in needed if i in values and i.shape.type == type and self._expensive(i, waiting)]
        return kept[-1] if kept else None

    def _expensive(self, ins: Instruction, waiting: Instruction | None) -> bool:
        again = self._computed([ins], waiting)
        return any(isinstance(i.op, Pointwise) and not i.op.costs <= CHEAP for i in again if i is not waiting)

    def _computed(
        self, roots: Sequence[Instruction], waiting: Instruction | None, known: Sequence[Instruction] = ()
    ) -> tuple[Instruction, ...]:
        """The values that differ within a row and go into the roots, in order, up to the known and what waits."""
        found, ahead = set[Instruction](), list(roots)
        while ahead:
            ins = ahead.pop()
            if self.varies[ins] and ins not in found:
                found.add(ins)
                if ins not in known and ins is not waiting:
                    ahead += ins.inputs
        return tuple(i for i in self.module if i in found)
