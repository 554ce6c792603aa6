"""A report as one page of HTML that needs nothing else, and shows all of it without JavaScript too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from torch_migraphx.report.data import (
    Content,
    Graph,
    Kernel,
    Line,
    Place,
    Refused,
    Stage,
    counted,
    origins_of,
    quantity,
    summary,
)

HERE = Path(__file__).parent
ASSIGNMENT = re.compile(r"(?P<name>[^\s=]+?)(?P<type>: [^=]*?)?(?P<is> = )(?P<call>[^\s(\[]+)(?P<rest>.*)", re.DOTALL)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
RESULT = re.compile(r"(?P<before>.*)(?P<shape> -> .*)", re.DOTALL)
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
MOST_LEAVES = 4  # of a stage's first lines; more are folded away
EMPTY = frozenset({"meta", "input", "br", "hr"})


class Html(str):
    """Text that is HTML already; all other text is escaped where it goes into it."""

    __slots__ = ()


Child = str | Html | Iterable["Child"]


def tag(element: str, /, *children: Child, **attributes: str | None) -> Html:
    """An element; of attributes `_` at the end is dropped, inside it is a hyphen, and None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{element}{given}>" if element in EMPTY else f"<{element}{given}>{_inside(children)}</{element}>")


def _inside(children: Iterable[Child]) -> str:
    return "".join(
        child if isinstance(child, Html) else _escaped(child) if isinstance(child, str) else _inside(child)
        for child in children
    )


def _escaped(text: str) -> str:
    """As HTML; what HTML cannot hold (control characters, halves of surrogate pairs) is replaced."""
    return escape(CONTROL.sub("\ufffd", text))


def page(content: Content) -> str:
    """The whole document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{content.title} on OpenMGX"),
        tag("style", Html((HERE / "page.css").read_text(encoding="utf-8"))),
    )
    graphs = [_Page(graph, k).section() for k, graph in enumerate(content.graphs)]
    script = tag("script", Html((HERE / "page.js").read_text(encoding="utf-8")))
    main = tag("main", graphs or tag("p", "Nothing was compiled."))
    body = tag("body", _header(content), main, script)
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(content: Content) -> Html:
    facts = [tag("div", tag("dt", name), tag("dd", value)) for name, value in content.facts.items()]
    contents = [
        tag(
            "li",
            tag("a", graph.name, href=f"#g{k}"),
            " ",
            tag("span", summary(graph), class_="torch" if graph.in_torch or graph.whole_in_torch else None),
        )
        for k, graph in enumerate(content.graphs)
    ]
    several = tag("nav", tag("ol", contents), class_="graphs", aria_label="Graphs") if len(contents) > 1 else ""
    return tag("header", tag("h1", content.title), tag("dl", facts, class_="facts"), several)


class _Page:
    """The part of one graph; `o` numbers its lines of Python, which everything that came from them names."""

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.id = graph, f"g{number}"
        self.number = {origin: k for k, origin in enumerate(graph.places)}
        self.torch = {o for n in graph.in_torch for o in n.origins}

    def section(self) -> Html:
        g = self.graph
        parts = [
            tag("h2", g.name),
            "" if g.inputs else tag("p", summary(g), class_="about"),
            tag("p", tag("b", "For inputs "), tag("code", g.inputs), class_="inputs") if g.inputs else "",
            tag("p", tag("b", "Dynamo ends this graph: "), self._text(g.ends), class_="fell") if g.ends else "",
            self._figures(),
            self._in_torch(),
            self._flow(),
            tag("div", self._python(), self._stages(), class_="bench"),
            self._kernels(),
            self._not_fused(),
        ]
        return tag("section", parts, class_="graph", id=self.id)

    # ---- the figures

    def _figures(self) -> Html | str:
        g = self.graph
        if not g.inputs:
            return ""
        inside = g.nodes - len(g.in_torch)
        shown = [
            (str(inside), "nodes in the engine", "engine"),
            (str(len(g.in_torch)), "nodes in torch", "fell" if g.in_torch else "none"),
            (str(len(g.kernels)), "kernels", "plain"),
            (quantity(g.flops, "FLOP"), "a run", "plain"),
            (quantity(g.bytes, "B"), "read and written", "plain"),
        ]
        return tag(
            "ul", (tag("li", tag("b", v), tag("span", f" {w}"), class_=c) for v, w, c in shown), class_="figures"
        )

    def _in_torch(self) -> Html | str:
        g = self.graph
        if not g.in_torch and not g.whole_in_torch:
            return ""
        rows = [tag("li", tag("p", why, class_="why")) for why in g.whole_in_torch]
        for why, nodes in _by_reason(g.in_torch):
            lines = tag("ul", (self._line("li", n) for n in nodes), class_="lines")
            rows.append(tag("li", tag("p", why, class_="why"), lines))
        words = "What runs in torch, and why"
        return tag("section", tag("h3", words), tag("ul", rows, class_="reasons"), class_="fell", id=f"{self.id}-torch")

    # ---- the way through the stages

    def _flow(self) -> Html:
        """The stages in order, with the number of their nodes: the page's navigation."""
        steps = [
            tag(
                "li",
                tag("a", tag("b", stage.name), tag("span", f" {_size(stage)}"), href=f"#{self.id}-s{k}"),
                class_="missing" if stage.missing else "fell" if any(n.in_torch for n in stage.lines) else None,
            )
            for k, stage in enumerate(self.graph.stages)
        ]
        if self.graph.kernels:
            count = f" {len(self.graph.kernels)}"
            steps.append(tag("li", tag("a", tag("b", "Kernels"), tag("span", count), href=f"#{self.id}-kernels")))
        return tag("nav", tag("ol", steps), class_="flow", aria_label="Stages")

    def _python(self) -> Html | str:
        """The lines of Python, each with links to what it became."""
        if not self.graph.places:
            return ""
        files = [
            part
            for file, found in groupby(self.graph.places.items(), key=lambda item: item[1].file)
            for part in (tag("h4", file), tag("ol", [self._source(o, p) for o, p in found], class_="source"))
        ]
        about = "Each line, and what it became. Point at one, or pick it, to see it in every stage."
        return tag("section", tag("h3", "Python"), tag("p", about, class_="about"), files, class_="python")

    def _source(self, origin: str, place: Place) -> Html:
        became: list[Child] = []
        for k, stage in enumerate(self.graph.stages):
            at = [n for n, line in enumerate(stage.lines) if origin in line.origins]
            if at:
                became += [tag("a", f"{stage.name} {len(at)}", href=f"#{self.id}-s{k}-{at[0]}"), " "]
        kernels = [k for k, kernel in enumerate(self.graph.kernels) if origin in kernel.origins]
        if kernels:
            became += [tag("a", counted(len(kernels), "kernel"), href=f"#{self.id}-k{kernels[0]}"), " "]
        if origin in self.torch:
            became.append(tag("a", "in torch", href=f"#{self.id}-torch", class_="fell"))
        return tag(
            "li",
            tag("span", str(place.line or ""), class_="no"),
            tag("code", place.code or (place.function if place.line else origin)),
            tag("span", became, class_="became"),
            id=f"{self.id}-o{self.number[origin]}",
            data_o=str(self.number[origin]),
            class_="fell" if origin in self.torch else None,
            title=f"{place.file}:{place.line} in {place.function}" if place.line else None,
        )

    def _stages(self) -> Html:
        return tag("div", (self._stage(k, s) for k, s in enumerate(self.graph.stages)), class_="stages")

    def _stage(self, k: int, stage: Stage) -> Html:
        lines = [self._line("li", n, f"{self.id}-s{k}-{at}") for at, n in enumerate(stage.lines)]
        missing = tag("p", "Not available: ", stage.missing, class_="missing") if stage.missing else ""
        head = tag("h3", tag("span", f"{k + 1} ", class_="no"), stage.name)
        about = tag("p", stage.about, class_="about")
        leaves = next((at for at, n in enumerate(stage.lines) if not n.leaf), len(lines))
        inputs = listed = Html()
        if leaves > MOST_LEAVES:
            words = tag("summary", f"{leaves} inputs and constants")
            inputs = tag("details", words, tag("ol", lines[:leaves], class_="lines"))
            lines = lines[leaves:]
        if lines:
            listed = tag("ol", lines, class_="lines", start=str(1 + len(stage.lines) - len(lines)))
        return tag("section", head, about, missing, inputs, listed, class_="stage", id=f"{self.id}-s{k}")

    # ---- what runs

    def _kernels(self) -> Html | str:
        found = self.graph.kernels
        if not found:
            return ""
        most_flops, most_bytes = max(k.flops for k in found), max(k.bytes for k in found)
        names = ("Kernel", "What it computes", "FLOPs", "Bytes")
        head = tag("thead", tag("tr", (tag("th", n, scope="col") for n in names)))
        rows = [self._kernel(n, k, most_flops, most_bytes) for n, k in enumerate(found)]
        about = "One row for each instruction that runs, in order. The bars compare them with the largest."
        return tag(
            "section",
            tag("h3", "Kernels"),
            tag("p", about, class_="about"),
            tag("table", head, tag("tbody", rows), class_="kernels"),
            id=f"{self.id}-kernels",
        )

    def _kernel(self, n: int, kernel: Kernel, most_flops: int, most_bytes: int) -> Html:
        calls = tag("span", f" {kernel.calls} calls", class_="calls") if kernel.calls > 1 else ""
        parts = tag("ul", map(self._parts, _of_one_line(kernel.parts)))
        listing = tag("details", tag("summary", "listing"), tag("code", kernel.text, class_="listing"))
        return tag(
            "tr",
            tag("th", tag("span", f"{n + 1} ", class_="no"), kernel.name, calls, scope="row"),
            tag("td", parts, listing),
            _cost(kernel.flops, most_flops, self.graph.flops, "FLOP", "FLOPs"),
            _cost(kernel.bytes, most_bytes, self.graph.bytes, "B", "Bytes"),
            id=f"{self.id}-k{n}",
            data_o=self._data(kernel.origins),
        )

    def _parts(self, parts: Sequence[Line]) -> Html:
        """Operators that came from one line of Python, and the line."""
        origins = origins_of(parts)
        sources = (self.graph.places[o].code for o in origins)
        code = [tag("code", source, class_="python-code") for source in sources if source]
        computed = [(", " if k else "", tag("code", p.text)) for k, p in enumerate(parts)]
        return tag(
            "li", tag("span", computed, class_="computed"), self._links(origins), " ", code, data_o=self._data(origins)
        )

    def _not_fused(self) -> Html | str:
        if not self.graph.not_fused:
            return ""
        rows = [self._refused(r) for r in self.graph.not_fused]
        about = "What a pass or a kernel did not take, so that a slower way was taken: the rule, its reason, and where."
        words = tag("summary", tag("h3", f"Slower ways taken, and why ({len(rows)})"))
        return tag(
            "details", words, tag("p", about, class_="about"), tag("ul", rows, class_="reasons"), class_="slower"
        )

    def _refused(self, r: Refused) -> Html:
        why = tag("p", tag("b", r.rule), ": ", r.why, class_="why")
        return tag("li", why, tag("ul", (self._line("li", p) for p in r.parts), class_="lines"))

    # ---- lines

    def _line(self, name: str, line: Line, id: str | None = None) -> Html:
        why = tag("span", f" in torch: {line.in_torch}", class_="why") if line.in_torch and id else ""
        fell = "fell" if line.in_torch else None
        return tag(name, self._text(line), why, id=id, data_o=self._data(line.origins), class_=fell)

    def _text(self, line: Line) -> Html:
        return Html(tag("code", coloured(line.text)) + _inside(self._links(line.origins)))

    def _links(self, origins: Sequence[str]) -> list[Child]:
        """To the lines of Python."""
        return [
            (" ", tag("a", self.graph.short(o), href=f"#{self.id}-o{self.number[o]}", class_="from")) for o in origins
        ]

    def _data(self, origins: Sequence[str]) -> str | None:
        return " ".join(str(self.number[o]) for o in origins) or None


def _cost(value: int, most: int, total: int, unit: str, label: str) -> Html:
    """A cell: the figure, its share of all, and a bar that is full for the largest."""
    width = f"--w:{100 * value / most if most else 0:.1f}%"
    share = tag("span", f" {value / total:.0%}" if total else "", class_="share")
    bar = tag("span", class_="bar", style=width)
    return tag("td", bar, tag("span", quantity(value, unit), class_="figure"), share, class_="cost", data_label=label)


def coloured(text: str) -> Html:
    """The text, with what it defines, calls and gives in elements of their own."""
    found = ASSIGNMENT.fullmatch(text)
    if not found:
        return Html(_escaped(text))
    rest = RESULT.fullmatch(found["rest"])
    before, shape = (rest["before"], rest["shape"]) if rest else (found["rest"], "")
    parts = [tag("b", found["name"]), tag("i", found["type"] or ""), found["is"], tag("em", found["call"]), before]
    return Html(_inside([*parts, tag("i", shape)]))


def _of_one_line(parts: Sequence[Line]) -> list[list[Line]]:
    """Neighbours that came from one line; what came from none goes with those before."""
    found: list[list[Line]] = []
    for part in parts:
        if found and (not part.origins or origins_of(found[-1]) in ((), part.origins)):
            found[-1].append(part)
        else:
            found.append([part])
    return found


def _size(stage: Stage) -> str:
    return "none" if stage.missing else str(len(stage.lines))


def _by_reason(lines: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The lines by why they run in torch, in the order of the first of each."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.in_torch, []).append(line)
    return found.items()
