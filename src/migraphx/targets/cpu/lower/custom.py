"""Users' operators, whose C++ body is called on parts of the output."""

from __future__ import annotations

from typing import Any

from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Refusal
from migraphx.ops.custom import CustomOperation
from migraphx.targets.common.call import Call
from migraphx.targets.common.lowering import LoweringContext
from migraphx.targets.common.views import View
from migraphx.targets.cpu.emit.kernel import Kernel, function
from migraphx.targets.cpu.emit.params import Numbers
from migraphx.targets.cpu.emit.scalar import STORAGE_TYPES, constant_text
from migraphx.targets.cpu.lower.registry import CPU
from migraphx.targets.target import UnsupportedOperator


@CPU.of_custom
def custom(ctx: LoweringContext, ins: Instruction) -> None:
    op = ins.op
    assert isinstance(op, CustomOperation)
    for key, value in op.attributes().items():
        if not _spelt(value):
            why = f"its C++ body cannot have the attribute {key}={value!r}"
            raise UnsupportedOperator("cpu", [Refusal(ins, "target cpu", why)])
    reads = tuple(ctx.standard(v, ins.origin) for v in ctx.reads(ins))
    ctx.row_major(ins, lambda out: ctx.call(_call(op, reads, out, ins.origin)))


def _call(op: CustomOperation, reads: tuple[View, ...], out: View, origin: str) -> Call:
    names = [*(f"in{k}" for k in range(len(reads))), "out"]
    lines, numbers = [], Numbers()
    for k, (name, view) in enumerate(zip(names, (*reads, out), strict=True)):
        type = STORAGE_TYPES[view.type] if name == "out" else f"const {STORAGE_TYPES[view.type]}"
        lines.append(f"[[maybe_unused]] {type}* const {name} = reinterpret_cast<{type}*>(p[{k}]);")
        lines.append(f"[[maybe_unused]] const int64_t* const {name}_lens = {numbers.all(view.lens)};")
    lines += [_constant(key, value) for key, value in op.attributes().items()]
    lines.append(f"const Range mine = t.share({numbers.one(out.elements)}, 64);")
    lines.append("[[maybe_unused]] const int64_t begin = mine.begin, end = mine.end;")
    lines.append("{\n" + op.cpp.replace("$", "$$") + "\n}")
    kernel = Kernel(f"// {op.name}\n" + function(lines), ("vec.hpp", *op.includes))
    return Call(kernel, reads, (out,), numbers.values, op.name, origin)


def _spelt(value: Any) -> bool:
    """Whether an attribute has a C++ text."""
    return isinstance(value, int | float | str) or (isinstance(value, tuple) and all(isinstance(v, int) for v in value))


def _constant(key: str, value: Any) -> str:
    """An attribute as a C++ constant of its name."""
    if isinstance(value, bool):
        text = f"const bool {key} = {str(value).lower()};"
    elif isinstance(value, int):
        text = f"const int64_t {key} = {constant_text(value)};"
    elif isinstance(value, float):
        text = f"const double {key} = {constant_text(value)};"
    elif isinstance(value, str):
        octal = "".join(f"\\{byte:03o}" for byte in value.encode())  # a file may bring it: it must not end the literal
        text = f'const char* const {key} = "{octal}";'
    else:
        text = f"const int64_t {key}[] = {{{', '.join(map(str, value)) or '0'}}};"
    return "[[maybe_unused]] " + text.replace("$", "$$")
