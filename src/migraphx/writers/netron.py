"""A program for Netron (https://netron.app): JSON of an ONNX ModelProto, which Netron opens as a model.

Upstream's `--netron` makes the same choice. Operators keep their names, in the domain `migraphx`; attributes have
ONNX's types; literals have a shape and, where they are small, values; modules are subgraphs of their instruction.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.text import SHOWN_ELEMENTS, names_of
from migraphx.mxr.upstream import own_version

IR_VERSION = 8
ONNX_TYPES = (
    *("", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "", "bool", "half", "double", "uint32"),
    *("uint64", "", "", "bf16", "fp8e4m3fn", "fp8e4m3fnuz", "fp8e5m2", "fp8e5m2fnuz"),
)
"""Positions are TensorProto.DataType's numbers in onnx.proto."""


def to_netron(program: Program) -> str:
    """A ModelProto as protobuf's JSON."""
    names: dict[Instruction, str] = {}
    for m in reachable(program.main):
        names |= names_of(m, "" if m is program.main else f"{m.name}:")
    model = {
        "irVersion": str(IR_VERSION),
        "producerName": "openmgx",
        "producerVersion": own_version(),
        "opsetImport": [{"domain": "migraphx", "version": "1"}],
        "graph": _graph(program.main, names),
    }
    return json.dumps(model, indent=1)


def _graph(module: Module, names: dict[Instruction, str]) -> dict[str, Any]:
    inner = [i for i in module if i.name != "@return" and not isinstance(i.op, (Parameter, Literal))]
    return {
        "name": module.name,
        "node": [_node(i, names) for i in inner],
        "initializer": [_tensor(names[i], i.op.value) for i in module if isinstance(i.op, Literal)],
        "input": [_value(i, names) for i in module.parameters.values()],
        "output": [_value(i, names) for i in module.outputs],
        "valueInfo": [_value(i, names) for i in inner],
    }


def _node(ins: Instruction, names: dict[Instruction, str]) -> dict[str, Any]:
    attributes = [_attribute(k, v) for k, v in ins.op.attributes().items() if v != ()]
    attributes += [{"name": m.name, "type": "GRAPH", "g": _graph(m, names)} for m in ins.modules]
    node = {"opType": ins.name, "domain": "migraphx", "name": names[ins], "attribute": attributes}
    node |= {"input": [names[i] for i in ins.inputs], "output": [names[ins]]}
    return node | ({"docString": ins.origin} if ins.origin else {})


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, (bool, int)):
        return {"name": name, "type": "INT", "i": str(int(value))}
    if isinstance(value, float):
        return {"name": name, "type": "FLOAT", "f": _number(value)}
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return {"name": name, "type": "INTS", "ints": [str(int(v)) for v in value]}
    if isinstance(value, tuple) and all(isinstance(v, float) for v in value):
        return {"name": name, "type": "FLOATS", "floats": [_number(v) for v in value]}
    return {"name": name, "type": "STRING", "s": base64.b64encode(str(value).encode()).decode()}


def _number(value: float) -> float | str:
    """A float32 as protobuf's JSON writes it, which has words for what JSON has no number for."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return spelled.get(str(single), single)


def _tensor(name: str, value: np.ndarray) -> dict[str, Any]:
    type = Shape.of(value).type
    tensor: dict[str, Any] = {"name": name, "dims": [str(n) for n in value.shape], "dataType": _onnx_type(type)}
    if value.size <= SHOWN_ELEMENTS:
        tensor["rawData"] = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return tensor


def _value(ins: Instruction, names: dict[Instruction, str]) -> dict[str, Any]:
    return {"name": names[ins], "type": _type(ins.shape)}


def _type(s: Shape) -> dict[str, Any]:
    if s.sub_shapes:
        return {"denotation": str(s)}
    dims: list[dict[str, str]] = [{"dimValue": str(n)} for n in s.lens]
    dims = [{"dimParam": f"{d.min}..{d.max}"} for d in s.dyn_dims] or dims
    return {"tensorType": {"elemType": _onnx_type(s.type), "shape": {"dim": dims}}}


def _onnx_type(type: str) -> int:
    """0, undefined, for a type that ONNX does not have."""
    return ONNX_TYPES.index(type) if type in ONNX_TYPES else 0
