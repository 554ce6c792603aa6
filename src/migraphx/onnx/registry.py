"""Which function converts which ONNX operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from types import NoneType
from typing import Any

from migraphx.ir.module import Instruction
from migraphx.onnx.graph import Map, OnnxError, Strings
from migraphx.onnx.schema import Formal

Convert = Callable[..., Any]
"""convert(b, *inputs, **attributes) -> an instruction, or one for each output.

`b` is the importer's builder. Inputs come in the schema's order; one left out is None. Attributes come by
name, with the schema's defaults; one without a value is left out.
"""

CONVERTERS: dict[tuple[str, str], list[tuple[int, Convert]]] = {}
"""(domain, operator) -> (first opset, function), latest first."""

Same = tuple[frozenset[str], tuple[str, ...]]
"""Types, and the inputs that have one of them, all the same."""

CHECKS: dict[str, Callable[..., None]] = {}
"""Operator of the standard -> what refuses wrong inputs before its function is expanded."""


@dataclass(frozen=True)
class Types:
    """What a converter declares of its inputs' types.

    `takes`: which they are, of an operator that the standard does not have. `promotes`: it computes with several where
    the standard has one: of one kind (False), of any (True). `also`: it takes these too, where the standard does not.
    """

    takes: tuple[Same, ...] = ()
    promotes: bool | None = None
    also: frozenset[str] = frozenset()


TYPES: dict[Convert, Types] = {}

LEGACY = frozenset({"consumed_inputs"})  # opset 1's memory hint


VALUES: dict[str, tuple[type, str]] = {
    "Value": (Instruction, "a tensor"),
    "Strings": (Strings, "a tensor of strings"),
    "list[Value]": (list, "a sequence"),
    "Map": (Map, "a map"),
    "None": (NoneType, "missing"),
}
"""What a converter's parameters are annotated with: the class of such inputs, and what errors call it."""


@dataclass(frozen=True)
class InputSpec:
    """An input of a converter, or all from there on; `kinds` are the parts of its annotation."""

    name: str
    kinds: tuple[str, ...]
    required: bool


@dataclass(frozen=True)
class Signature:
    """What a converter can be given; older opsets give some inputs as attributes."""

    attributes: frozenset[str]
    any_attribute: bool
    required: frozenset[str]  # attributes without a default
    inputs: tuple[InputSpec, ...]
    rest: bool  # whether the last input may be repeated
    formals: tuple[Formal, ...]  # of an operator that the standard does not have; () where nothing is said
    types: Types

    def fits(self, names: set[str], inputs: int) -> bool:
        """Whether a node with these attributes and so many inputs may be one of the operator."""
        fewest = sum(spec.required for spec in self.inputs)
        odd = names - self.attributes and not self.any_attribute
        return not odd and self.required <= names and inputs >= fewest and (self.rest or inputs <= len(self.inputs))

    def check(self, inputs: Sequence[Any], attributes: Collection[str]) -> None:
        """OnnxError for what the converter does not take."""
        odd = [a for a in attributes if a not in self.attributes and not self.any_attribute]
        if odd:
            raise OnnxError(f"attribute {odd[0]!r} is not supported")
        missing = self.required.difference(attributes)
        if missing:
            raise OnnxError(f"attribute {min(missing)!r} is missing")
        if len(inputs) > len(self.inputs) and not self.rest:
            raise OnnxError(f"takes at most {len(self.inputs)} inputs, got {len(inputs)}")
        for k, value in enumerate(inputs):
            kinds = self.inputs[min(k, len(self.inputs) - 1)].kinds
            if "Any" not in kinds and not isinstance(value, tuple(VALUES[n][0] for n in kinds)):
                raise OnnxError(f"its input {k} {_is_not(value, kinds)}")
        for k, spec in enumerate(self.inputs[len(inputs) :], len(inputs)):
            if spec.required and spec.name not in attributes:
                raise OnnxError(f"its input {k} is missing")


def _is_not(value: Any, kinds: Sequence[str]) -> str:
    if value is None:
        return "is missing"
    given = next(called for kind, called in VALUES.values() if isinstance(value, kind))
    return f"is {given}, must be {' or '.join(VALUES[n][1] for n in kinds if n != 'None')}"


def same(types: Iterable[str], *names: str) -> Same:
    """The inputs `names` of a converter have one of these types, all the same."""
    return frozenset(types), names


def converter(*ops: str, since: int = 1, domain: str = "", **types: Any) -> Callable[[Convert], Convert]:
    """Declare the converter of operators, from opset `since` on; `types` as class Types has them."""

    def declare(function: Convert) -> Convert:
        for op in ops:
            register(op, function, since, domain, **types)
        return function

    return declare


def register(op: str, function: Convert, since: int = 1, domain: str = "", **types: Any) -> None:
    """As `converter`, for one row of a table; TypeError where it has one already."""
    TYPES[function] = Types(**types)
    rows = CONVERTERS.setdefault((domain, op), [])
    if any(since == other for other, _ in rows):
        raise TypeError(f"ONNX operator {op!r} from opset {since} is converted twice")
    rows.append((since, function))
    rows.sort(key=lambda row: -row[0])


def grouped(group: str, make: Callable[..., Any], names: Iterable[str]) -> Callable[[Convert], Convert]:
    """The decorated converter gets `make(b, **attributes)` as `group`, in place of the attributes `names` of the node.

    Those that the node does not have are not given.
    """
    taken = tuple(names)

    def decorate(convert: Convert) -> Convert:
        @wraps(convert)
        def converted(b: Any, *inputs: Any, **attributes: Any) -> Any:
            given = {n: attributes.pop(n) for n in taken if n in attributes}
            return convert(b, *inputs, **{group: make(b, **given)}, **attributes)

        own = inspect.signature(convert)
        attributes = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in taken]
        others = [p for n, p in own.parameters.items() if n != group]
        vars(converted)["__signature__"] = own.replace(parameters=[*others, *attributes])
        return converted

    return decorate


def check(*ops: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare what raises OnnxError for inputs that operators of the standard, defined by functions, do not take."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        CHECKS.update(dict.fromkeys(ops, function))
        return function

    return declare


def find(domain: str, op: str, version: int) -> Convert | None:
    """The converter for an operator at an opset."""
    return next((f for since, f in CONVERTERS.get((domain, op), ()) if since <= version), None)


@cache
def signature(function: Convert) -> Signature:
    """What its parameters say, all but the first (the builder)."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    given = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    types = TYPES.get(function, Types())
    return Signature(
        attributes=frozenset(p.name for p in (*named, *given)),
        any_attribute=any(p.kind is p.VAR_KEYWORD for p in parameters),
        required=frozenset(p.name for p in named if p.default is p.empty),
        inputs=tuple(_input_spec(p) for p in given),
        rest=any(p.kind is p.VAR_POSITIONAL for p in given),
        formals=tuple(_formal(p.name, types.takes) for p in given) if types.takes else (),
        types=types,
    )


def _formal(name: str, takes: Sequence[Same]) -> Formal:
    for k, (types, names) in enumerate(takes):
        if name in names:
            return Formal(name, types, f"T{k}")
    return Formal(name, frozenset(), name)


def _input_spec(p: inspect.Parameter) -> InputSpec:
    """One without an annotation is a tensor."""
    kinds = ("Value",) if p.annotation is p.empty else tuple(p.annotation.split(" | "))
    return InputSpec(p.name, kinds, p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD)
