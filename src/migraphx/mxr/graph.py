"""A program's modules as JSON and named tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter, operation
from migraphx.ir.origin import DebugSymbols, symbols_of
from migraphx.ir.program import Program, reachable
from migraphx.ir.reader import ModuleReader
from migraphx.ir.shape import Shape, strided
from migraphx.mxr.container import FileError


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
            line |= {"tensor": name, "shape": ins.shape.to_data()}
        elif isinstance(ins.op, Parameter):
            line |= {"parameter": ins.op.parameter, "shape": ins.shape.to_data()}
        else:
            given = ins.op.attributes().items()
            if any(callable(v) for _, v in given):
                raise ValueError(f"{ins.name}: a Python function writes it once lengths are known, which no file holds")
            line["attributes"] = {k: v.to_data() if isinstance(v, Shape) else v for k, v in given}
        if ins.modules:
            line["modules"] = [m.name for m in ins.modules]
        if ins.origin:
            line["origin"] = ins.origin
        if names := symbols_of(ins.origin):
            line["debug_symbols"] = list(names)
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
    bodies: dict[str, list[dict[str, Any]]] = {}
    for m in modules:
        if m["name"] in bodies:
            raise FileError(f"module {m['name']!r} is there twice")
        bodies[m["name"]] = m["instructions"]
    return _Reader(bodies, tensors).all()


class _Reader(ModuleReader[dict[str, Any]]):
    error = FileError

    def __init__(self, bodies: dict[str, list[dict[str, Any]]], tensors: dict[str, np.ndarray]) -> None:
        super().__init__(bodies)
        self.tensors = tensors

    def where(self, module: str, number: int, line: dict[str, Any]) -> str:
        op = line.get("op", "?") if isinstance(line, dict) else "?"
        return f"module {module!r}, instruction {number} ({op})"

    def instruction(self, module: Module, number: int, line: dict[str, Any]) -> tuple[str, Instruction]:
        return f"{module.name}:{number}", self._made(module, line)

    def _made(self, module: Module, line: dict[str, Any]) -> Instruction:
        origin = DebugSymbols(line["debug_symbols"]) if "debug_symbols" in line else line.get("origin", "")
        if line["op"] == "@literal":
            shape = Shape.from_data(line["shape"])
            flat = self.tensors[line["tensor"]].reshape(-1)
            if flat.dtype != shape.numpy_dtype or flat.size < shape.element_space:
                raise FileError(f"tensor {line['tensor']!r} does not fit its literal {shape}")
            return module.append(Instruction(Literal(strided(flat, shape)), (), shape, origin=origin))
        if line["op"] == "@param":
            made = module.add_parameter(line["parameter"], Shape.from_data(line["shape"]), last=True)
            made.origin = origin
            return made
        modules = [self.module(m) for m in line.get("modules", ())]
        inputs = [self.value(i) for i in line["inputs"]]
        given = line.get("attributes", {}).items()
        attributes = {k: Shape.from_data(v) if isinstance(v, dict) else v for k, v in given}
        return module.add_instruction(operation(line["op"], **attributes), inputs, modules, origin=origin)
