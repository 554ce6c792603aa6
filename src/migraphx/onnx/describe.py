"""What is known of an ONNX operator that can be read: its domain, its opsets, the types that it takes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import migraphx.onnx.converters  # noqa: F401  # fills CONVERTERS
from migraphx.onnx.registry import CONVERTERS, signature
from migraphx.onnx.schema import onnx_package

DEFAULT = "ai.onnx"
"""What the domain without a name is called."""


def described(name: str) -> list[dict[str, Any]]:
    """Of each operator of this name, `domain.name` for one alone; ValueError where none can be read, with the nearest.

    `versions` are the opsets that changed it (none of a domain without schemas), `converted_since` those that have a
    converter of their own, empty where the standard's own function is expanded. Types are those of the latest opset.
    """
    schemas = onnx_package().defs.get_all_schemas()
    expanded = {(s.domain, s.name) for s in schemas if s.has_function or s.has_context_dependent_function}
    known = CONVERTERS.keys() | expanded
    found = sorted(key for key in known if name in (key[1], f"{key[0] or DEFAULT}.{key[1]}"))
    if not found:
        names = sorted({op for _, op in known} | {f"{domain or DEFAULT}.{op}" for domain, op in known})
        near = get_close_matches(name, names, 1)
        raise ValueError(f"no ONNX operator {name!r} can be read" + (f"; did you mean {near[0]!r}?" if near else ""))
    return [_described(*key) for key in found]


def _described(domain: str, name: str) -> dict[str, Any]:
    history = [s for s in onnx_package().defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, name)]
    rows = CONVERTERS.get((domain, name), [])
    latest = max(history, key=lambda s: s.since_version) if history else None
    found: dict[str, Any] = {
        "name": name,
        "domain": domain or DEFAULT,
        "versions": sorted(s.since_version for s in history),
        "converted_since": sorted(since for since, _ in rows),
        "deprecated": bool(latest and latest.deprecated),
    }
    if latest is not None and not latest.deprecated:
        types = {c.type_param_str: sorted(c.allowed_type_strs) for c in latest.type_constraints}
        found["inputs"] = [_value(v, types) for v in latest.inputs]
        found["outputs"] = [_value(v, types) for v in latest.outputs]
        found["attributes"] = sorted(latest.attributes)
    elif rows:
        takes = signature(rows[0][1])
        found["inputs"] = [{"name": i.name, "types": [], "optional": not i.required} for i in takes.inputs]
        found["attributes"] = sorted(takes.attributes - {i.name for i in takes.inputs})
    return found


def _value(value: Any, types: dict[str, list[str]]) -> dict[str, Any]:
    """An input or output of a schema."""
    optional = value.option.name == "Optional"
    return {"name": value.name, "types": types.get(value.type_str, [value.type_str]), "optional": optional}
