"""The standard's own suite (onnx.backend.test) on our targets: `python -m tools.conformance [--write]`.

Every case runs through `migraphx.backend` and is judged by the suite's own comparison and tolerances.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import onnx
from onnx.backend.test.runner import Runner

from migraphx.backend import MIGraphXBackend, RefBackend

BACKENDS = {"ref": RefBackend, "cpu": MIGraphXBackend}
REPORT = Path(__file__).parents[1] / "CONFORMANCE.md"


@dataclass(frozen=True)
class Outcome:
    """What became of one case; `why` is empty where it passed."""

    group: str
    name: str
    target: str
    why: str
    seconds: float


@cache
def cases(target: str) -> dict[tuple[str, str], unittest.TestCase]:
    """(group, name) -> the suite's case, for a target. Takes seconds: their data is made anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Runner(BACKENDS[target]).test_cases
    return {
        (group.removeprefix("OnnxBackend").removesuffix("ModelTest"), name.removesuffix("_cpu")): kind(name)
        for group, kind in found.items()
        for name in dir(kind)
        if name.startswith("test_") and name.endswith("_cpu")
    }


def run(target: str, pattern: str = "") -> Iterator[Outcome]:
    """Run the cases whose `group/name` the pattern finds."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["ONNX_MODELS"] = folder  # where the suite puts the inputs that it makes for whole models
        for (group, name), case in cases(target).items():
            if re.search(pattern, f"{group}/{name}"):
                start, why = time.perf_counter(), ""
                try:
                    getattr(case, f"{name}_cpu")()
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"
                yield Outcome(group, name, target, why, time.perf_counter() - start)


def table(outcomes: list[Outcome]) -> str:
    """Counts by group and target, then what failed and why."""
    targets = list(dict.fromkeys(o.target for o in outcomes))
    total, passed = (
        Counter((o.group, o.target) for o in some) for some in (outcomes, [o for o in outcomes if not o.why])
    )
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
    parser.add_argument("--target", choices=BACKENDS, action="append", help="default: all of them")
    parser.add_argument("--match", default="", help="regular expression on group/name")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    for target in given.target or BACKENDS:
        for outcome in run(target, given.match):
            outcomes.append(outcome)
            if given.json:
                given.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
            if len(outcomes) % 100 == 0:
                print(f"{target}: {len(outcomes)} cases", file=sys.stderr)
    text = table(outcomes)
    print(text)
    if given.write:
        head = f"# Conformance\n\nThe backend test suite of package onnx {onnx.__version__}, with its own tolerances"
        REPORT.write_text(f"{head}: `make conformance`.\n\n{text}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
