"""Compare a target with ref: whole, each instruction, the smallest part or the pass that differs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import migraphx
from migraphx.driver.data import generate
from migraphx.driver.model import quantized, read_model, target_of
from migraphx.driver.options import add_model, compile_options, from_zero
from migraphx.driver.result import Exit, Result
from migraphx.driver.running import data_at_fault
from migraphx.driver.terminal import coloured, note, spinner
from migraphx.inspect import Check, tolerance_of


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    group = parser.add_argument_group("comparison (with --fp16 ..., both run the program in that precision)")
    group.add_argument("--rms-tol", type=from_zero, help="root mean square (default: 0.001; 0.08 of narrow floats)")
    group.add_argument("--atol", type=from_zero, help="absolute difference (default: 0.001; 0.04 of narrow floats)")
    group.add_argument("--rtol", type=from_zero, help="relative difference (default: 0.001; 0.04 of narrow floats)")
    group.add_argument("--ref-use-double", action="store_true", help="ref computes floats in double precision")
    how = group.add_mutually_exclusive_group()
    how.add_argument("--per-instruction", "-i", action="store_true", help="each instruction on its own")
    how.add_argument("--reduce", "-r", action="store_true", help="the smallest part that still differs")
    how.add_argument("--bisect", "-b", action="store_true", help="the pass or instruction that makes the difference")


Answer = tuple[bool, list[str], dict[str, Any]]
"""Whether it passed, the lines to print, the same as data."""


def run(args: Namespace) -> Result:
    target = target_of(args)
    made = quantized(read_model(args), args, partial(generate, args=args))
    inputs = generate(made, args)
    note(f"Verifying {target.name} against ref ...")
    given = {"rms": args.rms_tol, "atol": args.atol, "rtol": args.rtol}
    allowed = replace(tolerance_of(made.graph), **{k: v for k, v in given.items() if v is not None})
    mode = next((how for name, how in MODES.items() if getattr(args, name)), _whole)
    options = {"double": args.ref_use_double, **vars(compile_options(args))}
    with data_at_fault(args, inputs), spinner("verifying"):
        passed, lines, data = mode(made, target, inputs, allowed, **options)
    verdict = coloured("agrees with ref", "good") if passed else coloured("DIFFERS from ref", "bad")
    within = f"rms {allowed.rms:g}, absolute {allowed.atol:g}, relative {allowed.rtol:g}"
    lines = [*lines, "", f"{target.name} {verdict} (tolerance: {within})"]
    return Result("\n".join(lines), {"target": target.name, "passed": passed, **data}, Exit.DONE if passed else Exit.NO)


def _whole(*question: Any, **given: Any) -> Answer:
    report = migraphx.verify_program(*question, **given)
    return report.passed, [_line(c) for c in report.outputs], {"outputs": _data(report.outputs)}


def _instructions(*question: Any, **given: Any) -> Answer:
    found = migraphx.verify_instructions(*question, **given)
    lines = []
    for check in found:
        lines.append(check.text + (f"  <- {check.origin}" if check.origin else ""))
        lines += [f"    {_line(c)}" for c in check.outputs]
    wrong = sum(not check.passed for check in found)
    lines.append(f"{wrong} of {len(found)} instructions differ")
    data = [{"text": c.text, "origin": c.origin, "passed": c.passed, "outputs": _data(c.outputs)} for c in found]
    return not wrong, lines, {"instructions": data}


def _reduced(*question: Any, **given: Any) -> Answer:
    found = migraphx.reduce_program(*question, **given)
    if found is None:
        return True, ["nothing to reduce"], {"reduced": None}
    text = repr(found.program)
    lines = [text.rstrip(), "", f"differs at {found.instruction}" + (f", from {found.origin}" if found.origin else "")]
    data = {"instruction": found.instruction, "origin": found.origin, "program": text}
    checks = found.report.outputs
    return False, [*lines, *map(_line, checks)], {"reduced": {**data, "outputs": _data(checks)}}


def _bisected(*question: Any, **given: Any) -> Answer:
    found = migraphx.bisect(*question, **given)
    data = {"kind": found.kind, "name": found.name, "index": found.index, "origin": found.origin}
    checks = found.report.outputs
    return found.kind == "none", str(found).splitlines(), {"bisection": {**data, "outputs": _data(checks)}}


MODES: dict[str, Callable[..., Answer]] = {"per_instruction": _instructions, "reduce": _reduced, "bisect": _bisected}


def _line(check: Check) -> str:
    return coloured(str(check), "dim" if check.passed else "bad")


def _data(checks: Sequence[Check]) -> list[dict[str, Any]]:
    return [asdict(c) for c in checks]
