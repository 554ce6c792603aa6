"""C++ that builds a program through MIGraphX's public C++ interface (`migraphx/migraphx.hpp`)."""

from __future__ import annotations

import json
import re

from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, Parameter
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.ir.text import SHOWN_ELEMENTS
from migraphx.mxr.graph import memory
from migraphx.mxr.upstream import attributes_of
from migraphx.writers.code import CodeWriter


def to_cpp(program: Program) -> str:
    """A function `make_program` that builds an equal program; literals too large to print get generated values."""
    body = "\n".join(f"    {line}" for line in _Writer(program).lines)
    return (
        "#include <cstddef>\n#include <vector>\n\n#include <migraphx/migraphx.hpp>\n\n"
        f"migraphx::program make_program() {{\n    migraphx::program p;\n{body}\n    return p;\n}}\n"
    )


class _Writer(CodeWriter):
    def create(self, module: Module) -> None:
        made = "p.get_main_module()" if module.name == "main" else f"p.create_module({_text(module.name)})"
        self.lines.append(f"migraphx::module {self.modules[module]} = {made};")

    def leaf(self, ins: Instruction, owner: str) -> None:
        name, shape = self.names[ins], _shape(ins.shape)
        if isinstance(ins.op, Parameter):
            self.lines.append(f"auto {name} = {owner}.add_parameter({_text(ins.op.parameter)}, {shape});")
            return
        assert isinstance(ins.op, Literal)
        if ins.op.value.size > SHOWN_ELEMENTS:
            self.lines.append(f"auto {name}_data = migraphx::argument::generate({shape});")
            self.lines.append(f"auto {name} = {owner}.add_literal({shape}, {name}_data.data());")
            return
        values = memory(ins.op.value, ins.shape).tobytes()
        shown = ", ".join(f"0x{b:02x}" for b in values) or "0"
        self.lines.append(f"alignas(16) const unsigned char {name}_data[] = {{{shown}}};  // {ins.op.value.tolist()}")
        self.lines.append(f"auto {name} = {owner}.add_literal({shape}, {name}_data);")

    def instruction(self, ins: Instruction, owner: str) -> None:
        inputs = f"migraphx::instructions({', '.join(self.names[i] for i in ins.inputs)})"
        if ins.name == "@return":
            self.lines.append(f"{owner}.add_return({inputs});")
            return
        attributes = attributes_of(ins.op)
        # upstream formats the attributes with printf
        given = f", {_text(json.dumps(attributes).replace('%', '%%'))}" if attributes else ""
        modules = f", migraphx::modules({', '.join(self.modules[m] for m in ins.modules)})" if ins.modules else ""
        operation = f"migraphx::operation({_text(ins.name)}{given})"
        self.lines.append(f"auto {self.names[ins]} = {owner}.add_instruction({operation}, {inputs}{modules});")


def _shape(s: Shape) -> str:
    if s.dyn_dims:
        dims = ", ".join(_dimension(d.min, d.max, d.optimals) for d in s.dyn_dims)
        return f"migraphx::shape(migraphx_shape_{s.type}_type, migraphx::dynamic_dimensions({dims}))"
    steps = "" if s == s.as_standard() else f", {_numbers(s.strides)}"
    return f"migraphx::shape(migraphx_shape_{s.type}_type, {_numbers(s.lens)}{steps})"


def _numbers(values: tuple[int, ...]) -> str:
    """Spelt out: a bare list could also be read as dynamic dimensions."""
    return f"std::vector<std::size_t>{{{', '.join(map(str, values))}}}"


def _dimension(low: int, high: int, optimals: tuple[int, ...]) -> str:
    more = f", migraphx::optimals({{{', '.join(map(str, optimals))}}})" if optimals else ""
    return f"migraphx::dynamic_dimension({low}, {high}{more})"


def _text(value: str) -> str:
    """A C++ string literal."""
    plain = json.dumps(value, ensure_ascii=False)
    return re.sub(r"\?(?=\?)", r"?\\", plain)  # no trigraphs
