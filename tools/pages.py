"""Run every code block of the documents, the notebooks and the examples; check what they print.

    python -m tools.pages [FILE ...] [--write]

Blocks of a Markdown file are one script, in order, in a folder of its own:

    ```python          runs
    ```python gpu      runs where there is a GPU, is compiled elsewhere
    ```python raises   must raise; the error's last line counts as printed
    ```python seed     stands in tests/torch_migraphx/seeds, whose tests run it
    ```sh              commands of `migraphx-driver`
    ```sh setup        what is done to a machine, not here: `tests/docs` checks what it names
    ```output          what the block before it printed; `...` stands for anything

Cells of a notebook are blocks whose output the file holds. `--write` puts in what they print now. All documents run in
forks of one process that has imported torch and compiled once, which costs more than most; it starts no threads.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import json
import linecache
import os
import re
import shlex
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

import migraphx.api.onnx
import migraphx.targets.cpu.target  # noqa: F401
import torch_migraphx.dynamo  # noqa: F401
from benchmarks.models import import_torchvision
from migraphx.driver.main import main as driver
from torch_migraphx.fx import lower_to_mgx

PROJECT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S)
RUN = ("python", "sh")
HEAVY = {"demo.py": "`make demo` runs it: it trains for a minute"}
OBJECTS = 20_000  # new ones between two collections of garbage: what torch makes of a graph is mostly none
ELSEWHERE = ("seed", "setup")  # the marks of blocks that are not run here
PINNED = f"torch=={torch.__version__.partition('+')[0]}\n" in (PROJECT / "requirements" / "constraints.txt").read_text()
"""Whether torch prints its graphs as the documents show them: it changes their text from release to release."""


@dataclass(frozen=True)
class Block:
    """Code of a document and what it prints; `printed` is None where the document does not say."""

    kind: str  # python | sh
    mark: str  # "" | gpu | raises | seed | setup
    code: str
    printed: str | None
    line: int


def documents() -> list[Path]:
    """What users read and run, `examples/demo.py` apart."""
    examples = [p for p in sorted((PROJECT / "examples").glob("*.py")) if p.name not in HEAVY and p.stem != "__init__"]
    pages = [p for p in sorted((PROJECT / "docs").rglob("*.md")) if "_build" not in p.parts]
    return [PROJECT / "README.md", *pages, *sorted((PROJECT / "docs").rglob("*.ipynb")), *examples]


def fences(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Each fenced block with its info string."""
    for found in FENCE.finditer(text):
        yield found["info"].strip(), found


def blocks(path: Path) -> list[Block]:
    """The blocks of a document, in order."""
    text = path.read_text()
    if path.suffix == ".py":
        return [Block("python", "", text, None, 1)]
    if path.suffix == ".ipynb":
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        lines = accumulate((len(c["source"]) for c in cells), initial=1)
        sources = ["".join(c["source"]) for c in cells]
        return [Block("python", "", s, cell_output(c), n) for n, s, c in zip(lines, sources, cells, strict=False)]
    made: list[Block] = []
    for info, found in fences(text):
        kind, _, mark = info.partition(" ")
        if kind in RUN:
            made.append(Block(kind, mark, found["text"], None, text.count("\n", 0, found.start()) + 2))
        elif kind == "output":
            made[-1] = replace(made[-1], printed=found["text"])
    return made


def cell_output(cell: dict[str, Any]) -> str:
    """What a notebook's cell printed when it was written."""
    return "".join(line for o in cell["outputs"] for line in o["text"])


def run_block(block: Block, space: dict[str, Any], name: str) -> None:
    """Run a block. Raises what it raises, or AssertionError where it should have raised."""
    if block.kind == "sh":
        for line in block.code.replace("\\\n", " ").splitlines():
            command(line)
        return
    code = compile("\n" * (block.line - 1) + block.code, name, "exec")
    if block.mark == "gpu" and not torch.cuda.is_available():
        print(block.printed or "", end="")
        return
    try:
        exec(code, space)
    except Exception as error:
        if block.mark != "raises":
            raise
        print(traceback.format_exception_only(error)[-1], end="")
    else:
        assert block.mark != "raises", "the block should have raised"


def command(line: str) -> None:
    """Run a line of a `sh` block in this process; AssertionError where it fails."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    assert words[0] == "migraphx-driver", f"a `sh` block runs migraphx-driver; mark others `sh setup`: {line}"
    try:
        code = driver(words[1:])
    except SystemExit as ended:
        code = ended.code
    assert not code, f"exit code {code}: {line}"


def matches(printed: str, wanted: str) -> bool:
    """Whether a text is the wanted one, in which `...` stands for anything."""
    parts = (re.escape(part) for part in plain(wanted).split("..."))
    return re.fullmatch(".*?".join(parts), plain(printed), re.S) is not None


def plain(text: str) -> str:
    """Without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def lines_of(script: Sequence[Block]) -> list[str]:
    """The lines of all Python blocks, where each block says that it stands."""
    lines: list[str] = []
    for block in script:
        lines += ["\n"] * (block.line - 1 - len(lines))
        lines += block.code.splitlines(keepends=True)
    return lines


def run_document(path: Path) -> dict[str, Any]:
    """Run all blocks here: what each printed, and the failures as texts."""
    space: dict[str, Any] = {"__name__": "__main__"}
    printed: list[str] = []
    failures: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()) as out:  # one for all blocks: loggers keep the first
        script, sys.argv = blocks(path), [str(path)]
        linecache.cache[path.name] = (1, None, lines_of(script), path.name)  # torch quotes lines of the source
        for block in script:
            where = f"{path.relative_to(PROJECT)}:{block.line}"
            start = len(out.getvalue())
            try:
                if block.mark not in ELSEWHERE:
                    run_block(block, space, path.name)
            except BaseException:
                failures.append(f"{where}\n{traceback.format_exc()}")
                break
            printed.append(out.getvalue()[start:])
            if block.printed is not None and PINNED and not matches(printed[-1], block.printed):
                failures.append(f"{where} prints\n{printed[-1]}\nand the document says\n{block.printed}")
    return {"printed": printed, "failures": failures}


def in_a_fork(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Its answer, from a child of this process that works in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        child = os.fork()
        if not child:
            try:
                (Path(folder) / "work").mkdir()
                os.chdir(Path(folder) / "work")
                answer.write_text(json.dumps(work()))
            except BaseException:
                answer.write_text(json.dumps({"printed": [], "failures": [traceback.format_exc()]}))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if not answer.exists():
            return {"printed": [], "failures": [f"the process ended with status {status}"]}
        return json.loads(answer.read_text())


def rewritten(path: Path, printed: Sequence[str]) -> str:
    """The document with what its blocks print now; what matches stays."""
    if path.suffix == ".ipynb":
        book = json.loads(path.read_text())
        cells = [c for c in book["cells"] if c["cell_type"] == "code"]
        for cell, text in zip(cells, printed, strict=False):
            if not matches(text, cell_output(cell)):
                stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
                cell["outputs"] = [stream] if text else []
        return json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    given = iter(printed)
    last: str | None = None

    def replaced(found: re.Match[str]) -> str:
        nonlocal last
        kind = found["info"].strip().partition(" ")[0]
        if kind in RUN:
            last = next(given, None)  # None behind a block that failed
        if kind != "output" or last is None or matches(last, found["text"]):
            return found[0]
        return f"```output\n{plain(last)}\n```"

    return FENCE.sub(replaced, path.read_text())


def imported_by_several(paths: Sequence[Path]) -> list[str]:
    """The modules that more than one of the documents imports."""
    found: Counter[str] = Counter()
    for path in paths:
        code = "\n".join(b.code for b in blocks(path) if b.kind == "python" and b.mark not in ELSEWHERE)
        names = re.findall(r"^(?:import|from) ([\w.]+)", code, re.M)
        found.update({".".join(parts) for name in names for parts in accumulate([p] for p in name.split("."))})
    return [name for name, count in found.items() if count > 1]


def warm_up(modules: Sequence[str] = ()) -> None:
    """Import these, and do once what all compilations share, by each road; bars of tqdm would start a thread.

    The collector leaves alone what exists then: forks that it walks through copy all of it.
    """
    with contextlib.suppress(ModuleNotFoundError):
        import_torchvision()  # transformers does, which must work where torch is of another build
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("tqdm").tqdm.monitor_interval = 0
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if torch.version.cuda is not None:  # a compilation asks for GPUs, which forks could not use then
        return
    model, x = torch.nn.Linear(2, 2).eval(), torch.ones(1, 2)
    with torch.no_grad():
        lower_to_mgx(model, [x], target="ref")
        torch.compile(model, backend="migraphx", options={"target": "ref"})(x)
        torch.export.export(model, (x,))
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS)


def used() -> float:
    """Seconds of processor of the forks so far."""
    times = os.times()
    return times.children_user + times.children_system


def main(given: Sequence[str] | None = None) -> int:
    """The number of documents that fail; each failure is printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="put in what the blocks print now")
    parser.add_argument("--times", action="store_true", help="say how long each document took")
    words = parser.parse_args(given)
    paths = [p.resolve() for p in words.files] or documents()
    warm_up(imported_by_several(paths))
    failed = 0
    for path in paths:
        start = used()
        result = in_a_fork(lambda path=path: run_document(path))
        if words.write and path.suffix != ".py":
            path.write_text(rewritten(path, result["printed"]))
            result["failures"] = [f for f in result["failures"] if "and the document says" not in f]
        if words.times:
            print(f"{used() - start:6.2f} s of CPU, {path.relative_to(PROJECT)}")
        failed += bool(result["failures"])
        for failure in result["failures"]:
            print(failure, file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
