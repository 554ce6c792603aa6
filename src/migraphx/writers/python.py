"""Python code that builds a program through the public API."""

from __future__ import annotations

import json
import math
from typing import Any

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Parameter
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import SHOWN_ELEMENTS
from migraphx.mxr.upstream_shapes import shape_data
from migraphx.writers.code import CodeWriter


def to_python(program: Program) -> str:
    """Statements that leave an equal program in `p`; literals too large to print get generated values."""
    return "\n".join(["import migraphx", "", "p = migraphx.program()", *_Writer(program).lines]) + "\n"


class _Writer(CodeWriter):
    def create(self, module: Module) -> None:
        made = "p.get_main_module()" if module.name == "main" else f"p.create_module({module.name!r})"
        self.lines.append(f"{self.modules[module]} = {made}")

    def leaf(self, ins: Instruction, owner: str) -> None:
        self.lines.append(f"{self.names[ins]} = {owner}.{_leaf(ins)}")

    def instruction(self, ins: Instruction, owner: str) -> None:
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
    if any(d.symbol for d in s.dyn_dims):
        return f"migraphx.shape.from_json({json.dumps(shape_data(s))!r})"
    if s.dyn_dims:
        dims = ", ".join(f"migraphx.shape.dynamic_dimension({d.min}, {d.max}, {list(d.optimals)})" for d in s.dyn_dims)
        return f"migraphx.shape(type={s.type!r}, dyn_dims=[{dims}])"
    strides = "" if s.standard and s == s.as_standard() else f", strides={list(s.strides)}"
    return f"migraphx.shape(type={s.type!r}, lens={list(s.lens)}{strides})"


def _value(value: Any) -> str:
    """As repr, but for the floats that repr does not write as Python reads them."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Shape):
        return _shape(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)
