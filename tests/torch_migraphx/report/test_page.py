"""The page and the text of a report: all of its content, escaped, and nothing from elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANG
from tests.torch_migraphx.report.reading import Element, read_page
from torch_migraphx.report.data import Content, Graph, Kernel, Line, Place, Refused, Stage, quantity
from torch_migraphx.report.html import page
from torch_migraphx.report.report import Report
from torch_migraphx.report.text import text

HOSTILE = "</code></script><script>alert('x')</script><img src=x onerror=\"alert(1)\"> & &amp; \"'` \u202e é"
SOURCE = ["def forward(x):", "    y = f(x)", "    return '</li><b>' + y"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Two graphs; every text of the first is hostile."""
    source = tmp_path_factory.mktemp("source") / "a & <b> model.py"
    source.write_text("\n".join(SOURCE))
    second, third = f"{source}:2 in forward", f"{source}:3 in <lambda>"
    nodes = (
        Line(f"x{HOSTILE}: float32[2]", leaf=True),
        Line(f"y: float32[2] = f(x, {HOSTILE!r})", (second,)),
        Line(f"{HOSTILE} = g(y)", (third,), in_torch=f"no converter for {HOSTILE}"),
        Line("return (y,)"),
    )
    dot = Line("@9 = dot(@1,@2) -> float_type, {4, 4}, {4, 1}", (second,))
    parts = (Line(f"dot {HOSTILE}", (second,)), Line("add", (third,)))
    leaves = tuple(Line(f"@{k} = @literal{{{k}}} -> float_type, {{1}}, {{1}}", leaf=True) for k in range(9))
    first = Graph(
        HOSTILE,
        inputs=f"float32[2] {HOSTILE}",
        target="cpu",
        stages=(
            Stage(f"Torch IR {HOSTILE}", f"about {HOSTILE}", nodes),
            Stage("Engine program", "before", (*leaves, dot)),
            Stage(f"Prims {HOSTILE}", "not there", missing=f"torch refuses {HOSTILE}"),
        ),
        kernels=(
            Kernel(f"dot {HOSTILE}", f"@9 = {HOSTILE}", parts, 2, 300, 2_500_000),
            Kernel("copy", "@10 = copy(@9)", (Line("layout"),), 1, 100, 0),
        ),
        in_torch=(nodes[2],),
        nodes=2,
        not_fused=(Refused(f"rule {HOSTILE}", f"why {HOSTILE}", (Line("add -> float_type", (third,)),)),),
        ends=Line(f"graph break {HOSTILE}", (third,)),
        whole_in_torch=(f"the backward {HOSTILE}",),
    )  # fmt: skip
    return Content(f"Model {HOSTILE}", {"torch": "2", f"option {HOSTILE}": HOSTILE}, (first, Graph("Graph 2")))


def texts(content: Content) -> list[str]:
    """Every text of a report."""
    found = [content.title, *content.facts, *content.facts.values()]
    for g in content.graphs:
        lines = [n for s in g.stages for n in s.lines] + [p for one in (*g.kernels, *g.not_fused) for p in one.parts]
        lines += [*g.in_torch, *([g.ends] if g.ends else [])]
        found += [g.name, g.inputs, *(t for n in lines for t in (n.text, n.in_torch)), *g.whole_in_torch]
        found += [t for s in g.stages for t in (s.name, s.about, s.missing)]
        found += [t for k in g.kernels for t in (k.name, k.text)] + [t for r in g.not_fused for t in (r.rule, r.why)]
    return found


def shown(element: Element) -> list[str]:
    """The lines of a list, without the links to Python and the reasons."""
    return [li.every("code")[0].text for li in element.every("li")]


def test_all_is_there_and_escaped(content: Content) -> None:
    found = read_page(page(content))
    assert [e.name for e in found.every() if e.name in ("script", "img")] == ["script"]  # ours
    for one in texts(content):
        assert one in found.text, one
        assert one in text(content), one


def test_stages_hold_the_lines_of_the_data_in_order(content: Content) -> None:
    found = read_page(page(content))
    (graph, _) = content.graphs
    (section,) = found.every("section", id="g0")
    stages = section.every("section", class_="stage")
    assert [s.every("h3")[0].text for s in stages] == [f"{k + 1} {s.name}" for k, s in enumerate(graph.stages)]
    for element, stage in zip(stages, graph.stages, strict=True):
        assert shown(element) == [n.text for n in stage.lines]
        fell = [li for li in element.every("li") if li.has("class_", "fell")]
        assert [li.every("span", class_="why")[0].text for li in fell] == [
            f" in torch: {n.in_torch}" for n in stage.lines if n.in_torch
        ]
    flow = section.every("nav", class_="flow")[0].every("a")
    assert [a.attributes["href"] for a in flow] == ["#g0-s0", "#g0-s1", "#g0-s2", "#g0-kernels"]
    (folded,) = stages[1].every("details")
    assert len(folded.every("li")) == 9 and folded.every("summary")[0].text == "9 inputs and constants"


def test_kernels_have_bars_in_proportion(content: Content) -> None:
    rows = read_page(page(content)).every("table")[0].every("tbody")[0].every("tr")
    bars = [[e.attributes["style"] for e in row.every("span", class_="bar")] for row in rows]
    assert bars == [["--w:100.0%", "--w:100.0%"], ["--w:0.0%", "--w:33.3%"]]
    assert [e.text for e in rows[0].every("span", class_="figure")] == ["2.5 MFLOP", "300 B"]
    assert [e.text for e in rows[1].every("span", class_="share")] == [" 0%", " 25%"]


def test_a_line_of_python_and_what_became_of_it_name_each_other(content: Content) -> None:
    (section,) = read_page(page(content)).every("section", id="g0")
    lines = section.every("section", class_="python")[0].every("li")
    assert [li.every("span", class_="no")[0].text for li in lines] == ["2", "3"]
    assert [li.every("code")[0].text for li in lines] == [line.strip() for line in SOURCE[1:]]
    assert [li.has("class_", "fell") for li in lines] == [False, True]
    second = lines[0].attributes["data-o"]
    holders = {e.attributes.get("id") for e in section.every() if second in e.attributes.get("data-o", "").split()}
    assert {"g0-s0-1", "g0-s1-9", "g0-k0", lines[0].attributes["id"]} <= holders
    assert "g0-s0-2" not in holders and "g0-k1" not in holders
    links = {a.text: a.attributes["href"] for a in lines[0].every("a")}
    assert links["Engine program 1"] == "#g0-s1-9" and links["1 kernel"] == "#g0-k0"


def test_the_text_marks_what_runs_in_torch(content: Content) -> None:
    lines = text(content).splitlines()
    assert f"    because no converter for {HOSTILE}" in lines
    assert f"    {HOSTILE} = g(y)  <- a & <b> model.py:3  [runs in torch]" in lines
    assert f"not available: torch refuses {HOSTILE}" in lines
    assert "1 of 2 nodes run in the engine (cpu): 2 kernels, 2.5 MFLOP, 400 B" in lines
    assert lines[-1] == "was not compiled"


def test_what_html_cannot_hold_is_replaced(tmp_path: Path) -> None:
    report = Report("bell \x07, nul \x00, a file's \udcff")
    report.save(tmp_path / "page.html")
    found = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert found.every("h1")[0].text == "bell \ufffd, nul \ufffd, a file's \ufffd"


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no_folder"):
        Report().save(tmp_path / "no_folder" / "page.html")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match=r"page\.html"):
        Report().save(tmp_path / "page.html")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("value", "want"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234567, "1.23 MB"), (5e15, "5e+03 TB")]
)
def test_quantities(value: float, want: str) -> None:
    assert quantity(value, "B") == want


def test_places_of_odd_origins() -> None:
    assert Place.of("C:/x y.py:12 in f") == Place("C:/x y.py", 12, "f")
    assert Place.of("Conv_3") == Place("Conv_3", 0, "") and Place.of("Conv_3").code == ""


def test_files_of_one_name_are_told_apart() -> None:
    line = Line("a", ("/x/m.py:1 in f", "/y/m.py:1 in f", "/y/n.py:2 in f"))
    graph = Graph("g", stages=(Stage("s", "", (line,)),))
    assert [graph.short(o) for o in graph.places] == ["/x/m.py:1", "/y/m.py:1", "n.py:2"]


WINDOWS = {1280: 800, 390: 844}
"""A desktop's and a telephone's."""
FRAMES = "".join(f'<iframe src="page.html#g0-s1-9" width={w} height={h}></iframe>' for w, h in WINDOWS.items())
LOOK = """
const seen = [...document.querySelectorAll("iframe")].map((frame) => {
  const page = frame.contentDocument, width = page.documentElement.clientWidth;
  const box = (name) => page.querySelector(name).getBoundingClientRect();
  const flow = page.querySelector(".flow");
  return {
    html: page.documentElement.outerHTML,
    width: page.documentElement.scrollWidth,
    cut: [...page.querySelectorAll("body *")].filter((e) => !e.closest(".flow") && e.getClientRects().length
      && e.getBoundingClientRect().right > width + 1).map((e) => e.outerHTML),
    scrolls: flow.scrollWidth > flow.clientWidth,
    room: parseFloat(getComputedStyle(page.documentElement).scrollPaddingTop) - flow.offsetHeight,
    beside: box(".python").right <= box(".stages").left,
    below: box(".python").bottom <= box(".stages").top,
  };
});
document.body.replaceChildren(JSON.stringify(seen));
"""


@pytest.fixture(scope="module")
def seen(content: Content, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a browser makes of the page in each window; the address names line 2, which is picked when it opens."""
    folder = tmp_path_factory.mktemp("windows")
    (folder / "page.html").write_text(page(content), encoding="utf-8")
    frames = f"<!doctype html><body>{FRAMES}<script>addEventListener('load', () => {{{LOOK}}})</script>"
    (folder / "frames.html").write_text(frames)
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files")
    command = [str(BROWSER), *options, f"--user-data-dir={folder / 'browser'}", "--dump-dom"]
    address = (folder / "frames.html").as_uri()
    done = subprocess.run([*command, address], capture_output=True, text=True, timeout=HANG, check=True)
    return json.loads(read_page(done.stdout).every("body")[0].text)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")
def test_a_browser_shows_one_stage_and_marks_what_came_from_a_line(seen: list[dict[str, Any]]) -> None:
    for window in seen:
        found = read_page(window["html"])
        (section,) = found.every("section", id="g0")
        assert found.every("html")[0].has("class_", "js")
        assert [s.attributes["id"] for s in section.every("section", class_="shown")] == ["g0-s1"]
        pinned = {e.attributes.get("id") for e in section.every(class_="pin")}
        assert pinned >= {"g0-o0", "g0-s0-1", "g0-s1-9", "g0-k0"} and "g0-o1" not in pinned
        hits = [a.attributes.get("data-hits") for a in section.every("nav", class_="flow")[0].every("a")]
        assert hits == ["1", "1", None, "1"]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")
def test_nothing_is_cut_off_in_either_window(seen: list[dict[str, Any]]) -> None:
    """Python stands beside the stages in a wide window and above them in a narrow one, whose bar of stages scrolls."""
    assert [w["width"] for w in seen] == list(WINDOWS)
    assert [w["cut"] for w in seen] == [[], []]
    assert not seen[0]["scrolls"]
    assert all(w["room"] > 0 for w in seen)  # what a link leads to stands below the bar
    assert [(w["beside"], w["below"]) for w in seen] == [(True, False), (False, True)]
