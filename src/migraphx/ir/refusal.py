"""Why something was not done: data that a report can show and a test can ask for."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Refusal(NamedTuple, Generic[T]):
    """`rule` (a rewrite rule, a pass, a lowering or a target) does not take `instruction`, and why."""

    instruction: T
    rule: str
    why: str
