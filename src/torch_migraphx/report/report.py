"""A report that is filled while a model is compiled."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from torch_migraphx.files import replacing
from torch_migraphx.report.data import Content, Graph, Line, Stage
from torch_migraphx.report.html import page
from torch_migraphx.report.text import text

PACKAGES = ("torch", "openmgx")


class Report:
    """What became of a model: `str(report)`, `report.html()`, `report.save(path)`; `content` is the same as data.

    The option `report` of `torch.compile(backend="migraphx")` and `lower_to_mgx` takes one, or the path of a page,
    which is then written again after each graph. May be filled by several threads.
    """

    def __init__(self, title: str = "A compiled model", path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._title = title
        self._facts = _versions()
        self._graphs: dict[str, Graph] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, given: Any) -> Recorder | None:
        """The value of the option: None, a report (or one graph's part of it), or a path. TypeError for others."""
        if given is None or isinstance(given, Report | GraphReport):
            return given
        if not isinstance(given, str | os.PathLike):
            raise TypeError(f"option 'report' must be a path or a torch_migraphx.Report, got {given!r}")
        if not str(given).endswith((".html", ".htm")):
            raise ValueError(f"option 'report' must be the path of an .html file, got {os.fspath(given)!r}")
        return cls(path=given)

    @property
    def content(self) -> Content:
        """All that was recorded so far."""
        with self._lock:
            return Content(self._title, dict(self._facts), tuple(self._graphs.values()))

    def __str__(self) -> str:
        return text(self.content)

    def html(self) -> str:
        """One page that needs nothing else: no network, no other files."""
        return page(self.content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page. OSError where it cannot be written; the old file stays then."""
        with replacing(path) as file:
            file.write(self.html().encode())

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own, so that styles of either do not reach the other."""
        escaped = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{escaped}" style="width:100%;height:46rem;border:0"></iframe>'

    # ---- being filled ----

    def stays(self, why: str) -> None:
        """Note that a graph without stages runs in torch as a whole."""
        self.graph((), None).stays(why)

    def about(self, title: str, facts: dict[str, str]) -> None:
        """Name the model and the options, where they are known."""
        with self._lock:
            self._title = title or self._title
            self._facts |= facts

    def graph(self, stages: Sequence[Stage], ends: Line | None) -> GraphReport:
        """The part of a new graph, which has gone through these stages."""
        with self._lock:
            name = f"Graph {len(self._graphs) + 1}"
            self._graphs[name] = Graph(name, stages=tuple(stages), ends=ends)
        self._changed()
        return GraphReport(self, name)

    def lowered(self, graph: Graph) -> None:
        """Add a graph that was compiled and has no stages before."""
        self.graph((), None).lowered(graph)

    def add(self, name: str, graph: Graph) -> None:
        """What the graph `name` was compiled to; for other sizes, or as another part of it, it is one more."""
        with self._lock:
            traced = self._graphs[name]
            if traced.inputs and traced.inputs != graph.inputs:
                name = f"{name}, for {graph.inputs}"
                traced = Graph(name)
            elif traced.inputs:  # compiled again, for other weights
                traced = replace(traced, stages=traced.stages[: -len(graph.stages)])
            stages = (*traced.stages, *graph.stages)
            self._graphs[name] = replace(
                graph, name=name, stages=stages, ends=traced.ends, whole_in_torch=traced.whole_in_torch
            )
        self._changed()

    def add_whole(self, name: str, why: str) -> None:
        """Note that something of the graph `name` runs in torch as a whole, and why."""
        with self._lock:
            before = self._graphs[name]
            self._graphs[name] = replace(before, whole_in_torch=tuple(dict.fromkeys((*before.whole_in_torch, why))))
        self._changed()

    def _changed(self) -> None:
        if self._path is not None:
            self.save(self._path)


class GraphReport:
    """One graph's part of a report."""

    def __init__(self, whole: Report, name: str) -> None:
        self._whole, self._name = whole, name

    def lowered(self, graph: Graph) -> None:
        """Note what it was compiled to."""
        self._whole.add(self._name, graph)

    def stays(self, why: str) -> None:
        """Note that something of it runs in torch as a whole."""
        self._whole.add_whole(self._name, why)


Recorder = Report | GraphReport


def _versions() -> dict[str, str]:
    found = {"torch": torch.__version__, "Python": platform.python_version()}
    with suppress(metadata.PackageNotFoundError):
        found["openmgx"] = metadata.version("openmgx")
    return found
