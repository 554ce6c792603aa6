"""Programs that are compiled once for many lengths, by targets that can."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from threading import Lock, Thread
from typing import Any, Protocol

import numpy as np

from migraphx.ir.program import Program
from migraphx.ir.ranges import ranges
from migraphx.ir.shape import Shape
from migraphx.ir.size import Sizes
from migraphx.runtime.executable import Executable
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.beside import begin_beside
from migraphx.targets.common.specialise import specialise, split

log = logging.getLogger(__name__)
Lens = Mapping[str, tuple[int, ...]]
MOST_FORMS = 64  # of one program: behind them it is compiled for each length
REFUSES = (ValueError, NotImplementedError)
"""What shape rules, importers and targets raise on purpose: of lengths that do not fit, or of what they cannot do."""


class Memory(Protocol):
    """What keeps memory for runs, and can give it back."""

    def release(self) -> None: ...


class Form(Protocol):
    """A program compiled for all lengths of which some guards hold; `memory` is for runs of it and of others."""

    @property
    def memory(self) -> Memory: ...
    @property
    def parameters(self) -> Mapping[str, Shape]:
        """Their lens are made of sizes."""
        ...

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What a file holds of it: JSON data and named tensors; None: nothing."""
        ...

    def executable(self, lengths: Sequence[int], wishes: bool = True) -> Executable | None:
        """The program for these lengths of its symbols, in microseconds; None where a guard does not hold.

        `wishes`: None also where a program that was compiled at these lengths would go other ways, and be faster.
        """
        ...


class FormCompiler(Protocol):
    """A target that compiles a program, whose lens are made of sizes, for many lengths; None where it cannot."""

    def form(self, program: Program, options: CompileOptions, sizes: Sizes) -> Form | None: ...


Found = tuple[Executable, Form]
"""The program for some lengths, and the form that it was made of."""


class Forms:
    """What a region was compiled for so far: a form serves all lengths that its guards allow.

    Where its wishes do not hold, it serves until a better one has been compiled in a thread beside, which `improve`
    starts; then `improved` is called.
    """

    def __init__(
        self,
        compiler: FormCompiler,
        options: CompileOptions,
        program: Callable[[], Program],
        parameters: Mapping[str, Shape],
        improved: Callable[[], None] = lambda: None,
    ) -> None:
        """`program` is asked for when there is something to compile."""
        self._compiler, self._options, self._improved = compiler, options, improved
        self._program, self._parameters = program, parameters
        self._open = open_dimensions(parameters)
        self._forms: list[Form] = []
        self.improving: Thread | None = None
        self._wanted: Sequence[int] | None = None  # lengths at which another form would be faster
        self._lock = Lock()  # of one compilation at a time: the next may find the form that it needs
        self._tries = 0
        self._compiled_at: set[tuple[int, ...]] = set()  # lengths, whether or not a form came of it
        self._longest: list[int] = []  # of each symbol so far
        self.waited = 0
        """Runs that waited for a compilation."""

    def __len__(self) -> int:
        return len(self._forms)

    def release(self) -> None:
        for form in list(self._forms):
            form.memory.release()

    def __iter__(self) -> Iterator[Form]:
        return iter(list(self._forms))

    def keep(self, form: Form) -> None:
        """A form of a file; ValueError where it is for other parameters."""
        kinds = [{n: (s.type, s.ndim) for n, s in own.items()} for own in (form.parameters, self._parameters)]
        if kinds[0] != kinds[1]:
            raise ValueError("the code is for other parameters than the program's")
        self._forms.append(form)

    def find(self, lens: Lens) -> Found | None:
        """A form at these lengths, in microseconds; None where there is none yet."""
        lengths = self._lengths(lens) if self._forms else None
        if lengths is None:
            return None
        found = self._serving(lengths)
        if found is not None and any(s.lens != lens[n] for n, s in found[0].parameters.items()):
            raise ValueError("the code is for other dimensions than the program's")  # that of a file
        return found

    def _serving(self, lengths: Sequence[int]) -> Found | None:
        """The form that is best at these lengths, or, while a better one is compiled, one that is right."""
        found = self._at(lengths, wishes=True)
        if found is None:
            found = self._at(lengths, wishes=False)
            if found is not None:
                self._wanted = lengths
        return found

    def _at(self, lengths: Sequence[int], wishes: bool) -> Found | None:
        made = ((form.executable(lengths, wishes), form) for form in self._forms)
        return next(((found, form) for found, form in made if found is not None), None)

    def improve(self) -> None:
        """Compile a form at lengths that asked for a better one, in a thread of its own, one at a time.

        Called behind a run: the first one of these lengths has all of the cores.
        """
        lengths, self._wanted = self._wanted, None
        if lengths is None or self._tries >= MOST_FORMS or (self.improving is not None and self.improving.is_alive()):
            return

        def make() -> None:
            with self._lock:
                self._make(lengths, wishes=True)
            self._improved()

        log.info("other ways are faster at lengths like %s: compiling beside", lengths)
        self.improving = begin_beside(make)

    def made(self, lens: Lens) -> Found | None:
        """A form at these lengths, compiled where there is none; None where the program must be compiled for them."""
        lengths = self._lengths(lens)
        if lengths is None:
            return None
        with self._lock:
            found = self.find(lens)
            if found is None and self._tries < MOST_FORMS:
                self.waited += 1
                found = self._make(lengths, wishes=False)
        return found

    def at_least_one(self, lens: Lens) -> None:
        """Compile a form at these lengths where there is none yet."""
        if not self._forms:
            self.made(lens)

    def _lengths(self, lens: Lens) -> list[int] | None:
        """The length of each symbol; None where two dimensions of one symbol differ, or there are more or fewer."""
        if any(len(lens[n]) != s.ndim for n, s in self._parameters.items()):
            return None
        found: dict[Hashable, int] = {}
        for symbol, name, k in self._open:
            if found.setdefault(symbol, lens[name][k]) != lens[name][k]:
                return None
        return list(found.values())

    def _make(self, lengths: Sequence[int], wishes: bool) -> Found | None:
        """Compile a form that serves these lengths, and where its wishes count, one whose wishes hold.

        A length of 1 is one of many (a batch) until it was another: what is compiled at 2 serves 1, too, unless the
        program computes 1 in its own way.
        """
        self._longest = [max(pair) for pair in zip(lengths, self._longest or lengths, strict=True)]
        most = {s: ranges(self._parameters[n])[k].max for s, n, k in self._open}
        pairs = zip(lengths, self._longest, most.values(), strict=True)
        general = [2 if longest == 1 < end else n for n, longest, end in pairs]
        for hints in (tuple(general), tuple(lengths)):
            if hints in self._compiled_at:
                continue
            self._compiled_at.add(hints)
            self._add(hints)
            found = self._at(lengths, wishes=True) if wishes else self._serving(lengths)
            if self._tries >= MOST_FORMS or found is not None:
                return found
        return None

    def _add(self, lengths: Sequence[int]) -> None:
        """A new form, compiled at these lengths; none where something refuses them, or sizes in their place.

        Whoever compiles the program for these lengths alone is told what is wrong. What needs a plain number gets one.
        """
        start, sizes = time.perf_counter(), Sizes()
        self._tries += 1
        try:
            shapes = symbolic_shapes(self._parameters, self._open, lengths, sizes)
            made = specialise(self._program().main, shapes, {})
            form = self._compiler.form(made.program, self._options, sizes) if split(made).whole else None
        except REFUSES as error:
            log.info("not compiled for all lengths: %s", error)
            return
        if form is None:
            self._tries = MOST_FORMS
            return
        self._forms.append(form)
        log.info("compiled for lengths like %s in %.2f s", lengths, time.perf_counter() - start)


Open = list[tuple[Hashable, str, int]]


def open_dimensions(parameters: Mapping[str, Shape]) -> Open:
    """The dimensions of parameters that are ranges: symbol, parameter, dimension. Those of one name have one symbol."""
    every = ((n, k, d) for n, s in parameters.items() for k, d in enumerate(ranges(s)))
    return [(d.symbol or (n, k), n, k) for n, k, d in every if not d.is_fixed]


def symbolic_shapes(
    parameters: Mapping[str, Shape], dimensions: Open, lengths: Sequence[int], sizes: Sizes
) -> dict[str, Shape]:
    """The parameters' shapes, made of a size for each symbol of `dimensions`, in order, at these lengths."""
    symbols: dict[Hashable, int] = {}
    made = {n: [d.min for d in ranges(s)] for n, s in parameters.items()}
    for symbol, name, k in dimensions:
        if symbol not in symbols:
            d = ranges(parameters[name])[k]
            symbols[symbol] = sizes.symbol(str(symbol), lengths[len(symbols)], d.min, d.max)
        made[name][k] = symbols[symbol]
    return {n: Shape(s.type, tuple(made[n])) for n, s in parameters.items()}
