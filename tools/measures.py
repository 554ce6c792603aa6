"""How large and how tidy the house is: `python -m tools.measures [BASE]`, beside a commit where one is given.

A room is a folder or a file of one folder; rooms that import from each other, circles of files and lists of operators'
names are found by the tests of the architecture, and are to be 0.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tempfile
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.architecture.checks import circle_breaches, functions, imports, mutual_breaches, read_files
from tests.architecture.test_operator_names import ALLOWED, all_lists

PROJECT = Path(__file__).resolve().parents[1]
CODE = {
    "engine": "src/migraphx",
    "bridge": "src/torch_migraphx",
    "tests": "tests",
    "tools": "tools",
    "benchmarks": "benchmarks",
}
KERNELS = "src/migraphx/targets"
FILE_HEAD = (
    "files",
    "lines",
    "median",
    "largest file",
    "functions",
    "median",
    "largest function",
    "comments",
    "docs",
    "typed",
)


@dataclass(frozen=True)
class Python:
    """What is measured of the Python files of a place: lines of functions by name, and shares in percent."""

    lines: dict[str, int]
    functions: dict[str, int]
    comments: int  # lines that are one, or end in one
    documented: int  # functions
    typed: int  # functions all of whose parameters have a type, and their result

    def row(self) -> tuple[str, ...]:
        total, count = sum(self.lines.values()), max(len(self.functions), 1)
        return (
            *(str(len(self.lines)), str(total), f"{median(self.lines.values()):.0f}", largest(self.lines)),
            *(str(len(self.functions)), f"{median(self.functions.values()):.0f}", largest(self.functions)),
            *(
                f"{100 * n / of:.1f} %"
                for n, of in ((self.comments, total), (self.documented, count), (self.typed, count))
            ),
        )


def largest(sizes: dict[str, int]) -> str:
    name = max(sizes, key=sizes.__getitem__)
    return f"{sizes[name]} {name}"


def measured(root: Path, folder: str) -> Python:
    """The Python files of one folder."""
    lines, sizes, comments, documented, typed = {}, {}, 0, 0, 0
    for path in sorted((root / folder).rglob("*.py")):
        source, name = path.read_text(), path.relative_to(root / folder).as_posix()
        lines[name] = source.count("\n")
        comments += sum(t.type == tokenize.COMMENT for t in tokenize.generate_tokens(io.StringIO(source).readline))
        for f in functions(ast.parse(source)):
            sizes[f"{name}:{f.lineno} {f.name}"] = (f.end_lineno or f.lineno) - f.lineno + 1
            documented += ast.get_docstring(f) is not None
            typed += is_typed(f)
    return Python(lines, sizes, comments, documented, typed)


def is_typed(f: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether all parameters and the result have a type."""
    a = f.args
    given = [x for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None]
    return f.returns is not None and all(x.annotation is not None for x in given if x.arg not in ("self", "cls"))


def structure(root: Path) -> dict[str, int]:
    """What is to be 0, of engine and bridge together, and what is generated."""
    paths = {p.relative_to(root / "src"): p for p in sorted((root / "src").rglob("*.py"))}
    files = {where: imports(ast.parse(p.read_text()), where.parts[:-1]) for where, p in paths.items()}
    reads = read_files(files)
    found = [item for read in files.values() for item in read]
    ours = [item for item in found if item.target.startswith(("migraphx", "torch_migraphx"))]
    stubs = [p.read_text().count("\n") for p in (root / "src").rglob("*.pyi")]
    return {
        "mutual rooms": sum(1 for _ in mutual_breaches(reads)),
        "circles of files": sum(1 for _ in circle_breaches(reads)),
        "hidden imports": sum(item.hidden for item in ours),
        "wildcard imports": sum(item.target.endswith(".*") for item in found),
        "lists of operators' names": sum(names not in ALLOWED for _, names in all_lists(root / CODE["engine"])),
        "lines of generated stubs": sum(stubs),
    }


def headers(root: Path) -> dict[str, int]:
    """Lines of the C++ headers by name."""
    return {p.name: p.read_text().count("\n") for p in sorted((root / KERNELS).rglob("*.hpp"))}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [tuple(head), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def report(root: Path) -> str:
    """All measures of a checkout."""
    rows = [(name, *measured(root, folder).row()) for name, folder in CODE.items()]
    cpp = headers(root)
    kernels = f"C++ headers: {len(cpp)} files, {sum(cpp.values())} lines, largest {largest(cpp)}"
    return "\n".join(
        [
            table(("", *FILE_HEAD), rows),
            kernels,
            "",
            table(("structure", ""), ((k, str(v)) for k, v in structure(root).items())),
        ]
    )


def checked_out(commit: str, folder: str) -> Path:
    """The files of a commit, in a folder."""
    packed = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", help="a commit to measure as well")
    base = parser.parse_args().base
    if base:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{base}:\n{report(checked_out(base, folder))}\n\nhere:")
    print(report(PROJECT))


if __name__ == "__main__":
    main()
