"""What a lowered program is at many lengths: numbers made of sizes, and where its buffers lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, overload

import numpy as np

from migraphx.ir.evaluation import Evaluation, read, written
from migraphx.ir.shape import Shape
from migraphx.ir.size import Size, Sizes, filled, hint_of
from migraphx.runtime.executable import Step
from migraphx.targets.common.plan_memory import ALIGNMENT, Lifetime, plan_memory
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.views import Buffer

T = TypeVar("T")


@dataclass(frozen=True)
class MemoryPlan:
    """Where the buffers of an arena lie, which have at most these sizes.

    `entries`: a table's, but for what sizes say, to which `shifts` are added; `open_sizes`: of buffers of open size.
    """

    sizes: np.ndarray
    positions: np.ndarray
    total: int
    entries: np.ndarray
    shifts: np.ndarray
    open_sizes: np.ndarray


class FormTable:
    """The numbers of a program for all lengths of which the guards of `sizes` hold.

    `outline`: its shapes and steps are made of sizes, as are `entries`, and the buffers of `lifetimes`. `placed`: the
    entries that say where something in a buffer lies, which its own place is added to.
    """

    def __init__(
        self,
        sizes: Sizes,
        entries: Sequence[int],
        placed: Sequence[tuple[int, Buffer]],
        outline: Outline,
        lifetimes: Sequence[Lifetime],
        alignment: int = ALIGNMENT,
    ) -> None:
        self.outline, self._alignment, self._written = outline, alignment, list(entries)
        self._sizes, self.lifetimes = sizes, list(lifetimes)
        self.entries = np.array([hint_of(e) for e in entries], np.int64)
        numbers = {life.buffer: k for k, life in enumerate(lifetimes)}
        self._owned = [(entry, numbers[buffer]) for entry, buffer in placed]
        self.places, self._owners = np.array(self._owned, np.int64).reshape(-1, 2).T  # entries of the table, buffers
        shapes = [*outline.parameters.values(), *outline.outputs]
        wanted: dict[Size, int] = {}

        def row(value: int) -> int:
            return wanted.setdefault(value, len(wanted)) if isinstance(value, Size) else -1

        def rows(numbers: Sequence[int]) -> np.ndarray:
            """Which of the numbers are sizes, and their rows."""
            found = [(k, row(n)) for k, n in enumerate(numbers) if isinstance(n, Size)]
            return np.array(found, np.int64).reshape(-1, 2).T

        self._open = rows(entries)
        self._lens = [[(n, row(n)) for n in s.lens] for s in shapes]
        nbytes = [life.buffer.nbytes for life in lifetimes]
        self._bytes, self._open_bytes = np.array([hint_of(n) for n in nbytes], np.int64), rows(nbytes)
        self._evaluation = Evaluation(sizes, list(wanted))
        self._plans: dict[tuple[int, ...], MemoryPlan] = {}

    def at(self, lengths: Sequence[int], wishes: bool = True) -> tuple[np.ndarray, Outline] | None:
        """Entries and outline for these lengths of the symbols; None where a guard does not hold, or a wish."""
        values = self._evaluation.values(lengths, wishes)
        if values is None:
            return None
        plan = self._plan(lengths, values)
        table = plan.entries.copy()
        table[self._open[0]] = values[self._open[1]] + plan.shifts
        found = values.tolist()
        lens = [tuple(found[k] if k >= 0 else n for n, k in own) for own in self._lens]
        shapes = [*self.outline.parameters.values(), *self.outline.outputs]
        made = [Shape(s.type, own) for s, own in zip(shapes, lens, strict=True)]
        names, count = list(self.outline.parameters), len(self.outline.parameters)
        outline = Outline(
            dict(zip(names, made[:count], strict=True)),
            made[count:],
            Late(len(self.outline.steps), lambda: self._steps(lengths)),
            Late(len(self.outline.checks), lambda: [self._filled(c, lengths) for c in self.outline.checks]),
            plan.total,
            self.outline.in_place,
        )
        return table, outline

    # ---- as text ----

    def text(self) -> str:
        """All of it but the alignment, from which `read` makes the same again."""
        o = self.outline
        shapes = [[[s.type, s.lens] for s in own] for own in (o.parameters.values(), o.outputs)]
        steps = [[s.text, s.kernel, s.origin, s.bytes, s.flops] for s in o.steps]
        lives = [[life.buffer.nbytes, life.first, life.last] for life in self.lifetimes]
        parts = [self._written, self._owned, lives, list(o.parameters), shapes, steps, list(o.checks)]
        return written(self._sizes, [*parts, list(o.in_place.items())])

    @classmethod
    def read(cls, text: str) -> FormTable:
        sizes, (entries, placed, lives, names, (given, made), steps, checks, in_place) = read(text)
        shapes, outputs = ([Shape(type, tuple(lens)) for type, lens in own] for own in (given, made))
        buffers = [Buffer("arena", life[0], k) for k, life in enumerate(lives)]
        lifetimes = [Lifetime(b, first, last) for b, (_, first, last) in zip(buffers, lives, strict=True)]
        places: list[tuple[int, Buffer]] = [(entry, buffers[k]) for entry, k in placed]
        parameters = dict(zip(names, shapes, strict=True))
        outline = Outline(parameters, outputs, [Step(*s) for s in steps], checks, 0, dict(in_place))
        return cls(sizes, entries, places, outline, lifetimes)

    # ---- memory ----

    def memory(self, lengths: Sequence[int]) -> MemoryPlan:
        """Where the arena's buffers lie at these lengths."""
        return self._plan(lengths, self._evaluation.unguarded(lengths))

    def _plan(self, lengths: Sequence[int], values: np.ndarray) -> MemoryPlan:
        """One for lengths up to the next powers of two; where a buffer is larger than there, one of its own."""
        key = tuple(1 << max(n - 1, 0).bit_length() for n in lengths)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._planned(self._evaluation.unguarded(key))
        return plan if (values[self._open_bytes[1]] <= plan.open_sizes).all() else self._planned(values)

    def _planned(self, values: np.ndarray) -> MemoryPlan:
        sizes, entries = self._bytes.copy(), self.entries.copy()
        sizes[self._open_bytes[0]] = values[self._open_bytes[1]]
        buffers = [Buffer("arena", n, k) for k, n in enumerate(sizes.tolist())]
        total = plan_memory(
            [replace(life, buffer=b) for life, b in zip(self.lifetimes, buffers, strict=True)], self._alignment
        )
        positions = np.array([b.position for b in buffers], np.int64)
        entries[self.places] += positions[self._owners]
        shifts = (entries - self.entries)[self._open[0]]
        return MemoryPlan(sizes, positions, total, entries, shifts, sizes[self._open_bytes[0]])

    # ---- texts, which are made when somebody asks for them ----

    @cached_property
    def _all(self) -> Evaluation:
        return Evaluation(self._sizes, self._sizes.all)

    def _filled(self, text: str, lengths: Sequence[int]) -> str:
        return filled(text, self._all.exactly(lengths).__getitem__)

    def _steps(self, lengths: Sequence[int]) -> list[Step]:
        values = self._all.exactly(lengths)

        def value(size: int) -> int:
            return values[size.number] if isinstance(size, Size) else size

        return [
            replace(s, text=filled(s.text, values.__getitem__), bytes=value(s.bytes), flops=value(s.flops))
            for s in self.outline.steps
        ]


class Late(Sequence[T]):
    """So many items, made when somebody looks at them."""

    def __init__(self, count: int, make: Callable[[], list[T]]) -> None:
        self._count, self._make = count, make

    @cached_property
    def _items(self) -> list[T]:
        return self._make()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)
