"""The layout rules of this project, found in the syntax trees of its files.

A room is the first folder or file under a package (`migraphx.ops`, `migraphx.program`); `__init__` of the
package itself is the room `migraphx`. MAY_IMPORT says which rooms each room may read.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE, MAX_FUNCTION = 600, 60
PACKAGES = ("migraphx", "torch_migraphx")

GROUND = {"migraphx.ir"}
CORE = GROUND | {"migraphx.ops"}
FLOOR_2 = {"migraphx.passes", "migraphx.runtime", "migraphx.mxr"}
FLOOR_3 = {"migraphx.onnx", "migraphx.targets", "migraphx.quantize", "migraphx.writers"}
ENGINE = CORE | FLOOR_2 | FLOOR_3 | {"migraphx.inspect", "migraphx.api"}
MAY_IMPORT: dict[str, set[str]] = {
    "migraphx.ir": set(),
    "migraphx.ops": GROUND,
    **dict.fromkeys(FLOOR_2, CORE),
    **dict.fromkeys(FLOOR_3, CORE | FLOOR_2),
    "migraphx.inspect": CORE | FLOOR_2 | {"migraphx.targets"},
    "migraphx.api": CORE | FLOOR_2 | FLOOR_3 | {"migraphx.inspect"},
    "migraphx": ENGINE,
    "migraphx.driver": ENGINE | {"migraphx"},
    "migraphx.backend": ENGINE,
    "torch_migraphx": {"migraphx"},
}
TORCH = {"torch", "triton", "torchvision", "transformers"}
DOTTED = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
MAY_IMPORT_TORCH = ("torch_migraphx/", "migraphx/targets/gpu/")


@dataclass(frozen=True)
class Import:
    """One name that one statement reads, for types alone too: `target` is absolute and dotted."""

    target: str
    line: int
    hidden: bool = False  # inside a function
    text: bool = False  # the name of a module as a text: who has it can import it later


def imports(tree: ast.AST, package: tuple[str, ...]) -> list[Import]:
    """Every name imported in `tree`, a file of `package`."""
    found: list[Import] = []
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, hidden = todo.pop()
        hidden = hidden or isinstance(node, FUNCTION)
        todo += [(child, hidden) for child in ast.iter_child_nodes(node)]
        names: list[str] = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            found.append(Import(node.value, node.lineno, text=True))
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join(filter(None, (*above, node.module)))
            names = [f"{base}.{alias.name}" for alias in node.names]
        found += [Import(name, getattr(node, "lineno", 0), hidden) for name in names]
    return found


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods, nested ones too."""
    return [n for n in ast.walk(tree) if isinstance(n, FUNCTION)]


def room_of(target: str, root: Path) -> str | None:
    """The room that a dotted name belongs to; None outside our packages.

    `migraphx.Shape` is a public name, hence of room `migraphx`; `migraphx.ops.Dot` is of `migraphx.ops`.
    """
    parts = target.split(".")
    if parts[0] not in PACKAGES:
        return None
    if parts[0] == "torch_migraphx" or len(parts) == 1:
        return parts[0]
    place = root / parts[0] / parts[1]
    return f"{parts[0]}.{parts[1]}" if place.is_dir() or place.with_suffix(".py").is_file() else parts[0]


def size_breaches(where: Path, source: str, tree: ast.AST) -> Iterator[str]:
    """Files and functions that are too long; C++ and Python files alike for the former."""
    lines = source.count("\n")
    if lines > MAX_FILE:
        yield f"{where}: {lines} lines, at most {MAX_FILE}"
    for f in functions(tree):
        lines = (f.end_lineno or f.lineno) - f.lineno + 1
        if lines > MAX_FUNCTION:
            yield f"{where}:{f.lineno}: {f.name} has {lines} lines, at most {MAX_FUNCTION}"


def import_breaches(where: Path, read: Sequence[Import], root: Path) -> Iterator[str]:
    """Wildcards, hidden imports of our own code, wrong directions, torch where it must not be."""
    here = room_of(".".join(where.with_suffix("").parts).removesuffix(".__init__"), root) or ""
    for item in read:
        at = f"{where}:{item.line}"
        if item.target.endswith(".*"):
            yield f"{at}: wildcard import of {item.target}"
        top = item.target.split(".")[0]
        if top in TORCH and not where.as_posix().startswith(MAY_IMPORT_TORCH):
            yield f"{at}: imports {top}; only the bridge and targets/gpu may"
        there = room_of(item.target, root)
        if there is None:
            continue
        if item.hidden:
            yield f"{at}: hidden import of {item.target}"
        if there != here and there not in MAY_IMPORT.get(here, set()):
            yield f"{at}: {here} may not import {there}"


def sibling_target_breaches(where: Path, read: Sequence[Import]) -> Iterator[str]:
    """Targets share targets/common only: cpu, gpu and ref never read one another."""
    parts = where.parts
    if parts[:2] != ("migraphx", "targets") or len(parts) < 4:
        return
    for item in read:
        there = item.target.split(".")
        if there[:2] == ["migraphx", "targets"] and there[2] in {"cpu", "gpu", "ref"} - {parts[2]}:
            yield f"{where}:{item.line}: target {parts[2]} may not import target {there[2]}"


def target_breaches(where: Path, read: Sequence[Import]) -> Iterator[str]:
    """What a compiled target knows stays there: others ask it by the Target protocol, and the registry names it."""
    place = where.as_posix()
    for item in read:
        for target in ("cpu", "gpu"):
            inside = place.startswith(f"migraphx/targets/{target}/") or place == "migraphx/targets/registry.py"
            if f"{item.target}.".startswith(f"migraphx.targets.{target}.") and not inside:
                yield f"{where}:{item.line}: names {item.target}, which only targets/{target} and the registry may"


def read_files(files: Mapping[Path, Sequence[Import]]) -> dict[Path, set[Path]]:
    """The files of ours that each file imports from, for types alone too; given what each file imports."""
    names = {".".join(where.with_suffix("").parts).removesuffix(".__init__"): where for where in files}
    reads: dict[Path, set[Path]] = {}
    for where, read in files.items():
        targets = (item.target for item in read if not item.text)
        reads[where] = {found for t in targets if (found := _file_of(t, names))} - {where}
    return reads


def mutual_breaches(reads: Mapping[Path, Collection[Path]]) -> Iterator[str]:
    """Rooms that import from each other: at every level, the folders and the files of one folder are rooms."""
    arrows: dict[tuple[Path, Path], Path] = {}
    for where, targets in reads.items():
        for target in targets:
            level = next(k for k, (a, b) in enumerate(zip(where.parts, target.parts, strict=False)) if a != b)
            arrows.setdefault((Path(*where.parts[: level + 1]), Path(*target.parts[: level + 1])), where)
    for (room, other), where in arrows.items():
        if room < other and (other, room) in arrows:
            yield f"{room} and {other} import from each other: {where}, {arrows[other, room]}"


def circle_breaches(reads: dict[Path, set[Path]]) -> Iterator[str]:
    """Files that import each other, directly or by way of others: no order exists in which to read them."""
    reads = dict(reads)
    while ends := [where for where, read in reads.items() if not read & reads.keys()]:
        for where in ends:
            del reads[where]
    while starts := [where for where in reads if not any(where in read for read in reads.values())]:
        for where in starts:
            del reads[where]
    if reads:
        yield f"import each other: {', '.join(map(str, reads))}"


def _file_of(target: str, names: Mapping[str, Path]) -> Path | None:
    """The file that an imported name is read from: a module, or the one that defines it."""
    return names.get(target) or names.get(target.rpartition(".")[0])


def breaches(root: Path) -> list[str]:
    """All breaches below `root`, the folder that holds the packages."""
    found: list[str] = []
    files: dict[Path, list[Import]] = {}
    for path in sorted(root.rglob("*.py")):
        where, source = path.relative_to(root), path.read_text()
        tree = ast.parse(source)
        files[where] = read = imports(tree, where.with_suffix("").parts[:-1])
        found += size_breaches(where, source, tree)
        found += import_breaches(where, read, root)
        found += sibling_target_breaches(where, read)
        found += target_breaches(where, read)
    reads = read_files(files)
    found += mutual_breaches(reads)
    found += circle_breaches(reads)
    for path in sorted(root.rglob("*.hpp")):
        found += size_breaches(path.relative_to(root), path.read_text(), ast.Module([], []))
    return found
