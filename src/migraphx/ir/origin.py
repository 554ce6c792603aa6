"""Where an instruction came from, as a text; or as the names that whoever added it gave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self


class DebugSymbols(str):
    """An origin made of names (upstream's debug symbols): a text like any origin, that still knows them apart."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str]) -> Self:
        given = tuple(dict.fromkeys(names))
        made = super().__new__(cls, "; ".join(given))
        made.names = given
        return made


def symbols_of(origin: str) -> tuple[str, ...]:
    """The names that an origin is made of; none where it is only a text."""
    return origin.names if isinstance(origin, DebugSymbols) else ()
