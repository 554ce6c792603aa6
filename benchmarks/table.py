"""Results JSON -> Markdown: python -m benchmarks.table RESULT.json [--readme README.md]

With --readme the table replaces what stands between the two marks in that file.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from benchmarks.engines import IMAGES_ALSO

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
RIVALS = ("inductor", "inductor_freezing", "onnxruntime", "openvino")
OURS = ("openmgx", "openmgx_fx", "openmgx_onnx")


def best_form(engines: dict[str, dict[str, Any]], engine: str) -> dict[str, Any] | None:
    """An engine's report; where it ran in two layouts, the faster one's. None when it has no latency."""
    forms = [engines[name] for name in (engine, IMAGES_ALSO.get(engine, "")) if name in engines]
    forms = [form for form in forms if "latency_s" in form]
    return min(forms, key=lambda form: form["latency_s"], default=None)


def ratio(engines: dict[str, dict[str, Any]]) -> float | None:
    """Fastest rival's latency over ours; above 1 we are faster."""
    rivals = [r["latency_s"] for name in RIVALS if (r := best_form(engines, name))]
    ours = best_form(engines, "openmgx")
    return min(rivals) / ours["latency_s"] if rivals and ours else None


def geometric_mean(values: list[float]) -> float:
    """The mean that ratios have."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def latencies(result: dict[str, Any], names: list[str]) -> list[str]:
    """Milliseconds by model and engine, the ratio, and the share of the machine's floor that ours reaches."""
    head = ["model", *names, "best peer / ours", "floor / ours"]
    lines = [_row(head), _row(["---", *["---:"] * (len(head) - 1)])]
    ratios = []
    for model, case in result["models"].items():
        engines = case["engines"]
        found = [best_form(engines, name) for name in names]
        ours, gain = best_form(engines, "openmgx"), ratio(engines)
        floors = result["floors"]
        floor = max(case["flops"] / floors["flops"], case["bytes"] / floors["bandwidth"])
        share = floor / ours["latency_s"] if ours else None
        cells = [_cell(f["latency_s"] * 1e3 if f else None, ".2f") for f in found]
        lines.append(_row([model, *cells, _cell(gain, ".2f"), _cell(share, ".0%")]))
        ratios += [gain] if gain else []
    if ratios:
        lines.append(_row(["geometric mean", *[""] * len(names), f"{geometric_mean(ratios):.2f}", ""]))
    return lines


def details(result: dict[str, Any], names: list[str], key: str, scale: float, form: str) -> list[str]:
    """One more figure of each engine by model."""
    lines = [_row(["model", *names]), _row(["---", *["---:"] * len(names)])]
    for model, case in result["models"].items():
        found = [best_form(case["engines"], name) for name in names]
        lines.append(_row([model, *(_cell(f[key] * scale if f else None, form) for f in found)]))
    return lines


def _beside(result: dict[str, Any]) -> str:
    busy = result.get("busy", 0)
    return f", beside {busy} busy processes" if busy else ""


def _held(result: dict[str, Any]) -> str:
    """Which instruction set engines were held to; older results have none."""
    isa, free = result.get("isa", "native"), result.get("not_held", [])
    outside = f" ({', '.join(free)} is not)" if free else ""
    return "" if isa == "native" else f", held to {isa}{outside}"


def _percentiles(result: dict[str, Any], names: list[str]) -> list[list[str]]:
    """Older results have none."""
    engines = [e for case in result["models"].values() for e in case["engines"].values() if "latency_s" in e]
    if not all("p90_s" in e for e in engines):
        return []
    parts = ("p90_s", "90th percentiles"), ("p99_s", "99th percentiles"), ("least_s", "least")
    shown = [part for key, what in parts for part in ([f"In ms, {what}:"], details(result, names, key, 1e3, ".2f"))]
    if all("spread" in e for e in engines):
        shown += [["90th percentile of a turn / its least:"], details(result, names, "spread", 1, ".2f")]
    return shown


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(result: dict[str, Any]) -> str:
    """The whole report."""
    present = {name for case in result["models"].values() for name in case["engines"]}
    names = [name for name in ("eager", *RIVALS, *OURS) if name in present]
    torch_compile = [name for name in ("dynamo", *names) if name in present]
    machine, floors = result["machine"], result["floors"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items() if v)
    parts = [
        [
            f"{machine['processor']}, {result['threads']} threads, {result['date']}: multiply-add peak "
            f"{floors['flops'] / 1e9:.0f} GFLOP/s, copy {floors['bandwidth'] / 1e9:.0f} GB/s.",
            f"{versions}; commit {machine['commit']}.",
            f"Command: `{result['command']}`",
        ],
        [f"Latency in ms (batch {result.get('batch', 1)}, fp32{_beside(result)}{_held(result)}), medians:"],
        latencies(result, names),
        *_percentiles(result, names),
        ["Cold compile to the first answer, empty caches, in s:"],
        details(result, names, "cold_first_answer_s", 1, ".2f"),
        ["First answer of a second process, in s (dynamo: torch.compile with a backend that does nothing):"],
        details(result, torch_compile, "warm_first_answer_s", 1, ".2f"),
        ["Peak memory in MB:"],
        details(result, names, "peak_rss", 1e-6, ".0f"),
        ["Largest error against eager, of the largest output:"],
        details(result, names, "error", 1, ".1e"),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table")
    parser.add_argument("result", type=Path)
    parser.add_argument("--readme", type=Path, help="file whose marked part to replace")
    arguments = parser.parse_args()
    text = markdown(json.loads(arguments.result.read_text()))
    if arguments.readme is None:
        print(text)
        return
    old = arguments.readme.read_text()
    before, rest = old.split(BEGIN)
    after = rest.split(END)[1]
    arguments.readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
