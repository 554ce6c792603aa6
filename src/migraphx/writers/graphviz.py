"""A picture of a program in Graphviz's language (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from migraphx.ir.module import Instruction, Module, captured
from migraphx.ir.operation import Literal, Operation, Parameter, Return
from migraphx.ir.program import Program, reachable
from migraphx.ir.shape import Shape
from migraphx.ir.text import names_of, operation_text

FILLS: dict[type[Operation], str] = {Parameter: "lightblue", Literal: "lightgrey", Return: "lightyellow"}


def to_graphviz(program: Program, brief: bool = False) -> str:
    """A digraph: a node an instruction, an edge a value with its shape, a cluster a module.

    `brief` leaves out attributes, shapes, literals and modules that are kernels' bodies.
    """
    modules = [program.main] if brief else reachable(program.main)
    ids = {ins: f"{m.name}:{name}" for m in modules for ins, name in names_of(m).items()}
    lines = ["digraph {", "  rankdir=TB;", '  node [shape=box, style=filled, fillcolor=white, fontname="monospace"];']
    for m in modules:
        lines += _cluster(m, ids, brief) if m is not program.main else _nodes(m, ids, brief, "  ")
    for m in modules:
        for ins in m:
            lines += _edges(ins, ids, brief)
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(module: Module, ids: dict[Instruction, str], brief: bool) -> list[str]:
    head = [f"  subgraph {_quoted('cluster_' + module.name)} {{", f"    label={_quoted(module.name)};"]
    return [*head, *_nodes(module, ids, brief, "    "), "  }"]


def _nodes(module: Module, ids: dict[Instruction, str], brief: bool, indent: str) -> list[str]:
    shown = [ins for ins in module if not (brief and isinstance(ins.op, Literal))]
    return [f"{indent}{_quoted(ids[ins])} [{_label(ins, brief)}];" for ins in shown]


def _label(ins: Instruction, brief: bool) -> str:
    name = ins.op.parameter if isinstance(ins.op, Parameter) else ins.name
    parts = [name] if brief else [operation_text(ins.op)]
    parts += [m.name for m in ins.modules]
    if not brief and ins.name != "@return":
        parts.append(str(ins.shape))
    if not brief and ins.origin:
        parts.append(ins.origin)
    fill = FILLS.get(type(ins.op))
    return f"label={_quoted(*parts)}" + (f", fillcolor={fill}" if fill else "")


def _edges(ins: Instruction, ids: dict[Instruction, str], brief: bool) -> list[str]:
    sources = [*ins.inputs, *(i for i in captured(ins) if brief and i in ids)]  # else the inner nodes have the edge
    lines = []
    for source in dict.fromkeys(sources):
        if not (brief and isinstance(source.op, Literal)):
            label = "" if brief else f" [label={_quoted(_short(source.shape))}]"
            lines.append(f"  {_quoted(ids[source])} -> {_quoted(ids[ins])}{label};")
    return lines


def _short(s: Shape) -> str:
    """The part of a shape that an edge has room for."""
    return f"{s.type}{{{', '.join(map(str, s.lens))}}}" if not s.dyn_dims else str(s)


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
