"""Shapes as upstream's files hold them, and how such files begin: what is asked without reading one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migraphx.ir.shape import DynamicDimension, Shape

TYPES = (
    *("bool", "half", "float", "double", "uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64"),
    *("fp8e4m3fnuz", "fp8e4m3fn", "fp8e5m2", "bf16", "fp8e5m2fnuz"),
)


def is_upstream(data: bytes) -> bool:
    """Whether bytes begin as AMD's do: a dictionary in JSON or msgpack. Ours begin with a length of eight bytes."""
    head = bytes(data[:64]).lstrip()
    return head[5:8] != bytes(3) and (head[:1] in (b"{", b"\xde", b"\xdf") or b"\x80" <= head[:1] <= b"\x8f")


def shape_data(s: Shape) -> dict[str, Any]:
    """A shape as upstream's files hold it."""
    return {
        "type": f"{s.type}_type",
        "lens": list(s.lens),
        "strides": list(s.strides),
        "sub_shapes": [shape_data(x) for x in s.sub_shapes],
        "dynamic_dimensions": [_dimension_data(d) for d in s.dyn_dims],
    }


def _dimension_data(d: DynamicDimension) -> dict[str, Any]:
    named = {"symbol": d.symbol} if d.symbol else {}  # ours: upstream's files have none
    return {"min": d.min, "max": d.max, "optimals": list(d.optimals), **named}


def shape_of(data: Mapping[str, Any]) -> Shape:
    """The shape that `shape_data` gave; KeyError and TypeError where it is none."""
    if data["type"] in ("tuple_type", "tuple"):
        return Shape.tuple_of(shape_of(s) for s in data.get("sub_shapes") or ())
    if data.get("dynamic_dimensions"):
        given = [
            (d["min"], d["max"], tuple(d.get("optimals") or ()), str(d.get("symbol") or ""))
            for d in data["dynamic_dimensions"]
        ]
        return Shape(data["type"], dyn_dims=tuple(DynamicDimension(*d) for d in given))
    return Shape(data["type"], tuple(data.get("lens") or ()), tuple(data.get("strides") or ()))
