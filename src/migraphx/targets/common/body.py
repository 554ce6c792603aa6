"""Pointwise bodies as a target's text: statements, fresh names, operators applied to named values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ops.movement import Broadcasting, Contiguous, Reshaping
from migraphx.ops.pointwise import Identity, Pointwise


class Reading(Protocol):
    """How a target's language spells a body."""

    def scalar(self, scope: Scope) -> Any:
        """The scalar vocabulary (ops/scalar.py) as text; `scope` names each one."""
        ...

    def assign(self, name: str, text: str) -> str:
        """The statement that gives a value its name."""
        ...

    def literal(self, ins: Instruction) -> str:
        """A one-element literal."""
        ...

    def shorter(self, ins: Instruction) -> tuple[str, Sequence[Instruction]] | None:
        """A value's text, {0} ... in the place of what it is made of, where that is shorter than its operators'."""
        ...


SCALAR_VIEWS = (Broadcasting, Reshaping, Identity, Contiguous)
"""Operators that leave a value's lanes as they are inside a fused body."""


@dataclass
class Scope:
    """Statements in order, and a supply of fresh names."""

    reading: Reading
    lines: list[str] = field(default_factory=list[str])
    count: int = 0
    known: dict[str, str] = field(default_factory=dict[str, str])  # text -> name, so that nothing is computed twice

    def bind(self, text: str) -> str:
        """The name of a variable that holds `text`."""
        if text not in self.known:
            self.known[text] = f"v{self.count}"
            self.lines.append(self.reading.assign(f"v{self.count}", text))
            self.count += 1
        return self.known[text]

    def text(self, name: str) -> str:
        """What a variable holds; any other name as it is."""
        return next((text for text, known in self.known.items() if known == name), name)

    def inner(self) -> Scope:
        """A scope within this one: it sees the names here, and adds none."""
        return Scope(self.reading, [], self.count + 1000, dict(self.known))


def apply(ins: Instruction, arguments: Sequence[str], scope: Scope) -> str:
    """One pointwise operator applied to named values; the name of its result. TypeError for any other operator."""
    if isinstance(ins.op, SCALAR_VIEWS):
        return arguments[0]
    if not isinstance(ins.op, Pointwise):
        raise TypeError(f"{ins.name} is not pointwise")
    return ins.op.apply(scope.reading.scalar(scope), *arguments)


def pointwise_body(
    module: Module, arguments: Mapping[str, str], scope: Scope, result: Instruction | None = None
) -> str:
    """Add the statements of a `pointwise` body; returns the name of its result, or of another value in it.

    `arguments` names the value of each parameter.
    """
    result = result or module.outputs[0]
    shorter = {ins: short for ins in module if (short := scope.reading.shorter(ins))}
    needed = _needed(result, shorter)
    names: dict[Instruction, str] = {}
    for ins in (i for i in module if i in needed):
        if isinstance(ins.op, Parameter):
            names[ins] = arguments[ins.op.parameter]
        elif isinstance(ins.op, Literal):
            names[ins] = scope.bind(scope.reading.literal(ins))
        elif ins in shorter:
            text, made_of = shorter[ins]
            names[ins] = scope.bind(text.format(*(names[i] for i in made_of)))
        else:
            names[ins] = apply(ins, [names[i] for i in ins.inputs], scope)
    return names[result]


def _needed(result: Instruction, shorter: Mapping[Instruction, tuple[str, Sequence[Instruction]]]) -> set[Instruction]:
    """The result and all that it is made of."""
    found, left = {result}, [result]
    while left:
        ins = left.pop()
        more = [i for i in (shorter[ins][1] if ins in shorter else ins.inputs) if i not in found]
        found.update(more)
        left += more
    return found
