"""Parameters of which `make test` takes a few: the others repeat what these show, and `make test-all` takes all."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def few(values: Iterable[Any], *chosen: Any, at: Sequence[int] = ()) -> list[Any]:
    """For one argument of a test: the values, all slow but those that are chosen, themselves or by their places."""
    return [value if n in at or _value(value) in chosen else _slow(value) for n, value in enumerate(values)]


def few_rows(rows: Iterable[Any], *chosen: Any, at: Sequence[int] = ()) -> list[Any]:
    """The same for several arguments."""
    return [
        row if n in at or row in chosen else pytest.param(*row, marks=pytest.mark.slow) for n, row in enumerate(rows)
    ]


def _value(value: Any) -> Any:
    """A value without its marks."""
    return value.values[0] if hasattr(value, "marks") else value


def _slow(value: Any) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.slow], id=value.id)
    return pytest.param(value, marks=pytest.mark.slow)
