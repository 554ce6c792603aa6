"""Element types of a node's inputs: those that its operator takes, and which of the others are plain all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import Node, OnnxError, Strings
from migraphx.onnx.registry import Signature
from migraphx.onnx.schema import Formal, schema_of, versions_of

INDICES = frozenset({"int32", "int64"})
KINDS = (dtypes.FLOATS, dtypes.INTEGERS)


def check_types(b: OnnxBuilder, node: Node, inputs: Sequence[Any], taken: Signature | None) -> None:
    """OnnxError for a type that the operator does not take, and for two where it takes one."""
    schema = schema_of(node.domain, node.op, node.version)
    formals = schema.formals if schema else taken.formals if taken else ()
    bound: dict[str, tuple[int, str]] = {}
    for k, value in enumerate(inputs):
        formal = formals[min(k, len(formals) - 1)] if formals else None
        type = _type_of(value)
        if formal is None or type is None or not formal.types:
            continue
        if type not in formal.types:
            why = "computed all the same" if taken and type in taken.types.also else _tolerated(node, formal, k, type)
            if why is None:
                known = ", ".join(sorted(formal.types))
                raise OnnxError(f"its input {k} ({formal.name}) is {type}, must be one of {known}")
            b.deviates(f"its input {k} ({formal.name}) is {type}: {why}")
        first, other = bound.setdefault(formal.variable, (k, type))
        if formal.variable and other != type:
            said = f"its inputs {first} and {k} are {other} and {type}, must be of one type"
            if taken is None or not _promoted(taken.types.promotes, other, type):
                raise OnnxError(said)
            b.deviates(said)


def _type_of(value: Any) -> str | None:
    """None where a value has no type, or one that is not known yet."""
    if isinstance(value, Strings):
        return "string"
    if not isinstance(value, Instruction) or value.shape.type == "tuple":
        return None
    return value.shape.type


def _promoted(promotes: bool | None, *types: str) -> bool:
    """Whether a converter takes these types together: of one kind, or, where it `promotes` all, of any."""
    if promotes is None:
        return False
    return promotes or any(kind.issuperset(types) for kind in KINDS)


def _tolerated(node: Node, formal: Formal, index: int, type: str) -> str | None:
    """What a type that is not taken stands for; None for a mistake."""
    for version in versions_of(node.domain, node.op):
        other = schema_of(node.domain, node.op, version)
        formals = other.formals if other else ()
        same = index < len(formals) and (not index or formals[index].name == formal.name)
        if same and type in formals[index].types:
            return f"opset {version} takes that"
    if type.startswith("fp8") and "half" in formal.types:
        return "computed as the other narrow floats"
    if type in INDICES and formal.types <= INDICES:
        return "an integer for another"
    return None
