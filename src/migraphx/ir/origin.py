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

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]  # copies are made of the names
        return (self.names,)


class Joined(str):
    """The origins of an instruction that several became: a text like any origin, that still knows them apart."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, parts: tuple[str, ...]) -> Self:
        made = super().__new__(cls, ", ".join(parts))
        made.parts = parts
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]  # copies are made of the parts
        return (self.parts,)


def joined(origins: Iterable[str]) -> str:
    """The origin of what became of instructions of these."""
    parts = tuple(dict.fromkeys(part for origin in origins for part in parts_of(origin)))
    return Joined(parts) if len(parts) > 1 else parts[0] if parts else ""


def parts_of(origin: str) -> tuple[str, ...]:
    """The origins that were joined to this one; itself where none were."""
    return origin.parts if isinstance(origin, Joined) else (origin,) if origin else ()


def symbols_of(origin: str) -> tuple[str, ...]:
    """The names that an origin is made of; none where it is only a text."""
    if isinstance(origin, Joined):
        return tuple(dict.fromkeys(name for part in origin.parts for name in symbols_of(part)))
    return origin.names if isinstance(origin, DebugSymbols) else ()
