"""Assertions and raised errors of the model that depend on data: a trace goes on as if they did not fail.

Where the truth of a tensor is asked for, the statement that asks is looked up in the model's source. What only decides
whether an error is raised is answered with the truth that raises none; such a statement is a check.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from dataclasses import dataclass, replace
from dis import opname
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import fx, nn

ASSERTS = (torch._assert, vars(torch)["_assert_async"])
Span = tuple[tuple[int, int], tuple[int, int]]
TRUTHS = ("bool", "any", "all")
"""Functions of Python that are true of more where their arguments are."""


class ConditionalExceptionWrapper(nn.Module):
    """Raises `exc(msg)`, or `exc` itself where the message is None, if it is called with a condition that is true."""

    _is_impure = True  # so that torch.fx removes no call of it

    def __init__(self, exc: type[BaseException]) -> None:
        super().__init__()
        self.exc = exc

    def forward(self, cond: Any, msg: str | None = None) -> None:
        """Raise, or do nothing."""
        if cond:
            raise self.exc if msg is None else self.exc(msg)


@dataclass(frozen=True)
class Check:
    """A statement that raises unless a value has the truth `holds`.

    `alone` says whether any other truth raises, whatever else the condition holds.
    """

    statement: ast.Assert | ast.If
    raised: ast.Raise | None
    holds: bool
    alone: bool
    before: tuple[ast.stmt, ...] = ()
    """What prepares the raise."""

    def exception(self, frame: FrameType) -> tuple[type[BaseException], str | None]:
        """What is raised, as the names in the frame have it: its class and its message."""
        if self.raised is None or self.raised.exc is None:
            return AssertionError, None
        made = _evaluated(self.raised.exc, frame, self.before)
        if isinstance(made, type):
            return made, None
        return type(made), str(made)

    def message(self, frame: FrameType) -> str:
        """The message of an assertion; its condition where there is none."""
        assert isinstance(self.statement, ast.Assert)
        said = self.statement.msg
        return ast.unparse(self.statement.test) if said is None else str(_evaluated(said, frame))


def check_of(frame: FrameType) -> Check | None:
    """The check for which the code that a frame is at asks for a truth; None where the truth decides anything else."""
    asked = _asked_by(frame)
    if asked is None or _is_caught(frame):
        return None
    found = [s for s in _source(frame).statements if _within(asked, s)]
    statement = max(found, key=lambda s: (s.lineno, s.col_offset), default=None)
    if statement is None:
        return None
    if isinstance(statement, ast.Assert):
        return _check(statement, None, asked, wanted=True)
    for body, wanted in ((statement.body, False), (statement.orelse, True)):
        if body and isinstance(body[-1], ast.Raise) and not any(map(_leaves, body[:-1])):
            check = _check(statement, body[-1], asked, wanted)
            return check and replace(check, before=tuple(body[:-1]))
    return None


def _asked_by(frame: FrameType) -> Span | None:
    """Where the expression stands whose truth is asked for: what the instruction calls, or what made its operand."""
    codes, at = frame.f_code.co_code, frame.f_lasti // 2
    name = opname[codes[frame.f_lasti]]
    if "JUMP" in name or name in ("TO_BOOL", "UNARY_NOT"):  # they may stand for all of the statement
        at -= 1
        while at and opname[codes[2 * at]] == "EXTENDED_ARG":
            at -= 1
    line, end_line, column, end_column = next(islice(frame.f_code.co_positions(), at, None), (None,) * 4)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return (line, column), (end_line, end_column)


def _evaluated(expression: ast.expr, frame: FrameType, before: tuple[ast.stmt, ...] = ()) -> Any:
    names = {**vars(builtins), **frame.f_globals, **frame.f_locals}
    file = frame.f_code.co_filename
    exec(compile(ast.Module(list(before), []), file, "exec"), names)
    return eval(compile(ast.Expression(expression), file, "eval"), names)


def _span(node: ast.stmt | ast.expr) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _within(asked: Span, node: ast.stmt | ast.expr) -> bool:
    """Whether the asking code lies in the condition of a statement, or in an expression, or is all of it."""
    tested = node.test if isinstance(node, ast.Assert | ast.If) else node
    spans = [_span(tested), _span(node)] if isinstance(node, ast.Assert) else [_span(tested)]
    return any(start <= asked[0] and asked[1] <= end for start, end in spans)


class Source(NamedTuple):
    """What may be a check in a source file, and the lines where an error is caught: raising decides what follows."""

    statements: list[ast.Assert | ast.If]
    tried: list[range]


def _source(frame: FrameType) -> Source:
    return _parsed("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))


@lru_cache(maxsize=64)
def _parsed(text: str) -> Source:
    """Nothing where it is no Python of this version."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return Source([], [])
    tries = [n.body for n in nodes if isinstance(n, ast.Try) and n.handlers]
    tried = [range(body[0].lineno, (body[-1].end_lineno or 0) + 1) for body in tries]
    return Source([n for n in nodes if isinstance(n, ast.Assert | ast.If)], tried)


def _is_caught(frame: FrameType | None) -> bool:
    """Whether the model catches what is raised here, in this function or in one that called it."""
    while frame is not None and frame.f_code is not fx.Tracer.trace.__code__:
        ours = frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "torch_migraphx")
        if not ours and any(frame.f_lineno in lines for lines in _source(frame).tried):
            return True
        frame = frame.f_back
    return False


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement before the raise may do anything else than prepare it."""
    return not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr)


def _check(statement: ast.Assert | ast.If, raised: ast.Raise | None, asked: Span, wanted: bool) -> Check | None:
    """The check of a statement whose condition is `wanted`; None where one value's truth does not lead there."""
    part: Any = statement.test
    alone = True
    if isinstance(statement, ast.Assert) and asked == _span(statement):
        alone = not any(isinstance(n, ast.BoolOp) for n in ast.walk(part))
        return Check(statement, raised, wanted, alone)  # code that a test runner put there
    while _span(part) != asked:
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            part, wanted = part.operand, not wanted
        elif isinstance(part, ast.BoolOp):
            inner = next((v for v in part.values if _within(asked, v)), None)
            if inner is None:
                return None
            alone = alone and isinstance(part.op, ast.And) == wanted
            part = inner
        elif inside := [a for a in _arguments(part) if _within(asked, a)]:
            part = inside[0]
        else:
            return None
    several = bool(_arguments(part)) and part.func.id != "bool"
    chain = isinstance(part, ast.Compare) and len(part.ops) > 1 and not wanted
    return Check(statement, raised, wanted, alone and not several and not chain)


def _arguments(part: Any) -> list[ast.expr]:
    """The arguments of `bool(x)`, `any(x)` and `all(x)`; none of other expressions."""
    called = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in TRUTHS
    return part.args if called else []


def remove(graph: fx.Graph, asked: list[fx.Node], asserts: bool) -> None:
    """Erase what was computed for checks alone: the nodes `asked` for, torch's assertions, and what they read."""
    erased = [n for n in graph.nodes if asserts and n.op == "call_function" and n.target in ASSERTS]
    waiting = [*erased, *asked]
    while waiting:
        n = waiting.pop()
        if n.users or n.op in ("placeholder", "get_attr") or n.meta.get("mutates") or n._erased:
            continue
        waiting += n.all_input_nodes
        graph.erase_node(n)
