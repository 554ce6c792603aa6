"""The table of steps that a program's code runs by: what its words mean, for those who read it.

A saved program needs no more of its lowering than this. `codegen.py` writes the table, `program.hpp` runs by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from migraphx.targets.cpu.headers import enumerators

if TYPE_CHECKING:
    from migraphx.targets.common.views import View

FLOW = enumerators("Flow", "program.hpp")
NO_KERNEL = -1
ABI = "6"  # of objects and tables: counts on when what `mgx_run` takes or what a table holds changes


class Head(NamedTuple):
    """What a table begins with; the words of each part are those of its struct in program.hpp."""

    steps: int
    entries: int


class Step(NamedTuple):
    kernel: int
    numbers: int
    places: int
    count: int
    work: int


class Move(NamedTuple):
    slot: int
    phase: int
    mask: int
    step: int


class Place(NamedTuple):
    entry: int
    offset: int
    moves: int
    count: int


HEAD, STEP, PLACE, MOVE = (len(part._fields) for part in (Head, Step, Place, Move))


@dataclass(frozen=True)
class Layout:
    """Numbers of the entries of the pointer table: arena, status, inputs, outputs, weights, in this order."""

    inputs: int
    outputs: int
    weights: int

    def entry(self, view: View) -> int:
        if view.buffer.kind in ("arena", "status"):
            return ("arena", "status").index(view.buffer.kind)
        start = {"input": 2, "output": 2 + self.inputs, "weight": self.first_weight}
        return start[view.buffer.kind] + view.buffer.index

    @property
    def first_weight(self) -> int:
        return 2 + self.inputs + self.outputs

    @property
    def size(self) -> int:
        return self.first_weight + self.weights

    def names(self) -> list[str]:
        """What each entry is."""
        kinds = ("input", self.inputs), ("output", self.outputs), ("weight", self.weights)
        return ["arena", "status", *(f"{kind} {k}" for kind, count in kinds for k in range(count))]


def steps_in(table: np.ndarray) -> int:
    """How many steps a table has."""
    return _head(table).steps


def _head(table: np.ndarray) -> Head:
    return Head(*table[:HEAD].tolist())


def steps_words(table: np.ndarray) -> np.ndarray:
    """The steps {steps, words of a Step}."""
    start = HEAD + _head(table).entries
    return table[start : start + STEP * steps_in(table)].reshape(-1, STEP)


def sizes_in(table: np.ndarray) -> list[int]:
    """Bytes that every entry of the pointer table must at least hold."""
    return table[HEAD : HEAD + _head(table).entries].tolist()


def table_text(table: np.ndarray, layout: Layout) -> list[str]:
    """A table in lines for people: the buffers' bytes, then each step with its numbers, its work and its views."""
    sizes, names = sizes_in(table), layout.names()
    lines = ["bytes: " + ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))]
    kinds = {number: name.lower() for name, number in FLOW.items()}
    for n, step in enumerate(Step(*words) for words in steps_words(table).tolist()):
        found = [Place(*p) for p in table[step.places : step.places + PLACE * step.count].reshape(-1, PLACE).tolist()]
        values = table[step.numbers : found[0].moves if found else step.places].tolist()  # what follows the numbers
        what = f"k{step.kernel}" if step.kernel != NO_KERNEL else kinds[values[0]]
        lines.append(f"step {n}: {what} ({', '.join(map(str, values))}), {step.work} ns")
        lines += [f"    p{k}: {_place_text(table, names, place)}" for k, place in enumerate(found)]
    return lines


def _place_text(table: np.ndarray, names: Sequence[str], place: Place) -> str:
    terms = [names[place.entry], *([str(place.offset)] if place.offset else [])]
    for slot, phase, mask, step in table[place.moves : place.moves + MOVE * place.count].reshape(-1, MOVE).tolist():
        trip = f"(trip {slot} + {phase})" if phase else f"trip {slot}"
        terms.append(f"{trip if mask == -1 else f'({trip} & {mask})'} * {step}")
    return " + ".join(terms)
