"""A program's modules as JSON and named tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, operation
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import DynamicDimension, Shape, strided
from migraphx.mxr.container import FileError


def shape_data(s: Shape) -> dict[str, Any]:
    """A shape as JSON holds it."""
    if s.sub_shapes:
        return {"sub_shapes": [shape_data(x) for x in s.sub_shapes]}
    if s.dyn_dims:
        return {"type": s.type, "dyn_dims": [[d.min, d.max, list(d.optimals), d.symbol] for d in s.dyn_dims]}
    return {"type": s.type, "lens": list(s.lens), "strides": list(s.strides)}


def read_shape(data: dict[str, Any]) -> Shape:
    if "sub_shapes" in data:
        return Shape.tuple_of(read_shape(x) for x in data["sub_shapes"])
    if "dyn_dims" in data:
        dims = (DynamicDimension(a, b, tuple(o), *map(str, symbol)) for a, b, o, *symbol in data["dyn_dims"])
        return Shape(data["type"], dyn_dims=tuple(dims))
    return Shape(data["type"], tuple(data["lens"]), tuple(data["strides"]))


def dump(program: Program) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """The modules as JSON, and the literals they refer to by name; equal literals are written once."""
    tensors: dict[str, np.ndarray] = {}
    keys: dict[tuple, str] = {}
    ids: dict[Instruction, str] = {}
    modules = list(dict.fromkeys((*program.modules.values(), *reachable(program.main))))
    for module in modules:
        ids |= {ins: f"{module.name}:{n}" for n, ins in enumerate(module)}
    return [_dump_module(m, ids, tensors, keys) for m in modules], tensors


def _dump_module(
    module: Module, ids: dict[Instruction, str], tensors: dict[str, np.ndarray], keys: dict[tuple, str]
) -> dict[str, Any]:
    lines = []
    for ins in module:
        line: dict[str, Any] = {"op": ins.name, "inputs": [ids[i] for i in ins.inputs]}
        if isinstance(ins.op, Literal):
            name = keys.setdefault(ins.op.key, f"literal.{len(keys)}")
            tensors[name] = memory(ins.op.value, ins.shape)
            line |= {"tensor": name, "shape": shape_data(ins.shape)}
        elif isinstance(ins.op, Parameter):
            line |= {"parameter": ins.op.parameter, "shape": shape_data(ins.shape)}
        else:
            given = ins.op.attributes().items()
            line["attributes"] = {k: shape_data(v) if isinstance(v, Shape) else v for k, v in given}
        if ins.modules:
            line["modules"] = [m.name for m in ins.modules]
        if ins.origin:
            line["origin"] = ins.origin
        lines.append(line)
    return {"name": module.name, "instructions": lines}


def memory(value: np.ndarray, shape: Shape) -> np.ndarray:
    """A literal's elements as they lie in memory, from the first to the last."""
    if shape.standard:
        return np.ascontiguousarray(value)
    flat = np.empty(shape.element_space, value.dtype)
    strided(flat, shape)[...] = value
    return flat


def load(modules: list[dict[str, Any]], tensors: dict[str, np.ndarray]) -> Program:
    """The program that `dump` gave; FileError names the instruction that cannot be read."""
    program = Program()
    lines: dict[str, list[dict[str, Any]]] = {}
    for m in modules:
        if m["name"] in lines:
            raise FileError(f"module {m['name']!r} is there twice")
        lines[m["name"]] = m["instructions"]
        if m["name"] not in program.modules:
            program.create_module(m["name"])
    ids: dict[str, Instruction] = {}
    # A module may use values of the module that holds it: outer ones first, their inner modules when they are due.
    state = _Loading(program, lines, tensors, ids)
    for name in lines:
        state.module(name)
    return program


class _Loading:
    """Modules are read when the first instruction that refers to them is, so that outer values are there."""

    def __init__(
        self,
        program: Program,
        lines: dict[str, list[dict[str, Any]]],
        tensors: dict[str, np.ndarray],
        ids: dict[str, Instruction],
    ) -> None:
        self.program, self.lines, self.tensors, self.ids = program, lines, tensors, ids
        self.begun: set[str] = set()

    def module(self, name: str) -> Module:
        module = self.program.modules[name]
        if name in self.begun:
            return module
        self.begun.add(name)
        for n, line in enumerate(self.lines[name]):
            try:
                self.ids[f"{name}:{n}"] = self._instruction(module, line)
            except FileError:
                raise
            except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
                op = line.get("op", "?") if isinstance(line, dict) else "?"
                why = f"{error} is missing" if isinstance(error, KeyError) else error
                raise FileError(f"module {name!r}, instruction {n} ({op}): {why}") from None
        return module

    def _instruction(self, module: Module, line: dict[str, Any]) -> Instruction:
        origin = line.get("origin", "")
        if line["op"] == "@literal":
            shape = read_shape(line["shape"])
            flat = self.tensors[line["tensor"]].reshape(-1)
            if flat.dtype != shape.numpy_dtype or flat.size < shape.element_space:
                raise FileError(f"tensor {line['tensor']!r} does not fit its literal {shape}")
            ins = Instruction(Literal(strided(flat, shape)), (), shape, origin=origin)
            return module.append(ins)
        if line["op"] == "@param":
            return module.add_parameter(line["parameter"], read_shape(line["shape"]), last=True)
        modules = [self.module(m) for m in line.get("modules", ())]
        inputs = [self.ids[i] for i in line["inputs"]]
        given = line.get("attributes", {}).items()
        attributes = {k: read_shape(v) if isinstance(v, dict) else v for k, v in given}
        return module.add_instruction(operation(line["op"], **attributes), inputs, modules, origin=origin)
