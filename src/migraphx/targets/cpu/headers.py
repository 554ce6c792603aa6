"""What the kernels' headers say and Python needs too, read from their text: each number stands in one place.

Only what is the same for every instruction set is read here; what differs is asked of the preprocessor
(`toolchain.features`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

KERNELS = Path(__file__).parent / "kernels"


@cache
def header(name: str) -> str:
    """The text of a header without its comments."""
    return re.sub(r"//.*", "", (KERNELS / name).read_text())


def constant(name: str, where: str) -> int:
    """The value of an `inline constexpr` whole number; ValueError where the header has none of this name."""
    return int(_initializer(name, where).replace("'", ""))


def real(name: str, where: str) -> float:
    """As `constant`, of a float: the number as it is written."""
    return float(_initializer(name, where).removesuffix("f"))


def _initializer(name: str, where: str) -> str:
    found = re.findall(rf"inline constexpr \w+ (?:[^;]*\W)?{name} = ([\d.']+f?)[,;]", header(where))
    if len(found) != 1:
        raise ValueError(f"{where} has {len(found)} constants {name}")
    return found[0]


def enumerators(name: str, where: str) -> dict[str, int]:
    """The names of an `enum` that counts from 0, each with its number."""
    found = re.search(rf"enum {name} : \w+ {{([\w\s,]*)}}", header(where))
    if not found:
        raise ValueError(f"{where} has no enum {name}")
    return {word: n for n, word in enumerate(re.findall(r"\w+", found[1]))}
