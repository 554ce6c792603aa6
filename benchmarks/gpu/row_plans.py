"""Every way to share out rows among programs, and elements among tiles, timed on target gpu.

`python -m benchmarks.gpu.row_plans [--only softmax]` prints one JSON object: for each case the microseconds of each
plan, best first. It says what `plan` of emit/plans.py and `tiles` of emit/tiles.py should choose.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.gpu.rows import CASES, Case, Measured
from migraphx.targets.gpu.device import current_device
from migraphx.targets.gpu.emit import plans, pointwise, tiles
from migraphx.targets.gpu.emit.tiles import power_of_two

ROWS = ("softmax 6144x768", "softmax 65536x1024", "softmax 16384x4096", "softmax 4096x16384", "softmax 16384x197",
        "layer norm 6144x768", "layer norm 65536x1024", "layer norm 16384x4096",
        "softmax 2048x", "layer norm 2048x")  # fmt: skip
FLAT = ("copy 18.9 MB half", "relu 6144x3072 half", "bias gelu 6144x3072 half", "tanh 6144x3072 float")
ROUNDS = 10
VECTOR = 7  # position among the arguments of `plan`


def row_plans(length: int, itemsize: int) -> Iterator[plans.Plan]:
    whole = power_of_two(length)
    for warps in (8, 16, 32) if length >= plans.REGISTERS else ():
        for ahead in (0, plans.PROGRAMS * 8 // warps):
            width = warps * 32 * (plans.VECTOR // itemsize)
            yield plans.Plan(1, width, warps, pieces=tiles.blocks(length, width), late=True, ahead=ahead)
    if whole > plans.REGISTERS:
        for width, warps in ((2048, 8), (4096, 8), (4096, 16), (8192, 16), (8192, 32), (16384, 32)):
            yield plans.Plan(1, width, warps, True)
        return
    for height in (1, 2, 4, 8):
        for warps in (1, 2, 4, 8, 16):
            if 256 <= height * whole // warps <= 2048 and (height == 1 or height * whole <= 8192):
                yield plans.Plan(height, whole, warps)


def timed(case: Case, device: Any) -> float:
    return statistics.median(Measured(case, device).seconds(ROUNDS)) * 1e6


def of_rows(case: Case, device: Any) -> dict[str, float]:
    chosen, found = plans.plan, {"chosen": timed(case, device)}
    for plan in row_plans(case.x.lens[-1], case.x.numpy_dtype.itemsize):
        plans.plan = lambda *given, plan=plan: replace(plan, vector=given[VECTOR] if plan.pieces > 1 else 0)
        name = f"height {plan.height} width {plan.width} warps {plan.warps}" + f" ahead {plan.ahead}" * bool(plan.ahead)
        try:
            found[name + " loop" * plan.loop] = timed(case, device)
        finally:
            plans.plan = chosen
    return found


def of_tiles(case: Case, device: Any) -> dict[str, float]:
    found = {"chosen": timed(case, device)}
    block, warps = tiles.MOST, pointwise.WARPS
    for most in (2048, 4096, 8192, 16384):
        for count in (4, 8):
            tiles.MOST, pointwise.WARPS = most, count
            found[f"bytes {most} warps {count}"] = timed(case, device)
    tiles.MOST, pointwise.WARPS = block, warps
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names this expression finds")
    options = parser.parse_args()
    device = current_device()
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        of = of_tiles if name in FLAT else of_rows if name.startswith(ROWS) else None
        if of is None or not re.search(options.only, name):
            continue
        try:
            found = of(case, device)
            results[name] = {k: round(v, 2) for k, v in sorted(found.items(), key=lambda pair: pair[1])}
        except Exception as error:  # the other cases are worth having
            results[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"device": device.model, "us": results}, indent=1))


if __name__ == "__main__":
    main()
