"""Python code that builds a program through the public API."""

from __future__ import annotations

import math
from typing import Any

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import SHOWN_ELEMENTS


def python_code(program: Program) -> str:
    """Statements that leave an equal program in `p`; literals too large to print get generated values."""
    writer = _Writer(program)
    for module in program.modules.values():
        writer.module(module)
    return "\n".join(["import migraphx", "", "p = migraphx.program()", *writer.lines]) + "\n"


class _Writer:
    """Modules are created first, in order, and filled when the first instruction refers to them."""

    def __init__(self, program: Program) -> None:
        self.lines: list[str] = []
        self.names: dict[Instruction, str] = {}
        self.modules: dict[Module, str] = {}
        self.filled: set[Module] = set()
        for k, m in enumerate(program.modules.values()):
            self.modules[m] = "m" if m.name == "main" else f"m{k}"
            made = "p.get_main_module()" if m.name == "main" else f"p.create_module({m.name!r})"
            self.lines.append(f"{self.modules[m]} = {made}")

    def module(self, module: Module) -> None:
        if module in self.filled:
            return
        self.filled.add(module)
        owner = self.modules[module]
        self.names |= {ins: f"{owner}_{n}" for n, ins in enumerate(module)}
        front = [i for i in module if isinstance(i.op, (Parameter, Literal))]
        for ins in reversed(front):  # each goes to the front of its module
            self.lines.append(f"{self.names[ins]} = {owner}.{_leaf(ins)}")
        for ins in module:
            if not isinstance(ins.op, (Parameter, Literal)):
                self.instruction(ins, owner)

    def instruction(self, ins: Instruction, owner: str) -> None:
        for m in ins.modules:
            self.module(m)
        args = f"[{', '.join(self.names[i] for i in ins.inputs)}]"
        if ins.name == "@return":
            self.lines.append(f"{owner}.add_return({args})")
            return
        attributes = "".join(f", {k}={_value(v)}" for k, v in ins.op.attributes().items())
        modules = f", [{', '.join(self.modules[m] for m in ins.modules)}]" if ins.modules else ""
        call = f"add_instruction(migraphx.op({ins.name!r}{attributes}), {args}{modules})"
        self.lines.append(f"{self.names[ins]} = {owner}.{call}")


def _leaf(ins: Instruction) -> str:
    shape = _shape(ins.shape)
    if isinstance(ins.op, Parameter):
        return f"add_parameter({ins.op.parameter!r}, {shape})"
    value = ins.literal
    assert value is not None
    if value.size > SHOWN_ELEMENTS:
        return f"add_literal(migraphx.generate_argument({shape}))"
    return f"add_literal(migraphx.create_argument({shape}, {_value(value.ravel().tolist())}))"


def _shape(s: Shape) -> str:
    if s.dyn_dims:
        dims = ", ".join(f"migraphx.shape.dynamic_dimension({d.min}, {d.max}, {list(d.optimals)})" for d in s.dyn_dims)
        return f"migraphx.shape(type={s.type!r}, dyn_dims=[{dims}])"
    strides = "" if s.standard and s == s.as_standard() else f", strides={list(s.strides)}"
    return f"migraphx.shape(type={s.type!r}, lens={list(s.lens)}{strides})"


def _value(value: Any) -> str:
    """As repr, but for the floats that repr does not write as Python reads them."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)
