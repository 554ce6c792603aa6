"""Compare two reports of `perf --json`: says which is faster, and whether that is more than noise."""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from migraphx.driver.options import from_zero
from migraphx.driver.result import Exit, Result
from migraphx.driver.statistics import ALPHA, TEST, THRESHOLD, Comparison, compare
from migraphx.driver.terminal import coloured, milliseconds, table
from migraphx.inspect import Report

SHOWN = 20  # instructions


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("before", metavar="A.json", help="the report to compare with")
    parser.add_argument("after", metavar="B.json", help="the report to judge")
    parser.add_argument("--alpha", type=from_zero, default=ALPHA, help=f"level of significance (default: {ALPHA:g})")
    least = f"least change of the median that counts (default: {THRESHOLD})"
    parser.add_argument("--threshold", type=from_zero, default=THRESHOLD, help=least)
    parser.epilog = "Test: " + TEST.format(alpha=ALPHA, threshold=THRESHOLD)


def run(args: Namespace) -> Result:
    before, after = _report(Path(args.before)), _report(Path(args.after))
    found = compare(before.medians, after.medians, args.alpha, args.threshold)
    steps = _steps(before, after)
    test = TEST.format(alpha=args.alpha, threshold=args.threshold)
    data = {
        "before": before.seconds,
        "after": after.seconds,
        "change": found.change,
        "p": found.p,
        "significant": found.significant,
        "verdict": found.verdict,
        "test": test,
        "warnings": _differences(before, after),
        "instructions": [{"text": t, "before": a, "after": b} for t, a, b in steps],
    }
    slower = found.significant and found.change > 0
    return Result("\n".join(_lines(before, after, found, steps, test)), data, Exit.NO if slower else Exit.DONE)


def _report(path: Path) -> Report:
    """A report; ValueError names the file that is none."""
    try:
        data = json.loads(path.read_text())
        return Report.from_dict(data if isinstance(data, dict) else {})
    except ValueError as error:
        raise ValueError(f"{path}: {error}; reports are written by `perf --json --output FILE`") from None


def _differences(before: Report, after: Report) -> list[str]:
    """Why two reports may not be comparable."""
    pairs = [(n, getattr(before, n), getattr(after, n)) for n in ("target", "threads", "machine")]
    return [f"{name} differs: {a} and {b}" for name, a, b in pairs if a != b]


def _steps(before: Report, after: Report) -> list[tuple[str, float, float]]:
    """(instruction, seconds before, seconds after), 0 where one has it not; the largest change first."""
    sums = []
    for report in (before, after):
        spent: Counter[str] = Counter()
        for s in report.steps:
            spent[s.text] += s.seconds  # type: ignore[assignment]
        sums.append(spent)
    a, b = sums
    rows = [(text, float(a[text]), float(b[text])) for text in dict.fromkeys((*a, *b))]
    return sorted(rows, key=lambda row: -abs(row[2] - row[1]))


def _lines(
    before: Report, after: Report, found: Comparison, steps: list[tuple[str, float, float]], test: str
) -> list[str]:
    colour = {"faster": "good", "slower": "bad"}.get(found.verdict, "strong")
    rows = [[milliseconds(a), milliseconds(b), f"{(b - a) * 1e3:+.6f}ms", text] for text, a, b in steps[:SHOWN]]
    medians = f"{milliseconds(before.seconds)} -> {milliseconds(after.seconds)}"
    return [
        *(f"warning: {w}" for w in _differences(before, after)),
        table(rows, ["before", "after", "change", "instruction"]),
        "",
        f"{medians} ({found.change:+.1%}, p = {found.p:.2g}): {coloured(found.verdict, colour)}",
        f"Test: {test}.",
    ]
