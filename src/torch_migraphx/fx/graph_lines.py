"""Graphs and what they were compiled to, as the lines of a report."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx, nn

import migraphx
from torch_migraphx.fx.border import foreign
from torch_migraphx.fx.converter import target_name
from torch_migraphx.fx.graph_info import origin_of, value_of
from torch_migraphx.fx.mgx_module import MGXModule
from torch_migraphx.fx.partition import Piece
from torch_migraphx.options import Options
from torch_migraphx.report.data import Graph, Kernel, Line, Refused, Stage

MOST = 120  # characters of one argument
WEIGHT = re.compile(r"[lL]_(?:self|model)_(?P<path>modules_.+?_)?(?:parameters|buffers)_(?P<name>.+?)_?")
TOO_LITTLE = "too little for a piece of its own in the engine"
DYNAMIC = "the program has dynamic shapes, and is optimised for each set of lengths when it meets them"
WITH_ANOTHER = "it goes with the node that it takes apart"


# ---- graphs of torch's


def graph_lines(graph: fx.Graph, in_torch: Mapping[fx.Node, str] | None = None) -> tuple[Line, ...]:
    """A line for each node."""
    staying = in_torch or {}
    return tuple(node_line(n, staying.get(n, "")) for n in graph.nodes)


def node_line(n: fx.Node, in_torch: str = "") -> Line:
    """`name: type[lens] = target(arguments)`, with the line of Python that the node comes from."""
    origin = "" if n.op == "placeholder" else origin_of(n)  # an input's is whoever reads it first
    return Line(node_text(n), (origin,) if origin else (), in_torch, n.op in ("placeholder", "get_attr"))


def node_text(n: fx.Node) -> str:
    """As Python would write it."""
    if n.op == "output":
        return f"return {argument_text(n.args[0])}"
    name = f"{_name(n)}{_type_text(value_of(n))}"
    if n.op == "placeholder":
        return name
    if n.op == "get_attr":
        return f"{name} = self.{n.target}"
    called = f"self.{n.target}" if n.op == "call_module" else target_name(n.target)
    given = [argument_text(a) for a in n.args] + [f"{k}={argument_text(a)}" for k, a in n.kwargs.items()]
    return f"{name} = {called}({', '.join(given)})"


def argument_text(a: Any) -> str:
    """An argument of a node; what is long is cut."""
    if isinstance(a, fx.Node):
        return _name(a)
    if isinstance(a, tuple | list):
        inner = ", ".join(map(argument_text, a))
        return f"[{inner}]" if isinstance(a, list) else f"({inner}{',' * (len(a) == 1)})"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k!r}: {argument_text(v)}" for k, v in a.items()) + "}"
    if isinstance(a, torch.Tensor):
        return f"a tensor{_type_text(a)}"
    shown = f"a {type(a).__name__}" if isinstance(a, nn.Module) else repr(a)
    return shown if len(shown) <= MOST else f"{shown[:MOST]}..."


def _name(n: fx.Node) -> str:
    """A node's name; of a weight that Dynamo made an input, the name that the model has for it."""
    return weight_name(n.name) if n.op == "placeholder" else n.name


def weight_name(name: str) -> str:
    """`l_self_modules_blocks_modules_0_parameters_weight_` as `blocks.0.weight`; another name as it is."""
    found = WEIGHT.fullmatch(name)
    if not found:
        return name
    path = [part.rstrip("_") for part in (found["path"] or "").split("modules_")]
    return ".".join(filter(None, [*path, found["name"]]))


def _type_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        lens = "" if foreign(value) else f"[{', '.join(map(str, value.shape))}]"
        return f": {str(value.dtype).removeprefix('torch.')}{lens}"
    if isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat | torch.SymBool):
        return f": {value}"
    if isinstance(value, tuple | list):
        parts = [_type_text(v).removeprefix(": ") or "?" for v in value]
        return f": ({', '.join(parts)})"
    return ""


def inputs_text(inputs: Iterable[Any], constants: Collection[int]) -> str:
    """The inputs that a graph is compiled for, and how many weights are compiled in."""
    given = [_type_text(x).removeprefix(": ") or "?" for k, x in enumerate(inputs) if k not in constants]
    text = ", ".join(given) or "none"
    return text + (f"; {len(constants)} weights compiled in" if constants else "")


# ---- what they were compiled to


def compiled_graph(
    gm: fx.GraphModule,
    pieces: Sequence[Piece],
    refused: Mapping[fx.Node, migraphx.Refusal[fx.Node]],
    result: nn.Module,
    options: Options,
    inputs: str,
) -> Graph:
    """What `lower` made of the graph `gm`: no pieces where all of it is one program."""
    staying = {
        n: (refused[n].why or WITH_ANOTHER) if n in refused else TOO_LITTLE
        for piece in pieces
        for n in piece.nodes
        if n in refused or not piece.engine
    }
    converted = "The graph that the converters read: acc operators, or ATen where AOTAutograd or torch.export traced."
    stages = [Stage("Converted graph", converted, graph_lines(gm.graph, staying))]
    modules = {name: m for name, m in result.named_modules() if isinstance(m, MGXModule)}
    programs = {name: m.program for name, m in modules.items() if m.program is not None}
    static = {name: p for name, p in programs.items() if not _is_dynamic(p)}
    found = {name: _explained(program, modules[name]) for name, program in static.items()}
    read = [line for name, p in programs.items() for line in _titled(name, programs, _program(p, found.get(name)))]
    left = [line for name, e in found.items() for line in _titled(name, programs, map(_kernel_line, e.kernels))]
    if programs:
        missing = DYNAMIC if len(found) < len(programs) else ""
        stages += [
            Stage("Engine program", "The program as converted, in MIGraphX's form: before any pass.", tuple(read)),
            Stage(
                "After the passes", f"The same program, optimised for target {options.target}.", tuple(left), missing
            ),
        ]
    return Graph(
        name="",
        inputs=inputs,
        target=options.target,
        stages=tuple(stages),
        kernels=tuple(k for name, e in found.items() for k in _kernels(e, programs[name])),
        in_torch=tuple(node_line(n, why) for n, why in staying.items()),
        nodes=sum(n.op.startswith("call_") for n in gm.graph.nodes),
        not_fused=tuple(Refused(r.rule, r.why, tuple(map(_line, r.parts))) for e in found.values() for r in e.refused),
    )


def _explained(program: migraphx.program, module: MGXModule) -> Any:
    if not hasattr(migraphx, "explain"):
        raise NotImplementedError("a report needs OpenMGX's migraphx: AMD's own does not explain its programs")
    return migraphx.explain(program, module.target, why=True, **module.options.compile_keywords())


def _is_dynamic(program: migraphx.program) -> bool:
    return any(shape.dynamic() for shape in program.get_parameter_shapes().values())


def _program(program: migraphx.program, explanation: Any) -> Iterator[Line]:
    """The instructions before any pass; those of a dynamic program without their lines of Python."""
    if explanation is not None:
        yield from map(_instruction, explanation.instructions)
    else:
        yield from (Line(text, leaf=" = @param:" in text) for text in str(program).splitlines() if " = " in text)


def _titled(name: str, all: Collection[str], lines: Iterable[Line]) -> Iterator[Line]:
    """With the program's name ahead, where there are several."""
    if len(all) > 1:
        yield Line(f"{name}:")
    yield from lines


def _line(part: Any) -> Line:
    return Line(part.text, part.origins)


def _instruction(part: Any) -> Line:
    line = _line(part)
    return replace(line, leaf=" = @literal{" in line.text or " = @param:" in line.text)


def _kernel_line(kernel: Any) -> Line:
    return Line(kernel.text, kernel.origins)


def _kernels(explanation: Any, program: migraphx.program) -> Iterator[Kernel]:
    """The steps of a run: those of one instruction together, what no instruction asked for (copies) alone."""
    of = {k.text: k for k in explanation.kernels}
    steps: dict[str, list[Any]] = {}
    for step in program.executable.steps:
        steps.setdefault(step.text, []).append(step)
    for text, calls in steps.items():
        known = of.get(text)
        if known is not None and known.view:
            continue  # no work: a step on target ref alone
        alone = Line(calls[0].text, (calls[0].origin,) if calls[0].origin else ())
        parts = tuple(map(_line, known.parts)) if known is not None else (alone,)
        names = list(dict.fromkeys(s.kernel for s in calls if s.kernel)) or [text.partition(" = ")[2].partition("(")[0]]
        cost = sum(s.bytes for s in calls), sum(s.flops for s in calls)
        yield Kernel(", ".join(names), text, parts, len(calls), *cost)
