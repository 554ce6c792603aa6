"""What upstream keeps to C++ or its driver: passes by name, other formats, verification, reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from migraphx import inspect, writers
from migraphx.api.argument import argument, as_array
from migraphx.api.module import instruction_ref
from migraphx.api.program import program, published
from migraphx.inspect import (
    Bisection,
    Explanation,
    InstructionCheck,
    Reduction,
    Report,
    Tolerance,
    VerifyReport,
)
from migraphx.ir.module import Instruction
from migraphx.ir.operation import Value
from migraphx.ir.program import Program
from migraphx.passes import manager
from migraphx.runtime.options import CompileKeywords, CompileOptions
from migraphx.targets.registry import passes_named
from migraphx.targets.target import Target

Params = Mapping[str, Any]


def run_passes(p: program, passes: Sequence[str]) -> None:
    """Apply the named passes, in this order; ValueError names an unknown one, RuntimeError for a compiled program."""
    if p.is_compiled():
        raise RuntimeError("apply passes to a program before compiling it")
    manager.run_passes(p.graph, passes_named(passes))


def share_weights(p: program, others: Sequence[program]) -> None:
    """Let a compiled program, which must not be running, use the memory of equal weights of other compiled programs.

    RuntimeError where one of them is not compiled.
    """
    if not all(q.is_compiled() for q in (p, *others)):
        raise RuntimeError("share_weights: compile the programs first")
    p.executable.share_weights([q.executable for q in others])


# ---- other formats ----


def to_graphviz(p: program, brief: bool = False) -> str:
    """A picture in Graphviz's language; `brief` shows operators only."""
    return writers.to_graphviz(p.graph, brief)


def to_netron(p: program) -> str:
    """JSON that Netron opens."""
    return writers.to_netron(p.graph)


def to_json(p: program) -> str:
    """Upstream's JSON: what `save(p, path, format="json")` writes."""
    return writers.to_json(p.graph)


def to_cpp(p: program) -> str:
    """C++ that builds the program through MIGraphX's public C++ interface."""
    return writers.to_cpp(p.graph)


# ---- verification: the options are compile's; the tolerance is that of the program's types where none is given ----


def verify_program(
    p: program, t: Target | str, params: Params, tolerance: Tolerance | None = None, *,
    double: bool = False, **options: Unpack[CompileKeywords],
) -> VerifyReport:  # fmt: skip
    """Run on the target and on `ref` (`double`: in double precision) and compare every output.

    Errors as of `compile` and `run`.
    """
    return inspect.verify_program(*_question(p, t, params, tolerance, double, options))


def verify_instructions(
    p: program, t: Target | str, params: Params, tolerance: Tolerance | None = None, *,
    double: bool = False, **options: Unpack[CompileKeywords],
) -> list[InstructionCheck]:  # fmt: skip
    """Each instruction alone on the values that it has on `ref`. Errors as of `compile` and `run`."""
    return inspect.verify_instructions(*_question(p, t, params, tolerance, double, options))


def reduce_program(
    p: program, t: Target | str, params: Params, tolerance: Tolerance | None = None, *,
    double: bool = False, **options: Unpack[CompileKeywords],
) -> Reduction | None:  # fmt: skip
    """The smallest part that still differs, its `program` a migraphx.program; None where nothing differs."""
    found = inspect.reduce_program(*_question(p, t, params, tolerance, double, options))
    if found is None:
        return None
    return replace(found, program=published(found.program))


def bisect(
    p: program, t: Target | str, params: Params, tolerance: Tolerance | None = None, *,
    double: bool = False, **options: Unpack[CompileKeywords],
) -> Bisection:  # fmt: skip
    """The first pass or instruction that makes the difference."""
    return inspect.bisect(*_question(p, t, params, tolerance, double, options))


# ---- watching ----


def run_trace(
    p: program, params: Params, callback: Callable[[instruction_ref, argument | tuple[argument, ...]], None]
) -> list[argument]:
    """Run on `ref`; the callback sees every instruction of the main module with its value. Errors as of `run`."""

    def show(ins: Instruction, value: Value) -> None:
        shown = tuple(map(_argument, value)) if isinstance(value, tuple) else _argument(value)
        callback(instruction_ref(ins), shown)

    return [_argument(v) for v in inspect.run_trace(p.graph, _arrays(params), show)]


def performance_report(p: program, params: Params, runs: int = 50) -> Report:
    """Seconds, bytes, operations and share of the machine's peak for each step of a compiled program.

    RuntimeError where it is not compiled; errors as of `run`.
    """
    if not p.is_compiled():
        raise RuntimeError("compile the program before measuring it: program.compile(migraphx.get_target('cpu'))")
    return inspect.performance_report(p.executable, _arrays(params), runs)


def explain(
    p: program,
    t: Target | str,
    params: Params | None = None,
    *,
    why: bool = False,
    **options: Unpack[CompileKeywords],
) -> Explanation:
    """What the target fuses into what, and from which ONNX node or Python line; with dynamic shapes, for `params`.

    `why`: and what it does not fuse or take, with the reasons. The options and errors are compile's.
    """
    given = None if params is None else _arrays(params)
    return inspect.explain(p.graph, _name(t), given, why, CompileOptions.of(**options))


def _question(
    p: program, t: Target | str, params: Params, tolerance: Tolerance | None, double: bool, options: CompileKeywords
) -> tuple[Program, str, dict[str, np.ndarray], inspect.Settings]:
    allowed = tolerance or inspect.tolerance_of(p.graph)
    return p.graph, _name(t), _arrays(params), inspect.Settings(allowed, double, CompileOptions.of(**options))


def _name(t: Target | str) -> str:
    return t if isinstance(t, str) else t.name


def _arrays(params: Params) -> dict[str, np.ndarray]:
    return {name: as_array(value) for name, value in params.items()}


def _argument(value: np.ndarray) -> argument:
    return argument(np.ascontiguousarray(value))
