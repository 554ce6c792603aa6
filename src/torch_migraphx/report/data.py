"""The content of a report, apart from how it is shown."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

ORIGIN = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>.+)")


@dataclass(frozen=True)
class Place:
    """A line of Python, from the text `file:line in function`; `code` is what stands there, "" where it is gone."""

    file: str
    line: int
    function: str

    @classmethod
    def of(cls, origin: str) -> Place:
        found = ORIGIN.fullmatch(origin)
        return cls(found["file"], int(found["line"]), found["function"]) if found else cls(origin, 0, "")

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True)
class Line:
    """A node or an instruction; `in_torch` says why it does not run in the engine, "" where it does.

    A `leaf` computes nothing: an input or a constant.
    """

    text: str
    origins: tuple[str, ...] = ()
    in_torch: str = ""
    leaf: bool = False


@dataclass(frozen=True)
class Stage:
    """A form of the graph on its way; `missing` says why it could not be made."""

    name: str
    about: str
    lines: tuple[Line, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Kernel:
    """What one instruction of the optimised program costs in a run; `parts` are the operators that it computes.

    `bytes` counts every operand once, `flops` a multiply and an add as two, both over all `calls`.
    """

    name: str
    text: str
    parts: tuple[Line, ...]
    calls: int
    bytes: int
    flops: int

    @property
    def origins(self) -> tuple[str, ...]:
        return origins_of(self.parts)


@dataclass(frozen=True)
class Refused:
    """What a pass or a lowering did not take for one reason, and the instructions."""

    rule: str
    why: str
    parts: tuple[Line, ...]

    @property
    def origins(self) -> tuple[str, ...]:
        return origins_of(self.parts)


@dataclass(frozen=True)
class Graph:
    """A graph with all of its stages; those of the compilation are for inputs of the shapes that `inputs` says.

    `in_torch` are the nodes that do not run in the engine, `nodes` counts all that compute. `ends` says why Dynamo
    ended the graph where it did, where that was not the end of the model; `whole_in_torch` why all of it, or its
    backward, runs in torch.
    """

    name: str
    inputs: str = ""
    target: str = ""
    stages: tuple[Stage, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    in_torch: tuple[Line, ...] = ()
    nodes: int = 0
    not_fused: tuple[Refused, ...] = ()
    ends: Line | None = None
    whole_in_torch: tuple[str, ...] = ()

    @property
    def flops(self) -> int:
        return sum(k.flops for k in self.kernels)

    @property
    def bytes(self) -> int:
        return sum(k.bytes for k in self.kernels)

    @cached_property
    def places(self) -> dict[str, Place]:
        """The lines of Python that something came from, by origin, in the order of their files and lines."""
        shown: list[Line | Kernel | Refused] = [n for s in self.stages for n in s.lines]
        shown += [*self.kernels, *self.in_torch, *self.not_fused, *([self.ends] if self.ends else [])]
        found = {o: Place.of(o) for one in shown for o in one.origins}
        files = list(dict.fromkeys(p.file for p in found.values()))  # as the model comes to them
        return dict(sorted(found.items(), key=lambda item: (files.index(item[1].file), item[1].line, item[0])))

    def short(self, origin: str) -> str:
        """`file.py:12`; with its folders where another file has the same name."""
        place = self.places[origin]
        name = PurePath(place.file).name
        again = any(p.file != place.file and PurePath(p.file).name == name for p in self.places.values())
        shown = place.file if again else name
        return f"{shown}:{place.line}" if place.line else shown


@dataclass(frozen=True)
class Content:
    """A whole report: `facts` are versions and options, by name."""

    title: str
    facts: dict[str, str] = field(default_factory=dict[str, str])
    graphs: tuple[Graph, ...] = ()


def origins_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """All origins of the lines, each once."""
    return tuple(dict.fromkeys(o for line in lines for o in line.origins))


def quantity(value: float, unit: str) -> str:
    """With a decimal prefix: 1.23 MB, 45.6 GFLOP."""
    for prefix in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:.3g} {prefix}{unit}"
        value /= 1000
    return f"{value:.3g} T{unit}"


def counted(count: int, what: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def summary(graph: Graph) -> str:
    """What ran where, and what it costs, in one line."""
    if not graph.inputs:
        return "runs in torch" if graph.whole_in_torch else "was not compiled"
    inside = graph.nodes - len(graph.in_torch)
    cost = f"{counted(len(graph.kernels), 'kernel')}, {quantity(graph.flops, 'FLOP')}, {quantity(graph.bytes, 'B')}"
    return f"{inside} of {counted(graph.nodes, 'node')} run in the engine ({graph.target}): {cost}"
