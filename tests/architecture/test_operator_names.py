"""What an operator is stands where it is declared: nobody else keeps a list of operators' names.

A list of three names or more asks a question that a trait (`op.contraction`) or a family (`isinstance(op, Reduction)`)
answers; names that somebody forgets to add are wrong in silence. What is no such question is in ALLOWED.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import migraphx.onnx.deferred
import migraphx.onnx.unknown
import migraphx.ops  # noqa: F401
from migraphx.ir.operation import OPERATIONS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "migraphx"
DECLARATIONS = "ops"
FEWEST = 3
OURS = {name for name, op in OPERATIONS.items() if op.__module__.startswith("migraphx.")}
ALLOWED: dict[str, str] = {
    "add max min mul": "how a scatter joins elements: values of its attribute, in ONNX's words and ours",
    "equal greater less": "the comparisons of a tree's nodes, numbered as ONNX does",
    "add cos div dot exp log mul multibroadcast neg reduce_sum relu sigmoid sin sqrt sub tanh transpose":
        "the derivative of each operator: a table of functions",
    "convert softmax where": "one rule's pattern: a softmax, perhaps behind a convert or a guard",
    "add mul neg sub": "scalar words that are operators of C++",
    "bitwise_and bitwise_not bitwise_or bitwise_xor equal greater less shift_left shift_right":
        "scalar words that math.hpp calls by other names",
    "add bitwise_and bitwise_not bitwise_or bitwise_xor equal greater isinf isnan less logical_and logical_or "
    "logical_xor mul sub where": "scalar words that Triton has as they are meant",
    "div erf exp recip rsqrt sigmoid sqrt": "scalar words that may be approximate where results have 16 bits",
}  # fmt: skip
"""The names in a list, in order, and why they may stand there."""


def strings(nodes: Iterable[ast.AST | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def listed(node: ast.AST) -> list[str]:
    """The texts in a set, tuple, list, the keys of a dict, the cases of a match, or words that are split."""
    match node:
        case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            return strings(items)
        case ast.Dict(keys=keys):
            return strings(keys)
        case ast.MatchOr(patterns=patterns):
            return strings(p.value for p in patterns if isinstance(p, ast.MatchValue))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(words)), attr="split")):
            return words.split()
        case ast.BoolOp(values=values):
            return strings(c for v in values if isinstance(v, ast.Compare) for c in v.comparators)
    return []


def exported(tree: ast.AST) -> set[ast.AST]:
    """The values of `__all__`: names of modules."""
    assigned = (n for n in ast.walk(tree) if isinstance(n, ast.Assign))
    return {n.value for n in assigned if any(isinstance(t, ast.Name) and t.id == "__all__" for t in n.targets)}


def lists_of_operators(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the operators of every list of FEWEST names of operators or more."""
    spared = exported(tree)
    for node in ast.walk(tree):
        names = sorted({*listed(node)} & OURS) if node not in spared else []
        if len(names) >= FEWEST:
            yield getattr(node, "lineno", 0), " ".join(names)


@cache
def all_lists(source: Path = SOURCE) -> list[tuple[str, str]]:
    """Where each list stands, and the operators in it."""
    found: list[tuple[str, str]] = []
    for path in sorted(source.rglob("*.py")):
        where = path.relative_to(source)
        if where.parts[0] != DECLARATIONS:
            lists = lists_of_operators(ast.parse(path.read_text()))
            found += [(f"{where}:{line}", names) for line, names in lists]
    return found


def test_nobody_keeps_lists_of_operators() -> None:
    found = [f"{where}: {names}" for where, names in all_lists() if names not in ALLOWED]
    assert not found, "ask a trait of Operation or its family instead:\n" + "\n".join(found)


def test_what_is_allowed_is_there() -> None:
    assert {names for _, names in all_lists()} >= ALLOWED.keys()


@pytest.mark.parametrize("source", [
    "S = frozenset({'dot', 'gather', 'concat', 'mine'})", "for n in ('dot', 'gather', 'concat'): pass",
    "T = {'dot': 1, 'gather': 2, 'concat': 3}", "T = 'dot gather concat'.split()",
    "x = n == 'dot' or n == 'gather' or n == 'concat'",
    "match n:\n    case 'dot' | 'gather' | 'concat':\n        pass",
])  # fmt: skip
def test_each_kind_of_list_is_found(source: str) -> None:
    assert [names for _, names in lists_of_operators(ast.parse(source))] == ["concat dot gather"]


def test_two_names_and_exports_are_no_list() -> None:
    tree = ast.parse("x = n in ('dot', 'gather')\n__all__ = ['convolution', 'pointwise', 'pooling']")
    assert not list(lists_of_operators(tree))
