"""Programs that are compiled once for many lengths: a table whose entries are sizes, evaluated for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from migraphx.ir.evaluation import Evaluation, read, written
from migraphx.ir.shape import Shape
from migraphx.ir.size import OPEN, Size, Sizes, filled, hint_of
from migraphx.runtime.executable import Step
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.cache import lookup, obtain
from migraphx.targets.common.call import Call
from migraphx.targets.common.plan_memory import Lifetime, plan_memory
from migraphx.targets.common.sections import Outline
from migraphx.targets.common.views import Buffer
from migraphx.targets.cpu.codegen import HEAD, Table, sizes_in
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.executable import CpuExecutable, Idle, Shared, library_of, machine, table_key
from migraphx.targets.cpu.threads import available

ARENA_ENTRY = HEAD  # of a table: the first of the buffers' sizes
T = TypeVar("T")


@dataclass(frozen=True)
class MemoryPlan:
    """Where the buffers of an arena lie, which have at most these sizes."""

    sizes: np.ndarray
    positions: np.ndarray
    total: int


class FormTable:
    """The table of a program for all lengths of which the guards of `sizes` hold.

    `outline`: its shapes and steps are made of sizes, as are the entries of `table`, and the buffers of `lifetimes`.
    """

    def __init__(self, sizes: Sizes, table: Table, outline: Outline, lifetimes: Sequence[Lifetime]) -> None:
        self.outline, self._table = outline, table
        self._sizes, self.lifetimes = sizes, list(lifetimes)
        self._entries = np.array([hint_of(e) for e in table.entries], np.int64)
        numbers = {life.buffer: k for k, life in enumerate(lifetimes)}
        placed = [(entry, numbers[buffer]) for entry, buffer in table.placed]
        self.places, self._owners = np.array(placed, np.int64).reshape(-1, 2).T  # entries of the table, buffers
        shapes = [*outline.parameters.values(), *outline.outputs]
        wanted: dict[Size, int] = {}

        def row(value: int) -> int:
            return wanted.setdefault(value, len(wanted)) if isinstance(value, Size) else -1

        self._open = np.array([(k, row(e)) for k, e in enumerate(table.entries) if isinstance(e, Size)], np.int64)
        self._open = self._open.reshape(-1, 2).T
        self._lens = [[(n, row(n)) for n in s.lens] for s in shapes]
        self._buffers = [(b.nbytes, row(b.nbytes)) for b in (life.buffer for life in lifetimes)]
        self._evaluation = Evaluation(sizes, list(wanted))
        self._plans: dict[tuple[int, ...], MemoryPlan] = {}

    def at(self, lengths: Sequence[int], wishes: bool = True) -> tuple[np.ndarray, Outline] | None:
        """Table and outline for these lengths of the symbols; None where a guard does not hold, or a wish."""
        values = self._evaluation.values(lengths, wishes)
        if values is None:
            return None
        plan = self._plan(lengths, values)
        table = self._entries.copy()
        table[self._open[0]] = values[self._open[1]]
        table[self.places] += plan.positions[self._owners]
        table[ARENA_ENTRY] = plan.total
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
        """All of it, from which `read` makes the same again."""
        o, numbers = self.outline, {life.buffer: k for k, life in enumerate(self.lifetimes)}
        shapes = [[[s.type, s.lens] for s in own] for own in (o.parameters.values(), o.outputs)]
        steps = [[s.text, s.kernel, s.origin, s.bytes, s.flops] for s in o.steps]
        lives = [[life.buffer.nbytes, life.first, life.last] for life in self.lifetimes]
        placed = [[entry, numbers[buffer]] for entry, buffer in self._table.placed]
        parts = [self._table.entries, placed, lives, list(o.parameters), shapes, steps, list(o.checks)]
        return written(self._sizes, [*parts, list(o.in_place.items())])

    @classmethod
    def read(cls, text: str) -> FormTable:
        sizes, (entries, placed, lives, names, (given, made), steps, checks, in_place) = read(text)
        shapes, outputs = ([Shape(type, tuple(lens)) for type, lens in own] for own in (given, made))
        lifetimes = [Lifetime(Buffer("arena", n, k), first, last) for k, (n, first, last) in enumerate(lives)]
        table = Table(entries, [(entry, lifetimes[k].buffer) for entry, k in placed])
        parameters = dict(zip(names, shapes, strict=True))
        outline = Outline(parameters, outputs, [Step(*s) for s in steps], checks, 0, dict(in_place))
        return cls(sizes, table, outline, lifetimes)

    def check_weights(self, have: Sequence[int], name: str) -> None:
        """ValueError where they have fewer bytes than the table says."""
        need = sizes_in(self._entries)[2 + len(self.outline.parameters) + len(self.outline.outputs) :]
        if len(have) != len(need) or any(h < n for h, n in zip(have, need, strict=True)):
            raise ValueError(f"{name} was compiled for weights of other sizes than this program's")

    # ---- memory ----

    def memory(self, lengths: Sequence[int]) -> MemoryPlan:
        """Where the arena's buffers lie at these lengths."""
        return self._plan(lengths, self._evaluation.unguarded(lengths))

    def _plan(self, lengths: Sequence[int], values: np.ndarray) -> MemoryPlan:
        """One for lengths up to the next powers of two; where a buffer is larger than there, one of its own."""
        needed = self._nbytes(values)
        key = tuple(1 << max(n - 1, 0).bit_length() for n in lengths)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._planned(self._nbytes(self._evaluation.unguarded(key)))
        return plan if (needed <= plan.sizes).all() else self._planned(needed)

    def _nbytes(self, values: np.ndarray) -> np.ndarray:
        return np.array([values[k] if k >= 0 else n for n, k in self._buffers], np.int64)

    def _planned(self, sizes: np.ndarray) -> MemoryPlan:
        buffers = [Buffer("arena", n, k) for k, n in enumerate(sizes.tolist())]
        total = plan_memory([replace(life, buffer=b) for life, b in zip(self.lifetimes, buffers, strict=True)])
        return MemoryPlan(sizes, np.array([b.position for b in buffers], np.int64), total)

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


class CpuForm:
    """A compiled program for all lengths that its table is for; `memory` serves the runs of all of them."""

    def __init__(
        self, library: Path, table: FormTable, weights: Sequence[np.ndarray], threads: int, isa: str, memory: Idle
    ) -> None:
        self.library, self.table, self.weights = library, table, weights
        self.threads, self.isa = threads, isa
        self.memory, self.parameters = memory, table.outline.parameters
        self._shared = Shared(available(), memory)

    def executable(self, lengths: Sequence[int], wishes: bool = True) -> CpuExecutable | None:
        """The program for these lengths of its symbols; None where a guard does not hold, or a wish, if those count."""
        found = self.table.at(lengths, wishes)
        return found and CpuExecutable(self.library, *found, self.weights, self.threads, self.isa, self._shared)

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As CpuExecutable's: the table of a form is as powerful as code, too."""
        text = self.table.text().encode()
        key = table_key(self.library.stem, text)
        obtain(key, ".form", lambda path: path.write_bytes(text))
        data = {"object": self.library.stem, "form": key, "machine": machine(self.isa), "weights": len(self.weights)}
        tensors = {f"weight.{k}": w for k, w in enumerate(self.weights)}
        codes = {"code": np.fromfile(self.library, np.uint8), "form.code": np.frombuffer(text, np.uint8)}
        return data, tensors | codes


def restore_form(
    data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions, memory: Idle
) -> CpuForm | None:
    """What `CpuForm.sections` described, or None where its code is neither in the local cache nor trusted.

    ValueError where the weights are smaller than its table says: a file may have brought them.
    """
    if data["machine"] != machine(options.isa):
        return None
    library, text = library_of(data, tensors, trust_code), _kept_text(data["form"], data["object"])
    if trust_code and text is None:
        text = tensors["form.code"].tobytes()
    if library is None or text is None:
        return None
    table, weights = FormTable.read(text.decode()), [tensors[f"weight.{k}"] for k in range(data["weights"])]
    table.check_weights([Shape.of(w).bytes for w in weights], library.name)
    return CpuForm(library, table, weights, options.num_threads, options.isa, memory)


def _kept_text(key: str, object: str) -> bytes | None:
    """The text of a form from the cache, where it is one for this object."""
    path = lookup(key, ".form")
    text = None if path is None else path.read_bytes()
    return text if text is not None and table_key(object, text) == key else None


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


def with_plain_kernels(calls: Sequence[Call[Kernel]], sizes: Sizes) -> list[Call[Kernel]]:
    """The calls, no kernel's text made of sizes: where one is, the program is for lengths of those same sizes."""
    made: dict[Kernel, Kernel] = {}
    for call in calls:
        kernel = call.kernel
        if kernel is not None and kernel not in made:
            made[kernel] = kernel if OPEN not in kernel.text else replace(kernel, text=sizes.pinned(kernel.text))
    return [c if c.kernel is None else replace(c, kernel=made[c.kernel]) for c in calls]
