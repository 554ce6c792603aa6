"""Programs that are compiled once for many lengths, by targets that can."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import Protocol

from migraphx.ir.module import Module
from migraphx.ir.program import Program
from migraphx.ir.ranges import ranges
from migraphx.ir.shape import Shape
from migraphx.ir.size import Sizes
from migraphx.runtime.deadline import Deadline
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.specialise import specialise, split

log = logging.getLogger(__name__)
Lens = Mapping[str, tuple[int, ...]]
MOST_FORMS = 64  # of one program: behind them it is compiled for each length


class Memory(Protocol):
    """What keeps memory for runs, and can give it back."""

    def release(self) -> None: ...


class Form(Memory, Protocol):
    """A program compiled for all lengths of which some guards hold."""

    def executable(self, lengths: Sequence[int]) -> Executable | None:
        """The program for these lengths of its symbols, in microseconds; None where a guard does not hold."""
        ...


class FormCompiler(Protocol):
    """A target that compiles a program, whose lens are made of sizes, for many lengths; None where it cannot."""

    def form(self, program: Program, options: CompileOptions, sizes: Sizes) -> Form | None: ...


Found = tuple[Executable, Form]
"""The program for some lengths, and the form that it was made of."""


class Forms:
    """What a region was compiled for so far: a form serves all lengths that its guards allow."""

    def __init__(self, compiler: FormCompiler, options: CompileOptions) -> None:
        self._compiler, self._options = compiler, options
        self._forms: list[Form] = []
        self._lock = Lock()  # of one compilation at a time: the next may find the form that it needs
        self._tries = 0

    def __len__(self) -> int:
        return len(self._forms)

    def release(self) -> None:
        for form in list(self._forms):
            form.release()

    def find(self, module: Module, lens: Lens, deadline: Deadline | None = None) -> Found | None:
        """A form at these lengths, made now where there is none; None where the program must be compiled for them."""
        symbols = symbol_lengths(module, lens)
        if symbols is None:
            return None
        lengths = list(symbols.values())
        found = self._found(lengths)
        if found is not None or self._tries >= MOST_FORMS:
            return found
        if not self._lock.acquire(timeout=-1 if deadline is None else deadline.left):
            assert deadline is not None
            raise deadline.error()
        try:
            return self._found(lengths) or self._made(module, lens, lengths)
        finally:
            self._lock.release()

    def _found(self, lengths: Sequence[int]) -> Found | None:
        for form in self._forms:
            found = form.executable(lengths)
            if found is not None:
                return found, form
        return None

    def _made(self, module: Module, lens: Lens, lengths: Sequence[int]) -> Found | None:
        """A new form. None where something of the program needs plain numbers, or is wrong at these lengths.

        Whoever compiles the program for these lengths alone is told what is wrong.
        """
        start, sizes = time.perf_counter(), Sizes()
        self._tries += 1
        try:
            made = specialise(module, symbolic_shapes(module, lens, sizes), {})
            form = self._compiler.form(made.program, self._options, sizes) if split(made).whole else None
        except Exception as error:
            log.info("not compiled for all lengths: %s", error)
            return None
        if form is None:
            self._tries = MOST_FORMS
            return None
        self._forms.append(form)
        log.info("compiled for lengths like %s in %.2f s", lengths, time.perf_counter() - start)
        return self._found(lengths)


def symbol_lengths(module: Module, lens: Lens) -> dict[Hashable, int] | None:
    """The length of each symbol: dimensions that are ranges, those of one name together; None where two differ."""
    found: dict[Hashable, int] = {}
    for name, ins in module.parameters.items():
        for k, (d, n) in enumerate(zip(ranges(ins.shape), lens[name], strict=True)):
            if not d.is_fixed and found.setdefault(d.symbol or (name, k), n) != n:
                return None
    return found


def symbolic_shapes(module: Module, lens: Lens, sizes: Sizes) -> dict[str, Shape]:
    """The parameters' shapes, made of a symbol for each of `symbol_lengths`, at these lens."""
    symbols: dict[Hashable, int] = {}
    made: dict[str, Shape] = {}
    for name, ins in module.parameters.items():
        own: list[int] = []
        for k, (d, n) in enumerate(zip(ranges(ins.shape), lens[name], strict=True)):
            key = d.symbol or (name, k)
            if not d.is_fixed and key not in symbols:
                symbols[key] = sizes.symbol(str(key), n, d.min, d.max)
            own.append(n if d.is_fixed else symbols[key])
        made[name] = Shape(ins.shape.type, tuple(own))
    return made
