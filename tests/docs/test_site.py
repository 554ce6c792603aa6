"""The site: links of all documents lead somewhere, and it builds without a warning."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.limits import HANG
from tools.pages import FENCE

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
SOURCES = sorted(path for path in DOCS.rglob("*") if path.suffix in (".md", ".ipynb") and "_build" not in path.parts)
SHOWN = runpy.run_path(str(DOCS / "conf.py"))["shown"]


def text_of(path: Path) -> str:
    """A document as it is shown, without code."""
    text = path.read_text()
    if path.is_relative_to(DOCS) and path.suffix in (".md", ".ipynb"):
        text = SHOWN(path.name, text)
    return re.sub(r"`[^`\n]*`", lambda m: m[0].replace("](", "] ("), FENCE.sub("", text))


def anchors(path: Path) -> set[str]:
    """What headings are called in links, as GitHub and the site do it."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text_of(path), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("\\", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def links(path: Path) -> Iterator[tuple[str, str]]:
    """The relative links of a document: path and anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if not re.match(r"\w+:", target):
            yield target.partition("#")[::2]


@pytest.mark.parametrize("path", [*sorted(PROJECT.glob("*.md")), *SOURCES], ids=lambda p: str(p.relative_to(PROJECT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in links(path):
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"{target} is no file"
        assert not anchor or anchor in anchors(there), f"{there.name} has no heading {anchor}: {sorted(anchors(there))}"


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the site is built where the extra docs is installed")
    command = ["-m", "sphinx", "-E", "-q", "-n", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in SOURCES}
    assert pages <= {path.relative_to(tmp_path) for path in tmp_path.rglob("*.html")}
    assert "multibroadcast" in (tmp_path / "walk" / "guide.html").read_text()
    assert "min_acc_module_size" in (tmp_path / "options.html").read_text()
    assert "A torch converter" in (tmp_path / "extending.html").read_text()
