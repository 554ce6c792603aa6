"""MIGraphX's printed form, written and read: parse(print(m)) == m."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction, Module
from migraphx.ir.operation import Literal, OpenLiteral, Operation, Parameter, operation
from migraphx.ir.program import Program
from migraphx.ir.reader import ModuleReader
from migraphx.ir.shape import DynamicDimension, Shape, strided
from migraphx.ir.size import Size

SHOWN_ELEMENTS = 10
_ARRAY = r"(?:\w+_type, \{[\d, ]*\}, \{[\d, ]*\}|dynamic, \w+_type, \{(?:\[\d+, \d+, \{[\d, ]*\}\](?:, )?)*\})"
SHAPE = re.compile(rf"{_ARRAY}|tuple_type\((?:{_ARRAY}(?:; )?)*\)")
LINE = re.compile(r"(?P<name>\S+) = (?P<op>@\w+|[\w:]+)(?P<rest>.*?)(?: -> (?P<shape>(?:dynamic, )?\S+_type.*))?$")
GAP = re.compile(r",\s*|\s+")
MOST_SHOWN = 300  # characters of a line in an error


class TextError(ValueError):
    """A text that is no module: names the line."""


# ---- printing ----


def attribute_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, (int, Size)):
        return str(value)
    if _is_tuple(value):
        return "{" + ", ".join(map(attribute_text, value)) + "}"
    text = str(value)
    if isinstance(value, Shape):
        return text
    if re.fullmatch(r"[\w:.+@/-]*", text) and not _is_number(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def literal_text(value: np.ndarray, full: bool) -> str:
    return "{ ... }" if value.size > SHOWN_ELEMENTS and not full else f"{{{values_text(value, full)}}}"


def values_text(value: np.ndarray, exact: bool = False) -> str:
    """The elements in row-major order; floats with six digits, or `exact`ly."""
    value = dtypes.numbers(value)
    if value.dtype.kind in "bui":
        return ", ".join(str(int(v)) for v in value.flat)
    return ", ".join(repr(float(v)) if exact else f"{float(v):.6g}" for v in value.flat)


def operation_text(op: Operation, full: bool = False) -> str:
    """An operator with its attributes: `transpose[permutation={1, 0}]`."""
    if isinstance(op, Parameter):
        return f"@param:{op.parameter}"
    if isinstance(op, OpenLiteral):
        return f"@literal{{{', '.join(map(str, op.sizes.flat))}}}"
    if isinstance(op, Literal):
        return f"@literal{literal_text(op.value, full)}"
    attributes = ",".join(f"{k}={attribute_text(v)}" for k, v in op.attributes().items())
    return f"{op.name}[{attributes}]" if attributes else op.name


def names_of(module: Module, prefix: str = "") -> dict[Instruction, str]:
    return {
        ins: f"{prefix}{ins.op.parameter}" if isinstance(ins.op, Parameter) else f"{prefix}@{n}"
        for n, ins in enumerate(module)
    }


def module_text(
    module: Module, outer: dict[Instruction, str] | None = None, full: bool = False, origins: bool = False
) -> str:
    """The lines of one module; `full` prints all elements of literals, `origins` where each came from."""
    main = module.name == "main"
    names = (outer or {}) | names_of(module, "" if main else f"{module.name}:")
    return "\n".join(instruction_text(ins, names, full, origins) for ins in module)


def instruction_text(ins: Instruction, names: dict[Instruction, str], full: bool = False, origins: bool = False) -> str:
    """One line: `names` has the instruction and its inputs."""
    args = f"({','.join(names[i] for i in ins.inputs)})" if ins.inputs else ""
    modules = f", [{', '.join(m.name for m in ins.modules)}]" if ins.modules else ""
    shape = "" if ins.name == "@return" else f" -> {ins.shape}"
    origin = f"  /* {ins.origin} */" if origins and ins.origin else ""
    return f"{names[ins]} = {operation_text(ins.op, full)}{args}{modules}{shape}{origin}"


def program_text(program: Program, full: bool = False, origins: bool = False) -> str:
    names: dict[Instruction, str] = {}
    modules = program.modules.values()
    for m in modules:
        names |= names_of(m, "" if m.name == "main" else f"{m.name}:")
    parts = [f'module: "{m.name}"\n{module_text(m, names, full, origins)}\n' for m in modules]
    return "\n".join(parts)


# ---- parsing ----


def parse_program(text: str) -> Program:
    """Read what `program_text` prints; elided literals (`{ ... }`) are zeros. TextError names a bad line."""
    chunks = re.split(r'^module: "([^"]*)"$', text, flags=re.M)
    bodies: dict[str, str] = {}
    for name, body in zip(chunks[1::2], chunks[2::2], strict=True):
        if name in bodies:
            raise TextError(f"module {name!r} is there twice")
        bodies[name] = body
    if bodies and chunks[0].strip():
        raise TextError(f"{chunks[0].strip()[:MOST_SHOWN]!r} stands before the first module")
    bodies = bodies or {"main": text}
    return _Reader({name: _lines(body) for name, body in bodies.items()}).all()


def parse_module(text: str) -> Module:
    """Read one module's lines."""
    return parse_program(text).main


def _lines(body: str) -> list[str]:
    """What stands in the lines, without comments."""
    found = (re.sub(r"\s*/\*.*?\*/\s*$", "", raw).strip() for raw in body.splitlines())
    return [line for line in found if line]


class _Reader(ModuleReader[str]):
    error = TextError

    def where(self, module: str, number: int, line: str) -> str:
        return repr(line[:MOST_SHOWN])

    def instruction(self, module: Module, number: int, line: str) -> tuple[str, Instruction]:
        found = LINE.match(line)
        if not found:
            raise ValueError("not of the form `@n = op[attributes](inputs) -> shape`")
        name, op_name, rest = found["name"], found["op"], found["rest"]
        shape = parse_shape(found["shape"]) if found["shape"] else None
        if op_name == "@param" and shape is not None:
            return name, module.add_parameter(rest[1:], shape, last=True)
        if op_name == "@literal" and shape is not None:
            return name, module.append(Instruction(Literal(_literal(rest, shape)), (), shape))
        attributes, rest = _split_attributes(rest)
        inputs, _, modules = rest.partition(")") if rest.startswith("(") else ("", "", rest)
        args = [self.value(a.strip()) for a in inputs.removeprefix("(").split(",") if a.strip()]
        inner = modules.removeprefix(", [").removesuffix("]").split(",")
        mods = [self.module(m.strip()) for m in inner if m.strip()]
        ins = module.add_instruction(operation(op_name, **attributes), args, mods)
        if shape is not None and ins.shape != shape:
            raise ValueError(f"inferred {ins.shape}")
        return name, ins


def _literal(text: str, shape: Shape) -> np.ndarray:
    view = strided(np.zeros(shape.element_space, shape.numpy_dtype), shape)
    if text != "{ ... }":
        read, dtype = (int, view.dtype) if shape.type in dtypes.INTEGERS else (float, None)
        values = np.array([read(v) for v in text.strip("{}").split(",") if v.strip()], dtype).reshape(shape.lens)
        with np.errstate(over="ignore"):
            view[...] = values.astype(view.dtype)
        if dtype is None and (np.isfinite(values) & ~np.isfinite(view.astype(float))).any():
            raise ValueError(f"a number is out of the range of {shape.type}")
    view.flags.writeable = False
    return view


def _split_attributes(rest: str) -> tuple[dict[str, Any], str]:
    if not rest.startswith("["):
        return {}, rest
    attributes: dict[str, Any] = {}
    position = 1
    while rest[position] != "]":
        equals = rest.index("=", position)
        key = rest[position:equals]
        attributes[key], position = _value(rest, equals + 1)
        if rest[position] == ",":
            position += 1
    return attributes, rest[position + 1 :]


def _value(text: str, at: int) -> tuple[Any, int]:
    """One attribute value starting at `at`, and the position behind it."""
    if found := SHAPE.match(text, at):
        return parse_shape(found[0]), found.end()
    if text[at] == "{":
        items: list[Any] = []
        at += 1
        while text[at] != "}":
            item, at = _value(text, at)
            items.append(item)
            gap = GAP.match(text, at)
            if gap is None and text[at] != "}":
                raise ValueError(f"a list is broken at {text[at : at + 10]!r}")
            at = gap.end() if gap else at
        return tuple(items), at + 1
    if text[at] == '"':
        found = re.compile(r'"((?:[^"\\]|\\.)*)"').match(text, at)
        if not found:
            raise ValueError("a string is not closed")
        return re.sub(r"\\(.)", r"\1", found[1]), found.end()
    found = re.compile(r"[^,\]}]*").match(text, at)
    assert found
    word = found[0]
    for read in (float,) if word == "-0" else (int, float):
        try:
            return read(word), found.end()
        except ValueError:
            continue
    return word, found.end()


def parse_shape(text: str) -> Shape:
    """Read what `str(Shape)` prints."""
    if text.startswith("tuple_type("):
        inner = text.removeprefix("tuple_type(").removesuffix(")")
        return Shape.tuple_of(parse_shape(part.strip()) for part in _outer_split(inner) if part)
    found = re.fullmatch(r"(\w+)_type, \{([\d, ]*)\}, \{([\d, ]*)\}", text)
    if found:
        return Shape(found[1], _ints(found[2]), _ints(found[3]))
    found = re.fullmatch(r"dynamic, (\w+)_type, \{(.*)\}", text)
    if not found:
        raise ValueError(f"not a shape: {text!r}")
    dims = re.findall(r"\[(\d+), (\d+), \{([\d, ]*)\}\]", found[2])
    return Shape(found[1], dyn_dims=tuple(DynamicDimension(int(a), int(b), _ints(o)) for a, b, o in dims))


def _outer_split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == ";" and not depth:
            yield text[start:n]
            start = n + 1
    yield text[start:]


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(v) for v in text.split(",") if v.strip())
