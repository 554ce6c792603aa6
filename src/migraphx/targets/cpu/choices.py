"""Where a lowering has several ways, all of them right: which one it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migraphx.ir.module import Instruction

Ways = dict[str, str]
"""The way that was chosen of each question: {"convolution": "winograd", "block": "120"}."""


@dataclass(frozen=True)
class Choices:
    """`winners`: what was measured to be fastest, by instruction. Anything else is what a lowering expects to be."""

    winners: Mapping[Instruction, Ways] = field(default_factory=dict)

    def pick(self, ins: Instruction | None, question: str, ways: Sequence[str]) -> str:
        """One of `ways`, of which the first is expected to be fastest."""
        known = self.winners.get(ins, {}).get(question) if ins is not None else None
        return known if known is not None and known in ways else ways[0]


@dataclass(frozen=True)
class Trial(Choices):
    """Goes the ways that it is told, else those expected to be fastest, and notes which there are."""

    told: Ways = field(default_factory=dict)
    went: Ways = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)

    def pick(self, ins: Instruction | None, question: str, ways: Sequence[str]) -> str:
        way = self.told.get(question, ways[0])
        self.others.setdefault(question, [w for w in ways if w != way])
        return self.went.setdefault(question, way)
