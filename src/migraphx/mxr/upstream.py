"""A program as upstream's files hold it: the dictionary that MIGraphX writes as JSON or msgpack.

Names and nesting follow AMDMIGraphX's own files of version 7: `version`, `migraphx_version`, `targets`, `contexts`
and `modules`; a module's `nodes` have `output`, `name`, `shape`, `normalized`, `operator`, `inputs`, and where they
apply `literal`, `module_inputs`. Enumerations are numbers. Bytes stay `bytes`; in JSON they are {"bytes": [...]}.
"""

from __future__ import annotations

import json
from typing import Any

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Operation, operators
from migraphx.ir.origin import symbols_of
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.text import names_of
from migraphx.mxr.graph import memory
from migraphx.mxr.layers import activations_written, stands_for_layer
from migraphx.mxr.upstream_shapes import TYPES, shape_data
from migraphx.ops.recurrent import Lstm, Recurrent

FILE_VERSION = 7
POOLING_MODES = ("average", "max", "lpnorm")
LAYERS = operators(lambda op: issubclass(op, Recurrent))
RNN_DIRECTIONS = ("forward", "reverse", "bidirectional")
ENUMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("convert", "target_type"): TYPES,
    ("bit_cast", "target_type"): TYPES,
    ("quantizelinear", "out_type"): TYPES,
    ("pad", "mode"): ("constant", "reflect", "edge"),
    ("pooling", "mode"): POOLING_MODES,
    ("roialign", "mode"): ("avg", "max"),
    **dict.fromkeys((("multinomial", "dtype"), ("random_seed", "dtype"), ("allocate", "buf_type")), TYPES),
    **{(name, "direction"): RNN_DIRECTIONS for name in (*LAYERS, "rnn_var_sl_last_output", "rnn_var_sl_shift_output")},
}
"""(operator, attribute) -> the names whose positions upstream writes."""


def by_name(operator: str, key: str, value: Any) -> Any:
    """An attribute whose value may be the number of an enumeration's member, as our operators hold it."""
    names = ENUMS.get((operator, key), ())
    return names[value] if type(value) is int and 0 <= value < len(names) else value


def to_upstream(program: Program) -> dict[str, Any]:
    """The whole program, uncompiled. Operators that upstream does not have are written under their names."""
    names: dict[Instruction, str] = {}
    modules = list(dict.fromkeys((*program.modules.values(), *reachable(program.main))))
    for m in modules:
        names |= names_of(m, "" if m.name == "main" else f"{m.name}:")
    return {
        "version": FILE_VERSION,
        "migraphx_version": f"openmgx {own_version()}",
        "targets": [],
        "contexts": [],
        "modules": {m.name: {"name": m.name, "nodes": _nodes(m, names)} for m in modules},
    }


def to_json(program: Program) -> str:
    """What `to_upstream` gives as JSON."""
    return json.dumps(to_upstream(program), default=_bytes_as_json)


def own_version() -> str:
    """The version of this distribution."""
    from importlib import metadata  # 18 ms, which only those who write such files should wait for

    return metadata.version("openmgx")


def attributes_of(op: Operation) -> dict[str, Any]:
    """An operator's attributes as upstream writes them: enumerations by number; a type that it lacks by name."""
    found = op.attributes()
    for key, value in found.items():
        known = ENUMS.get((op.name, key), ())
        if isinstance(value, Shape):
            found[key] = shape_data(value)
        elif value in known:
            found[key] = known.index(value)
    return found | {"actv_func": activations_written(op)} if isinstance(op, Recurrent) else found


def _nodes(module: Module, names: dict[Instruction, str]) -> list[dict[str, Any]]:
    nodes = []
    for ins in module:
        if stands_for_layer(ins):
            names[ins] = names[ins.inputs[0]]
            continue
        shape = ins.shape.sub_shapes[0] if isinstance(ins.op, Lstm) else ins.shape
        node: dict[str, Any] = {
            "output": names[ins],
            "name": ins.name,
            "shape": shape_data(shape),
            "normalized": False,
            "operator": {} if isinstance(ins.op, Literal) else attributes_of(ins.op),
            "inputs": [names[i] for i in ins.inputs],
        }
        if isinstance(ins.op, Literal):
            node["literal"] = {"shape": node["shape"], "data": memory(ins.op.value, ins.shape).tobytes()}
        if ins.modules:
            node["module_inputs"] = [m.name for m in ins.modules]
        if ins.origin:
            node["debug_symbols"] = list(symbols_of(ins.origin)) or [ins.origin]
        nodes.append(node)
    return nodes


def _bytes_as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": list(value)}
    raise TypeError(f"an attribute has no JSON form: {value!r}")
