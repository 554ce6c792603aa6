"""Nodes that are not quite what the standard says, read as what they mean: each deviation is a sentence.

Files hold attributes of other opsets than their own, numbers of the wrong kind, operators in the wrong domain.
What was meant is plain, so they are read; `strict=True` of `parse_onnx` refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import CONVERTERS, LEGACY, find, signature
from migraphx.onnx.schema import Schema, fitting_version, schema_of


@dataclass(frozen=True)
class Written:
    """A node's operator, domain and opset, its number of inputs, and its attributes by name: kind and value."""

    op: str
    domain: str
    version: int
    inputs: int
    attributes: Mapping[str, tuple[str, Any]]
    deviations: tuple[str, ...] = ()


def intended(node: Written, opset: Callable[[str], int]) -> Written:
    """The node as the standard would have it, and how it deviates; OnnxError where no meaning is plain.

    `opset`: the version of a domain in this model.
    """
    node = _in_its_domain(node, opset)
    node = _at_its_opset(node)
    schema = schema_of(node.domain, node.op, node.version)
    if schema is None:
        return node
    said, attributes = [], {}
    for name, (kind, value) in node.attributes.items():
        attributes[name] = (kind, value)
        wanted = schema.kinds.get(name, kind)
        if wanted != kind:
            attributes[name] = (wanted, _of_kind(name, wanted, kind, value))
            said.append(f"attribute {name!r} must be {wanted}, is {kind}")
    return replace(node, attributes=attributes, deviations=(*node.deviations, *said))


def _in_its_domain(node: Written, opset: Callable[[str], int]) -> Written:
    """An operator that the standard's domain does not have (yet) may be another opset's, or another domain's."""
    if node.domain or schema_of("", node.op, node.version):
        return node
    names = set(node.attributes) - LEGACY
    domain = next((d for d, op in CONVERTERS if d and op == node.op), None)
    standard = find("", node.op, node.version) is not None
    if standard or domain is None or not _accepts(node, domain, opset(domain), names):
        version = fitting_version("", node.op, node.version, names, node.inputs)
        if version is not None:
            said = f"is of opset {version}, not {node.version}"
            return replace(node, version=version, deviations=(*node.deviations, said))
    if standard:
        return replace(node, deviations=(*node.deviations, "is not of the standard"))
    if domain is None:
        return node
    said = f"is not of the standard; {domain} has such an operator"
    return replace(node, domain=domain, version=opset(domain), deviations=(*node.deviations, said))


def _accepts(node: Written, domain: str, version: int, names: set[str]) -> bool:
    """Whether a domain's operator of that name may be meant."""
    convert = find(domain, node.op, version)
    return convert is not None and signature(convert).fits(names, node.inputs)


def _at_its_opset(node: Written) -> Written:
    """Attributes or inputs that the opset does not have may be another opset's, or the converter takes them anyway."""
    schema = schema_of(node.domain, node.op, node.version)
    if schema is None:
        return node
    names = set(node.attributes) - LEGACY
    odd = sorted(names - schema.kinds.keys())
    if not odd and schema.inputs[0] <= node.inputs <= schema.inputs[1]:
        return node
    what = f"attribute {odd[0]!r}" if odd else f"having {node.inputs} inputs"
    version = fitting_version(node.domain, node.op, node.version, names, node.inputs)
    if version is not None:
        said = f"{what} is of opset {version}, not {node.version}"
        return replace(node, version=version, deviations=(*node.deviations, said))
    if not odd and node.inputs < schema.inputs[0]:
        return node  # which has its own error
    convert = find(node.domain, node.op, node.version)
    taken = signature(convert) if convert else None
    if taken is None or not set(odd) <= taken.attributes or not (taken.rest or node.inputs <= len(taken.inputs)):
        raise _refusal(node, schema, odd)
    return replace(node, deviations=(*node.deviations, f"{what} is of no opset"))


def _refusal(node: Written, schema: Schema, odd: list[str]) -> OnnxError:
    if odd:
        known = ", ".join(schema.kinds) or "none"
        return OnnxError(f"has no attribute {odd[0]!r}; it has {known}")
    fewest, most = schema.inputs
    return OnnxError(f"takes {fewest if fewest == most else f'{fewest} to {most}'} inputs, got {node.inputs}")


def _of_kind(name: str, wanted: str, kind: str, value: Any) -> Any:
    """A value of another kind that stands for the same: 1 for 1.0, (1,) for 1; OnnxError for any other."""
    element = {"FLOATS": "FLOAT", "INTS": "INT"}
    if kind in element and wanted in element.values() and len(value) == 1:
        kind, value = element[kind], value[0]
    elif wanted in element and kind in element.values():
        kind, value = f"{kind}S", (value,)
    if wanted == kind:
        return value
    if (wanted, kind) == ("FLOAT", "INT"):
        return float(value)
    if (wanted, kind) == ("FLOATS", "INTS"):
        return tuple(float(v) for v in value)
    raise OnnxError(f"attribute {name!r} must be {wanted}, is {kind}")
