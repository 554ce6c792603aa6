"""What the standard says of operators: the schemas of package `onnx`, as plain classes.

With model.py the only file that uses package `onnx`; it is imported when a model is read.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from migraphx.onnx.graph import ELEMENT_TYPES

OTHERS = ("string", "complex64", "complex128", "float6e2m3", "float6e3m2")
"""Element types of the standard that the engine has none for."""


def onnx_package() -> ModuleType:
    """Package onnx with the submodules used here."""
    import onnx
    import onnx.defs
    import onnx.helper
    import onnx.numpy_helper

    return onnx


@dataclass(frozen=True)
class Formal:
    """An input as an operator declares it; all inputs of one `variable`, if it has one, are of one type.

    `types` is empty where nothing is said of them (sequences and optionals have none).
    """

    name: str
    types: frozenset[str]
    variable: str


@dataclass(frozen=True)
class Schema:
    """What the standard says of an operator at an opset. `kinds` and `defaults` are of its attributes."""

    kinds: dict[str, str]
    defaults: dict[str, Any]
    required: frozenset[str]
    inputs: tuple[int, int]  # fewest and most
    formals: tuple[Formal, ...]  # the last may be repeated
    function: bool
    deprecated: bool

    def fits(self, names: set[str], inputs: int) -> bool:
        """Whether a node with these attributes and so many inputs may be one of the operator."""
        fewest, most = self.inputs
        return names <= self.kinds.keys() and self.required <= names and fewest <= inputs <= most


@cache
def schema_of(domain: str, op: str, version: int) -> Schema | None:
    """The schema in force at an opset, or None where package onnx has none."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None
    attributes = schema.attributes.values()
    return Schema(
        {a.name: a.type.name for a in attributes},
        {a.name: _plain(onnx.helper.get_attribute_value(a.default_value)) for a in attributes if a.default_value.type},
        frozenset(a.name for a in attributes if a.required),
        (schema.min_input, schema.max_input),
        tuple(_formal(i) for i in schema.inputs),
        schema.has_function or schema.has_context_dependent_function,
        schema.deprecated,
    )


def _formal(declared: Any) -> Formal:
    types = frozenset(t for t in (_type(text) for text in declared.types) if t)
    alone = "(" in declared.type_str or not declared.is_homogeneous
    return Formal(declared.name, types, "" if alone else declared.type_str)


def _plain(value: Any) -> Any:
    """An attribute's default as converters get it: text as str, lists as tuples."""
    if isinstance(value, bytes):
        return value.decode()
    return tuple(_plain(v) for v in value) if isinstance(value, list) else value


def _type(text: str) -> str | None:
    """MIGraphX's type for `tensor(float)`; None for what is no tensor."""
    inner = text.removeprefix("tensor(").removesuffix(")")
    return _types().get(inner) if text.startswith("tensor(") else None


@cache
def _types() -> dict[str, str]:
    names = {number: name.lower() for name, number in onnx_package().TensorProto.DataType.items()}
    return {names[number]: ours for number, ours in ELEMENT_TYPES.items() if number in names} | {n: n for n in OTHERS}


@cache
def _history() -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx_package().defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].add(schema.since_version)
    return {key: sorted(versions) for key, versions in found.items()}


def versions_of(domain: str, op: str) -> list[int]:
    """The opsets at which the standard changed an operator, ascending."""
    return _history().get((domain, op), [])


def fitting_version(domain: str, op: str, version: int, names: set[str], inputs: int) -> int | None:
    """Another opset at which a node with these attributes and so many inputs is valid: the next before, or behind."""
    versions = versions_of(domain, op)
    before = [v for v in reversed(versions) if v <= version]
    for since in (*before, *(v for v in versions if v > version)):
        schema = schema_of(domain, op, since)
        if schema is not None and not schema.deprecated and schema.fits(names, inputs):
            later = [v for v in versions if v > since]
            return since if since > version else min([version, *(v - 1 for v in later)])
    return None
