"""Dimensions as the command line writes them: `@x 1 3 224 224`, `@x "[{min:1, max:8, optimals:[1,4]}, 3]"`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from migraphx.api.shape import dynamic_dimension
from migraphx.driver.result import UsageError

Value = TypeVar("Value")


def named(option: str, tokens: Iterable[str]) -> dict[str, list[str]]:
    """`@a 1 2 @b 3` as {a: [1, 2], b: [3]}."""
    found: dict[str, list[str]] = {}
    name = ""
    for token in tokens:
        if token.startswith("@"):
            name = token[1:]
            found[name] = []
        elif not name:
            raise UsageError(f"{option}: {token!r} belongs to no name; write `{option} @name value ...`")
        else:
            found[name].append(token)
    for name, values in found.items():
        if not values:
            raise UsageError(f"{option}: @{name} has no value")
    return found


def one_each(option: str, tokens: Iterable[str], read: Callable[[str], Value]) -> dict[str, Value]:
    """`@a v @b w` as {a: read(v), b: read(w)}."""
    found = {}
    for name, values in named(option, tokens).items():
        if len(values) > 1:
            raise UsageError(f"{option}: @{name} takes one value, got {' '.join(values)}")
        found[name] = read(values[0])
    return found


def lens(option: str, tokens: Iterable[str]) -> dict[str, list[int]]:
    """Static dimensions by name."""
    return {name: [_length(option, v) for v in values] for name, values in named(option, tokens).items()}


def dimension(option: str, text: str) -> int | dynamic_dimension:
    """`8`, or `{min:1, max:8, optimals:[1,4]}`."""
    return _dimension(option, _relaxed_json(option, text))


def dimensions(option: str, text: str) -> list[int | dynamic_dimension]:
    """`[{min:1, max:8}, 3, 224]`."""
    found = _relaxed_json(option, text)
    if not isinstance(found, list):
        raise UsageError(f"{option}: {text!r} is no list of dimensions such as [{{min:1, max:8}}, 3]")
    return [_dimension(option, d) for d in found]


def _length(option: str, text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{option}: {text!r} is no length (is it the model's file? write it before the options)")
    return int(text)


def _relaxed_json(option: str, text: str) -> Any:
    """JSON whose keys need no quotes."""
    try:
        return json.loads(re.sub(r'(?<!["\w])(min|max|optimals)(?=\s*:)', r'"\1"', text))
    except json.JSONDecodeError as error:
        raise UsageError(f"{option}: {text!r}: {error}") from None


def _dimension(option: str, value: Any) -> int | dynamic_dimension:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, dict) or not {"min", "max"} <= set(value) <= {"min", "max", "optimals"}:
        raise UsageError(f"{option}: {json.dumps(value)} is neither a length nor {{min:x, max:y, optimals:[...]}}")
    numbers: Sequence[Any] = (value["min"], value["max"], *value.get("optimals", ()))
    if not all(isinstance(n, int) for n in numbers):
        raise UsageError(f"{option}: {json.dumps(value)} holds something that is no whole number")
    try:
        return dynamic_dimension(value["min"], value["max"], value.get("optimals", ()))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
