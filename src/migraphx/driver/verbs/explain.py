"""Say what was fused into what, what not, from which ONNX node or Python line, and what it costs at least."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from functools import partial
from typing import Any

import migraphx
from migraphx.driver.data import generate
from migraphx.driver.model import at_lengths, compiled, read_model
from migraphx.driver.options import add_model, compile_options
from migraphx.driver.result import Result
from migraphx.driver.terminal import coloured, milliseconds, note, quantity


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--why", action="store_true", help="say what was not fused or not taken, and the reasons")


def run(args: Namespace) -> Result:
    made = read_model(args)
    inputs = generate(made, args)
    made = compiled(at_lengths(made, inputs), args, partial(generate, args=args))
    executable = made.executable
    note("Measuring what this machine can do ...")
    peaks = migraphx.get_target(executable.target).peaks(executable.threads)
    options = compile_options(args).compile_keywords()
    found = migraphx.explain(made, executable.target, inputs, why=args.why, **options)
    described: list[dict[str, Any]] = []
    free = []
    for kernel in found.kernels:
        steps = [s for s in executable.steps if s.text == kernel.text]
        if not steps or kernel.view:
            free.append(kernel.text)
            continue
        floor = sum(max(s.flops / peaks.flops, s.bytes / peaks.bandwidth) for s in steps)
        cost = {"flops": sum(s.flops for s in steps), "bytes": sum(s.bytes for s in steps), "floor_seconds": floor}
        parts = [asdict(p) for p in kernel.parts]
        described.append({"text": kernel.text, "parts": parts, "calls": len(steps), **cost})
    data = {
        "target": found.target,
        "instructions": found.before,
        "peaks": asdict(peaks),
        "kernels": described,
        "free": free,
    }
    if args.why:
        data["refused"] = [asdict(r) for r in found.refused]
    became = f"{len(described)} that run and {len(free)} that are only other strides"
    head = f"Target {found.target}: {found.before} instructions became {became}"
    lines = [head, *(line for k in described for line in _lines(k))]
    if args.why:
        lines += ["", "Not taken, or not fused:", *(f"  {line}" for r in found.refused for line in r.lines())]
    return Result("\n".join(lines), data)


def _lines(kernel: dict[str, Any]) -> list[str]:
    calls = "1 call" if kernel["calls"] == 1 else f"{kernel['calls']} calls"
    work = f"{quantity(kernel['flops'], 'FLOP')}, {quantity(kernel['bytes'], 'B')}"
    cost = f"{work}, at least {milliseconds(kernel['floor_seconds'])} at this machine's peaks, {calls}"
    parts = [f"    {p['text']}" + (f"  <- {p['origin']}" if p["origin"] else "") for p in kernel["parts"]]
    return ["", coloured(kernel["text"], "strong"), *parts, f"    cost: {cost}"]
