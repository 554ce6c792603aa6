"""A report as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from torch_migraphx.report.data import Content, Graph, Kernel, Line, quantity, summary

WIDTH = 100


def text(content: Content) -> str:
    """The whole report."""
    lines = [content.title, *(f"{name}: {value}" for name, value in content.facts.items())]
    for graph in content.graphs:
        lines += ["", *_graph(graph)]
    if not content.graphs:
        lines.append("nothing was compiled")
    return "\n".join(lines)


def _graph(graph: Graph) -> Iterator[str]:
    yield _heading(graph.name, "=")
    if graph.inputs:
        yield f"inputs: {graph.inputs}"
    yield summary(graph)
    if graph.ends:
        yield f"ends here: {_line(graph, graph.ends)}"
    if graph.in_torch or graph.whole_in_torch:
        yield from ("", _heading("Runs in torch", "-"), *graph.whole_in_torch)
        for n in graph.in_torch:
            yield from (_line(graph, n), f"    because {n.in_torch}")
    if graph.places:
        yield from ("", _heading("From Python", "-"), *_from_python(graph))
    for k, stage in enumerate(graph.stages):
        yield from ("", _heading(f"{k + 1}. {stage.name}", "-"), stage.about)
        if stage.missing:
            yield f"not available: {stage.missing}"
        yield from (f"    {_line(graph, n)}" + ("  [runs in torch]" if n.in_torch else "") for n in stage.lines)
    if graph.kernels:
        yield from ("", _heading("Kernels", "-"))
        for kernel in graph.kernels:
            yield from _kernel(graph, kernel)
    if graph.not_fused:
        yield from ("", _heading("Slower ways taken, and why", "-"))
        for r in graph.not_fused:
            yield f"{r.rule}: {r.why}"
            yield from (f"    {_line(graph, p)}" for p in r.parts)


def _heading(words: str, rule: str) -> str:
    return f"{rule * 2} {words} ".ljust(WIDTH, rule)


def _line(graph: Graph, line: Line) -> str:
    return line.text + "".join(f"  <- {graph.short(o)}" for o in line.origins)


def _kernel(graph: Graph, kernel: Kernel) -> Iterator[str]:
    calls = "" if kernel.calls == 1 else f", {kernel.calls} calls"
    yield f"{kernel.name}: {quantity(kernel.flops, 'FLOP')}, {quantity(kernel.bytes, 'B')}{calls}"
    yield f"    {kernel.text}"
    yield from (f"        {_line(graph, p)}" for p in kernel.parts)


def _from_python(graph: Graph) -> Iterator[str]:
    """What each line became: how many nodes of each stage, and which kernels."""
    for origin, place in graph.places.items():
        where = f"{place.file}:{place.line} in {place.function}" if place.line else origin
        yield f"{where}: {place.code}".rstrip(": ")
        counts = [(s.name, sum(origin in n.origins for n in s.lines)) for s in graph.stages]
        became = [f"{name} {count}" for name, count in counts if count]
        kernels = list(dict.fromkeys(k.name for k in graph.kernels if origin in k.origins))
        if kernels:
            became.append(f"kernels: {', '.join(kernels)}")
        if any(origin in n.origins for n in graph.in_torch):
            became.append("runs in torch")
        if became:
            yield f"    {'; '.join(became)}"
