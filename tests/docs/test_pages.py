"""Documents, notebooks and examples run, and print what they say; what is not run names only what is there."""

import ast
import fnmatch
import inspect
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from tests.limits import HANG
from tools import pages
from torch_migraphx.fx import lower_to_mgx
from torch_migraphx.options import Options

PROJECT = Path(__file__).parents[2]
PAGES = [path for path in pages.documents() if path.suffix != ".py"]
SEEDS = "".join(path.read_text() for path in sorted((PROJECT / "tests/torch_migraphx/seeds").glob("*.txt")))


@pytest.mark.slow
def test_all_blocks_run_and_print_what_stands_under_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of their own: it forks, which this one, whose threads run, must not."""
    monkeypatch.setenv("PYTHONPATH", f"{PROJECT / 'src'}{os.pathsep}{PROJECT}")
    command = [sys.executable, "-m", "tools.pages"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr


def test_there_is_something_to_run() -> None:
    code = {path: [b for b in pages.blocks(path) if b.kind == "python"] for path in PAGES}
    assert len([path for path, blocks in code.items() if blocks]) > 15
    assert sum(b.printed is not None for blocks in code.values() for b in blocks) > 80


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n", None),
        ("```python\nprint('a', 3, 'b')\n```\n\n```output\na ... b\n```\n", None),
        ("```python raises\nprint(1)\nint('x')\n```\n```output\n1\nValueError: invalid literal ...\n```\n", None),
        ("```sh\nmigraphx-driver op relu\n```\n```output\nrelu...\n```\n", None),
        ("```python gpu\nno syntax\n```\n", "SyntaxError"),
        ("```python\nprint(1 + 1)\n```\n\n```output\n3\n```\n", "and the document says\n3"),
        ("```python\nint('x')\n```\n", "ValueError"),
        ("```python raises\nint('1')\n```\n", "should have raised"),
        ("```sh\nmigraphx-driver op no_such_operator\n```\n", "exit code"),
        ("```sh\nls\n```\n", "mark others"),
        ("```python\nx = 1\n```\ntext\n```python\nprint(x)\n```\n```output\n2\n```\n", "page.md:6 prints\n1"),
    ],
)
def test_a_false_block_is_found(
    text: str, failure: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    monkeypatch.setattr(pages, "PINNED", True)
    monkeypatch.setattr(sys, "argv", sys.argv)
    page = tmp_path / "page.md"
    page.write_text(text)
    failures = pages.run_document(page)["failures"]
    assert not failures if failure is None else len(failures) == 1 and failure in failures[0]
    capsys.readouterr()


def test_what_is_written_is_what_was_printed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1)\n```\n\n```output\nold\n```\n\n```python\nprint(2)\n```\n```output\n...\n```\n"
    )
    assert pages.rewritten(page, ["1\n", "2\n"]) == page.read_text().replace("old", "1")
    assert pages.rewritten(page, []) == page.read_text()  # nothing ran


@pytest.mark.parametrize("page", [p for p in PAGES if p.suffix == ".md"], ids=lambda p: p.stem)
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    known = {"python", "python gpu", "python raises", "python seed", "sh", "sh setup", "output", "text"}
    kinds = {info for info, _ in pages.fences(page.read_text())}
    assert {k for k in kinds if k and not k.startswith("{toctree}")} <= known


def test_code_of_the_documents_stands_where_it_is_run() -> None:
    """A `seed` block is one of theirs, blanks aside; tests/torch_migraphx/seeds runs it."""
    seeds = {ast.unparse(tree) for tree in map(parsed, re.split(r"^(?:====|----).*\n", SEEDS, flags=re.M)) if tree}
    blocks = [b for path in PAGES for b in pages.blocks(path) if b.mark == "seed"]
    assert blocks
    assert not [b.code for b in blocks if ast.unparse(ast.parse(b.code)) not in seeds]


def parsed(code: str) -> ast.Module | None:
    """None for what is no Python: what a block prints."""
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


def test_setup_blocks_name_what_is_there() -> None:
    """Targets of make, extras, scripts and modules of the project."""
    text = "".join(b.code for path in PAGES for b in pages.blocks(path) if b.mark == "setup")
    targets = set(re.findall(r"^(\w[\w-]*):", (PROJECT / "Makefile").read_text(), re.M))
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    made, asked = re.findall(r"^make ([\w-]+)", text, re.M), re.findall(r"\[([\w,]+)\]", text)
    assert made and set(made) <= targets
    assert asked and {extra for group in asked for extra in group.split(",")} <= extras.keys()
    assert all((PROJECT / name).exists() for name in re.findall(r"^\./(\S+)", text, re.M))


def test_files_that_are_named_exist() -> None:
    """Paths in backticks, or ends of paths. A NAME is the reader's, _build is what `make docs` makes."""
    folders = ("src", "tests", "tools", "benchmarks", "docs", "examples", "requirements", ".ci")
    there = [p for name in folders for p in (PROJECT / name).rglob("*") if "__pycache__" not in p.parts]
    known = [f"/{p.relative_to(PROJECT).as_posix()}" for p in [*there, *PROJECT.glob("*")]]
    for page in {*PROJECT.glob("*.md"), *(p for p in PAGES if p.suffix == ".md")}:
        prose = pages.FENCE.sub("", page.read_text())
        named = set(re.findall(r"`([\w.*/]+/[\w.*/]*|[\w*]+\.(?:py|hpp|md|json|sh))`", prose))
        for path in (p.strip("./") for p in named if not re.search("NAME|_build", p)):
            assert fnmatch.filter(known, f"*/{path}"), f"{page.name} names {path}, which is not there"


def test_every_example_is_in_the_gallery() -> None:
    listed = set(re.findall(r"examples/(\w+)\.py", (PROJECT / "docs/gallery.md").read_text()))
    assert listed == {path.stem for path in (PROJECT / "examples").glob("*.py")}


def test_every_parameter_of_lower_to_mgx_is_named() -> None:
    """Those that are no options, whose table is written from the code."""
    (named,) = re.findall(r"parameters of its own beside them: ([^(]*)", (PROJECT / "docs/options.md").read_text())
    own = inspect.signature(lower_to_mgx).parameters.keys() - {field.name for field in fields(Options)}
    assert set(re.findall(r"`(\w+)`", named)) == own - {"module", "input", "options"}


def test_messages_that_are_quoted_are_in_the_code() -> None:
    """Of troubleshooting, those in bold that no block provokes."""
    page = (PROJECT / "docs/troubleshooting.md").read_text()
    quoted = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\*\*(`.*?`)\*\*", page, re.M)))
    sources = [path.read_text() for path in (PROJECT / "src").rglob("*.py")]
    assert len(quoted) > 5
    for message in quoted:
        parts = [part.strip() for part in message.split("...")]
        assert any(all(part in text for part in parts) for text in sources), message
