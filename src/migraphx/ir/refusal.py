"""Why something was not done: data that a report can show and a test can ask for."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Refuse(str):
    """A reason: what a rule that matched but must not apply returns, and others that have a slower way."""

    __slots__ = ()


class Mismatch(Refuse):
    """A condition of a rule's pattern that its function states: the rule is about something else, nothing is lost."""

    __slots__ = ()


class Refusal(NamedTuple, Generic[T]):
    """`rule` (a rewrite rule, a pass, a lowering or a target) does not take `instruction`, and why."""

    instruction: T
    rule: str
    why: str
