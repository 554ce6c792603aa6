"""The standard's own suite (onnx.backend.test) on our targets: `python -m tools.conformance [--write]`.

Every case runs through `migraphx.backend` and is judged by the suite's own comparison and tolerances. On cpu and gpu,
where each program is a compilation, the programs of many cases are compiled as one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.runner import Runner

import migraphx
from migraphx.api.onnx import published
from migraphx.api.program import program
from migraphx.backend import MIGraphXBackend, MIGraphXRep, RefBackend
from migraphx.ir.program import Program


class GpuBackend(MIGraphXBackend):
    """On target `gpu`; the suite's data lie in main memory."""

    target = "gpu"

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


BACKENDS = {"ref": RefBackend, "cpu": MIGraphXBackend, "gpu": GpuBackend}
USUAL = ("ref", "cpu")  # the others are asked for by name
REPORT = Path(__file__).parents[1] / "CONFORMANCE.md"
TOGETHER = 40  # cases in one compilation
ALONE = ("Real",)  # groups whose models are compiled by themselves


@dataclass(frozen=True)
class Outcome:
    """What became of one case; `why` is empty where it passed."""

    group: str
    name: str
    target: str
    why: str


# ---- the suite ----


@cache
def suite() -> tuple[Runner, dict[tuple[str, str], unittest.TestCase]]:
    """The suite's runner, and its cases by (group, name). Takes seconds: their data is made anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(RefBackend)
        found = runner.test_cases
    return runner, {
        (group.removeprefix("OnnxBackend").removesuffix("ModelTest"), name.removesuffix("_cpu")): kind(name)
        for group, kind in found.items()
        for name in dir(kind)
        if name.startswith("test_") and name.endswith("_cpu")
    }


def cases(pattern: str = "") -> list[tuple[str, str]]:
    """The (group, name) of the cases whose `group/name` the pattern finds."""
    return [key for key in suite()[1] if re.search(pattern, "/".join(key))]


def reason(backend: type[MIGraphXBackend], group: str, name: str) -> str:
    """Why a case fails on a backend; empty where it passes."""
    runner, found = suite()
    runner.backend = backend
    try:
        getattr(found[group, name], f"{name}_cpu")()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def run(target: str, chosen: Sequence[tuple[str, str]]) -> Iterator[Outcome]:
    """Run the chosen cases."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["ONNX_MODELS"] = folder  # where the suite puts the inputs that it makes for whole models
        if target == "ref":
            yield from (Outcome(*key, target, reason(RefBackend, *key)) for key in chosen)
            return
        alone = [key for key in chosen if key[0] in ALONE]
        rest = [key for key in chosen if key[0] not in ALONE]
        for start in range(0, len(rest), TOGETHER):
            yield from together(target, rest[start : start + TOGETHER])
        yield from (Outcome(*key, target, reason(BACKENDS[target], *key)) for key in alone)


# ---- many cases, one compilation ----

Arrays = Mapping[str, np.ndarray]
JOBS: list[tuple[Program, Arrays]] = []  # what Noting ran
ANSWERS: list[list[np.ndarray]] = []  # what Playing gives


class NotingRep(MIGraphXRep):
    def execute(self, compiled: program, arrays: Arrays) -> Sequence[np.ndarray]:
        JOBS.append((compiled.graph, arrays))
        return super().execute(compiled, arrays)


class Noting(RefBackend):
    """Runs on ref, and notes each program with its inputs."""

    rep = NotingRep


class PlayingRep(MIGraphXRep):
    def execute(self, compiled: program, arrays: Arrays) -> Sequence[np.ndarray]:
        return ANSWERS.pop(0)


class Playing(RefBackend):
    """Gives the answers found elsewhere, in order."""

    rep = PlayingRep


def together(target: str, chosen: Sequence[tuple[str, str]]) -> Iterator[Outcome]:
    """Cases that pass on ref and hold no inner modules, in one program; the others one by one."""
    joined: list[tuple[tuple[str, str], int]] = []
    jobs: list[tuple[Program, Arrays]] = []
    for key in chosen:
        JOBS.clear()
        if not reason(Noting, *key) and all(len(p.modules) == 1 for p, _ in JOBS):
            joined.append((key, len(JOBS)))
            jobs += JOBS
    try:
        answers = answers_of(target, jobs)
    except Exception as error:  # the cases one by one say which it is
        print(f"not together: {type(error).__name__}: {error}"[:200], file=sys.stderr)
        joined, answers = [], []
    for key, count in joined:
        ANSWERS[:] = [answers.pop(0) for _ in range(count)]
        yield Outcome(*key, target, reason(Playing, *key))
    done = {key for key, _ in joined}
    yield from (Outcome(*key, target, reason(BACKENDS[target], *key)) for key in chosen if key not in done)


def answers_of(target: str, jobs: Sequence[tuple[Program, Arrays]]) -> list[list[np.ndarray]]:
    """The outputs of every job, from one program that holds them all."""
    whole, arrays, counts, outputs = Program(), {}, [], []
    for k, (part, given) in enumerate(jobs):
        parameters = part.main.parameters
        taken = {n: whole.main.add_parameter(f"{k}.{n}", i.shape) for n, i in parameters.items()}
        made = whole.main.inline(part.main, taken)
        arrays |= {f"{k}.{n}": a for n, a in given.items()}
        counts.append(len(made))
        outputs += made
    whole.main.add_return(outputs)
    compiled = published(whole)
    compiled.compile(migraphx.get_target(target))
    flat = [r.array for r in compiled.run(arrays)]
    return [[flat.pop(0) for _ in range(count)] for count in counts]


# ---- the report ----


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by group and target, then what failed and why."""
    targets = list(dict.fromkeys(o.target for o in outcomes))
    total = Counter((o.group, o.target) for o in outcomes)
    passed = Counter((o.group, o.target) for o in outcomes if not o.why)
    lines = [f"| group | cases | {' | '.join(targets)} |", f"|---|---|{'---|' * len(targets)}"]
    for group in dict.fromkeys(o.group for o in outcomes):
        row = [str(passed[group, t]) for t in targets]
        lines.append(f"| {group} | {total[group, targets[0]]} | {' | '.join(row)} |")
    failed = [o for o in outcomes if o.why]
    if failed:
        lines += ["", "| case | target | why it fails |", "|---|---|---|"]
    for o in failed:
        why = " ".join(o.why.split())[:200].replace("|", "\\|")
        lines.append(f"| {o.name} | {o.target} | {why} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=BACKENDS, action="append", help=f"default: {' and '.join(USUAL)}")
    parser.add_argument("--match", default="", help="regular expression on group/name")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    for target in given.target or USUAL:
        for outcome in run(target, cases(given.match)):
            outcomes.append(outcome)
            if len(outcomes) % 100 == 0:
                print(f"{target}: {len(outcomes)} cases", file=sys.stderr)
    if given.json:
        given.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    text = table(outcomes)
    print(text)
    if given.write:
        head = f"# Conformance\n\nThe backend test suite of package onnx {onnx.__version__}, with its own tolerances"
        REPORT.write_text(f"{head}: `make conformance`.\n\n{text}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
