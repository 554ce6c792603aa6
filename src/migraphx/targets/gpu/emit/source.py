"""The text of kernels: generated functions, with the functions of kernels/ that they name."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock

KERNELS = Path(__file__).parent.parent / "kernels"
HEAD = "import triton\nimport triton.language as tl\n"


_one_at_a_time = RLock()


@contextmanager
def parsing() -> Iterator[None]:
    """One thread at a time, and no garbage is collected meanwhile.

    Python before 3.13 counts the depth of syntax trees in one place for all threads: where a collection lets another
    thread parse, both fail (SystemError).
    """
    with _one_at_a_time:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def parsed(text: str) -> ast.Module:
    with parsing():
        return ast.parse(text)


@dataclass(frozen=True)
class Definition:
    """A function or a constant of kernels/: its text, and the names that it uses."""

    text: str
    names: frozenset[str]


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _definitions(text: str) -> Iterator[tuple[str, Definition]]:
    lines = text.splitlines()
    for node in parsed(text).body:
        if isinstance(node, ast.FunctionDef):
            name, first = node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, first = node.target.id, node.lineno
        else:
            continue
        yield name, Definition("\n".join(lines[first - 1 : node.end_lineno]), _names(node))


@cache
def definitions() -> dict[str, Definition]:
    """All of kernels/ by name; ValueError where two have one name."""
    found: dict[str, Definition] = {}
    for path in sorted(KERNELS.glob("*.py")):
        for name, definition in _definitions(path.read_text()):
            if name in found:
                raise ValueError(f"{path.name}: kernels/ has two definitions of {name!r}")
            found[name] = definition
    return found


def complete(text: str) -> str:
    """A module of `text`, perhaps empty, and of what it names in kernels/, directly or not.

    A text has all that it needs and nothing else, so that kernels stay in the cache when others change.
    """
    known, needed = definitions(), dict[str, None]()

    def need(names: frozenset[str]) -> None:
        for name in sorted(names & known.keys()):
            if name not in needed:
                needed[name] = None
                need(known[name].names)

    tree = parsed(text)
    own = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    need(_names(tree) - own)
    parts = [known[name].text for name in sorted(needed)]
    return "\n\n\n".join([HEAD.rstrip(), *parts, *([text.strip()] if text.strip() else [])]) + "\n"


def kernel_text(name: str) -> str:
    """The module of one function of kernels/."""
    return complete(f"{name}\n").removesuffix(f"\n\n\n{name}\n") + "\n"
