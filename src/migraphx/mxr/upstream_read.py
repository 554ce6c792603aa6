"""Programs of AMD's files: the dictionaries that MIGraphX writes as JSON or msgpack, uncompiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import OPERATIONS, Literal, Operation, Unsupported, operation
from migraphx.ir.origin import DebugSymbols
from migraphx.ir.program import Program
from migraphx.ir.reader import ModuleReader
from migraphx.ir.shape import Shape, strided
from migraphx.mxr import msgpack
from migraphx.mxr.container import FileError
from migraphx.mxr.layers import activations_read, as_ours
from migraphx.mxr.upstream import by_name
from migraphx.mxr.upstream_shapes import shape_of
from migraphx.ops.recurrent import Lstm

VERSIONS = range(4, 8)  # what `modules` looks like is the only difference that concerns a reader


class UnsupportedFile(FileError, Unsupported):
    """A whole file that this build cannot read: says why."""


def parse(data: bytes) -> Program:
    """The program of a file of either form; FileError says where it breaks."""
    if data[:64].lstrip()[:1] != b"{":
        return from_upstream(msgpack.unpack(data))
    try:
        return from_upstream(json.loads(data))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"not JSON: {error}") from None


def from_upstream(data: Any) -> Program:
    """What `to_upstream` gives, or MIGraphX itself, as a program; FileError names the module and node."""
    modules = _modules(data)
    unknown = sorted({_name(n) for nodes in modules.values() for n in nodes} - OPERATIONS.keys())
    if unknown:
        raise UnsupportedFile(f"operators that are not supported: {', '.join(unknown)}")
    reader = _Reader(modules)
    reader.module("main")
    return reader.program


def _modules(data: Any) -> dict[str, list[dict[str, Any]]]:
    """Nodes by module, of a program that is not compiled."""
    if not isinstance(data, dict) or "modules" not in data or "version" not in data:
        raise FileError("no MIGraphX program: it has no version or no modules")
    if data["version"] not in VERSIONS:
        raise FileError(f"file version {data['version']!r} is not known; {VERSIONS[0]} to {VERSIONS[-1]} are")
    targets = data.get("targets") or data.get("target")
    if targets:
        each = targets if isinstance(targets, list) else [targets]
        names = ", ".join(str(t.get("name", t) if isinstance(t, dict) else t) for t in each)
        raise UnsupportedFile(f"the program is compiled for {names}: only uncompiled programs can be read")
    given = data["modules"]
    entries = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(entries, list) or not all(isinstance(m, dict) for m in entries):
        raise FileError("modules: not a list or dictionary of modules")
    found: dict[str, list[dict[str, Any]]] = {}
    for m in entries:
        name, nodes = m.get("name"), m.get("nodes") or []
        whole = isinstance(nodes, list) and all(isinstance(n, dict) for n in nodes)
        if not isinstance(name, str) or name in found or not whole:
            raise FileError(f"module {name!r}: its name is missing or taken, or its nodes are no list")
        found[name] = nodes
    if "main" not in found:
        raise FileError("modules: there is no main")
    return found


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("name"))


class _Reader(ModuleReader[Mapping[str, Any]]):
    error = FileError

    def where(self, module: str, number: int, line: Mapping[str, Any]) -> str:
        return f"module {module!r}, node {number} ({_name(line)})"

    def instruction(self, module: Module, number: int, line: Mapping[str, Any]) -> tuple[str, Instruction]:
        return line["output"], self._made(module, line)

    def _made(self, module: Module, node: Mapping[str, Any]) -> Instruction:
        name, symbols = node["name"], node.get("debug_symbols")
        origin = DebugSymbols(map(str, symbols)) if symbols else ""
        given = node.get("operator") or {}
        if name == "@param":
            made = module.add_parameter(given["parameter"], shape_of(node["shape"]), last=True)
            made.origin = origin
            return made
        if name == "@literal":
            value, shape = _literal(node["literal"])
            return module.append(Instruction(Literal(value), (), shape, origin=origin))
        inputs = [self.value(i) for i in node.get("inputs") or ()]
        modules = [self.module(m) for m in node.get("module_inputs") or ()]
        op, inputs = as_ours(module, _operation(name, given), inputs)
        made = module.add_instruction(op, inputs, modules, origin=origin)
        stated, inferred = shape_of(node["shape"]), made.shape.sub_shapes[0] if isinstance(op, Lstm) else made.shape
        if name != "@return" and (inferred.type, inferred.lens) != (stated.type, stated.lens):
            raise ValueError(f"its shape is {stated} in the file, {inferred} by its inputs")
        return made


def _operation(name: str, given: Mapping[str, Any]) -> Operation:
    """Attributes that are not ours may have only a value that stands for nothing."""
    known = {f.name: str(f.type) for f in fields(OPERATIONS[name])}  # type: ignore[arg-type]
    attributes = {}
    for key, value in given.items():
        if key not in known and not value:
            continue
        if value is None and not known.get(key, "").startswith("tuple"):
            continue
        value = by_name(name, key, value)
        if known.get(key) == "Shape" and isinstance(value, Mapping):
            value = shape_of(value)
        attributes[key] = () if value is None else value
    return operation(name, **(activations_read(attributes) if "actv_func" in known else attributes))


def _literal(data: Mapping[str, Any]) -> tuple[np.ndarray, Shape]:
    """The elements as they lie in memory: bytes, in JSON a list of them."""
    shape, raw = shape_of(data["shape"]), data["data"]
    raw = raw["bytes"] if isinstance(raw, dict) else raw
    if isinstance(raw, list) and raw and isinstance(raw[0], bytes):
        raw = b"".join(raw)
    if not isinstance(raw, (bytes, list)):
        raise ValueError(f"its data is no list of bytes but {type(raw).__name__}")
    flat = np.frombuffer(bytes(raw), shape.numpy_dtype)
    if flat.size != shape.element_space:
        raise ValueError(f"{flat.size} elements of data for {shape}")
    return strided(flat, shape), shape
