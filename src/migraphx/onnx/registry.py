"""Which function converts which ONNX operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Convert = Callable[..., Any]
"""convert(b, *inputs, **attributes) -> an instruction, or one for each output.

`b` is the importer's builder. Inputs come in the schema's order; one left out is None. Attributes come by
name, with the schema's defaults; one without a value is left out.
"""

CONVERTERS: dict[tuple[str, str], list[tuple[int, Convert]]] = {}
"""(domain, operator) -> (first opset, function), latest first."""

TAKE_STRINGS: set[Convert] = set()
"""The converters that may be handed `Strings`."""

LEGACY = frozenset({"consumed_inputs"})  # opset 1's memory hint


@dataclass(frozen=True)
class Signature:
    """What a converter can be given."""

    attributes: frozenset[str]
    any_attribute: bool


def converter(
    *ops: str, since: int = 1, domain: str = "", strings: bool = False
) -> Callable[[Convert], Convert]:
    """Declare the converter of operators, from opset `since` on; whether inputs may be `strings`."""

    def declare(function: Convert) -> Convert:
        if strings:
            TAKE_STRINGS.add(function)
        for op in ops:
            register(op, function, since, domain)
        return function

    return declare


def register(op: str, function: Convert, since: int = 1, domain: str = "") -> None:
    """As `converter`, for one row of a table; TypeError where it has one already."""
    rows = CONVERTERS.setdefault((domain, op), [])
    if any(since == other for other, _ in rows):
        raise TypeError(f"ONNX operator {op!r} from opset {since} is converted twice")
    rows.append((since, function))
    rows.sort(key=lambda row: -row[0])


def find(domain: str, op: str, version: int) -> Convert | None:
    """The converter for an operator at an opset."""
    return next((f for since, f in CONVERTERS.get((domain, op), ()) if since <= version), None)


def signature(function: Convert) -> Signature:
    """The names of its parameters, inputs among them."""
    parameters = inspect.signature(function).parameters.values()
    named = frozenset(p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))
    return Signature(named, any(p.kind is p.VAR_KEYWORD for p in parameters))
