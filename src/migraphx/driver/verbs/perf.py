"""Compile a model, measure its runs and every instruction: time, bytes, FLOPs, share of what this machine can do."""

import json
import os
import subprocess
import sys
import tempfile
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import migraphx
from migraphx.driver.data import generate
from migraphx.driver.model import compiled, read_model
from migraphx.driver.options import add_iterations, add_model, positive
from migraphx.driver.result import Result
from migraphx.driver.running import data_at_fault
from migraphx.driver.statistics import described, summary_lines
from migraphx.driver.terminal import milliseconds, note, quantity, spinner
from migraphx.inspect import Report, chrome_trace, measure_runs
from migraphx.mxr.container import replace_file
from migraphx.targets.common.scratch import scratch

PROCESSES = 5


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_iterations(parser)
    parser.add_argument("--detailed", "-d", action="store_true", help="show where each instruction came from")
    parser.add_argument("--trace", metavar="FILE", help="write one run as a chrome trace")
    processes = f"divide the runs among N processes, as `perf diff` needs them (default: {PROCESSES})"
    parser.add_argument("--processes", type=positive, default=PROCESSES, metavar="N", help=processes)
    parser.add_argument("--runs-only", action="store_true", help=SUPPRESS)  # what the other processes are asked for


def run(args: Namespace) -> Result:
    made = compiled(read_model(args), args, partial(generate, args=args))
    note("Allocating params ...")
    inputs = generate(made, args)
    if args.runs_only:
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        return Result("", {"runs": measure_runs(made.executable, arrays, args.iterations)})
    own, *others = shares(args.iterations, args.processes)
    note("Running performance report ...")
    with data_at_fault(args, inputs), spinner("measuring"):
        report = migraphx.performance_report(made, inputs, own)
        runs = [seconds for share in others for seconds in another_process(args, share)]
    report = replace(report, runs=(*report.runs, *runs), processes=(own, *others))
    if args.trace:
        replace_file(args.trace, [json.dumps(chrome_trace(report)).encode()])
    found = described(report.runs)
    lines = [*_instructions(report, args.detailed), "", "Summary:", *_kernels(report), "", *_machine(report), ""]
    data = {"verb": "perf", "file": args.file or "--test", "batch": args.batch, "statistics": found, **report.to_dict()}
    return Result("\n".join([*lines, *summary_lines(found, args.batch), *_overhead(report)]), data)


def shares(runs: int, processes: int) -> list[int]:
    """The runs of each process, none without a run."""
    processes = min(runs, processes)
    return [runs // processes + (k < runs % processes) for k in range(processes)]


def another_process(args: Namespace, runs: int) -> list[float]:
    """Seconds of each run of the same command in a process of its own; RuntimeError with what it said if it fails."""
    command = [sys.executable, "-m", "migraphx.driver", *args.words, "--json", "--runs-only", "--iterations", str(runs)]
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        answer = Path(folder) / "runs.json"
        command += ["--output", str(answer), "--trace", os.devnull]  # of an option that is there twice, the last counts
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a process that measures ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(answer.read_text())["runs"]


def _instructions(report: Report, detailed: bool) -> list[str]:
    total = sum(s.seconds for s in report.steps)
    lines = []
    for s in report.steps:
        work = f"{quantity(s.bytes, 'B')}, {quantity(s.flops, 'FLOP')}, {s.share:.0%} of peak"
        lines.append(f"{s.text}: {milliseconds(s.seconds)}, {_share(s.seconds, total)}, {work}")
        if detailed and s.origin:
            lines.append(f"    from {s.origin}")
    return lines


def _kernels(report: Report) -> list[str]:
    """Time by kernel: in all, how often, each, share; the largest first."""
    spent: dict[str, list[float]] = defaultdict(list)
    for s in report.steps:
        spent[s.kernel].append(s.seconds)
    total = sum(s.seconds for s in report.steps)
    lines = []
    for kernel, each in sorted(spent.items(), key=lambda item: -sum(item[1])):
        mean = milliseconds(sum(each) / len(each))
        lines.append(f"{kernel}: {milliseconds(sum(each))} / {len(each)} = {mean}, {_share(sum(each), total)}")
    return lines


def _machine(report: Report) -> list[str]:
    peaks = f"{quantity(report.peaks.flops, 'FLOP/s')} multiply-add, {quantity(report.peaks.bandwidth, 'B/s')} copy"
    reached = f"{quantity(report.flops / report.seconds, 'FLOP/s')}, {quantity(report.bytes / report.seconds, 'B/s')}"
    return [
        f"Machine: {report.machine}, {report.threads} threads, measured peaks: {peaks}",
        f"Work: {quantity(report.flops, 'FLOP')}, {quantity(report.bytes, 'B')} a run; reached: {reached}",
    ]


def _overhead(report: Report) -> list[str]:
    """What a run takes beyond its instructions; negative where timing each of them cost more."""
    inside = sum(s.seconds for s in report.steps)
    outside = report.seconds - inside
    return [
        f"Total instructions time: {milliseconds(inside)}",
        f"Overhead time: {milliseconds(outside)}",
        f"Overhead: {outside / report.seconds:.0%}",
    ]


def _share(part: float, total: float) -> str:
    return f"{part / total:.0%}" if total else "0%"
