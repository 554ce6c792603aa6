"""Compile random programs and compare with NumPy: `python -m tools.fuzz_graphs --seconds 600`.

A program holds `--graphs` graphs. Of one that fails (a wrong answer, any exception, a crash) each graph is tried alone
with fewer and fewer steps; the shortest that fails is written to `--out` as text, with the command that makes it again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import migraphx
from migraphx.ir.text import program_text
from tests.tolerances import assert_close
from tools.graph_steps import random_graph
from tools.graphs import Graph

COUNT = 25
SCALE = 50.0  # of the table's tolerances: noise that adds up over COUNT steps


def made(seeds: Sequence[Sequence[int]], count: int = COUNT) -> tuple[Any, list[Graph]]:
    """A program of one graph a seed."""
    program = migraphx.program()
    graphs = [random_graph(program.graph.main, f"g{n}", seed, count) for n, seed in enumerate(seeds)]
    program.graph.modules |= {m.name: m for g in graphs for m in g.branches}
    program.graph.drop_unused_modules()
    program.graph.main.add_return([o for g in graphs for o in g.outputs])
    return program, graphs


def faults(program: Any, graphs: Sequence[Graph]) -> list[str]:
    """Compile and run; every output that is not what NumPy computed."""
    program.compile(migraphx.get_target("cpu"))
    got = program.run({name: array for g in graphs for name, array in g.arguments.items()})
    return differences(graphs, [np.array(g) for g in got])


def differences(graphs: Sequence[Graph], got: Sequence[np.ndarray]) -> list[str]:
    """Every output that is not what NumPy computed."""
    found = []
    for (graph, ins), value in zip([(g, o) for g in graphs for o in g.outputs], got, strict=True):
        try:
            assert_close(value, graph.values[ins], scale=SCALE)
        except AssertionError as error:
            found.append(f"{graph.name}: {ins.name} -> {ins.shape}\n{error}")
    return found


def fault(seed: Sequence[int], count: int) -> str:
    """What is wrong with one graph; empty if nothing is."""
    try:
        return "\n".join(faults(*made([seed], count)))
    except Exception:
        return traceback.format_exc()


def shortest(seed: Sequence[int]) -> tuple[int, str]:
    """The least number of steps with a fault, and the fault."""
    counts = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, COUNT)
    return next(((c, why) for c in counts if (why := fault(seed, c))), (0, ""))


def work(seed: int, first: int, graphs: int, until: float, out: Path, done: Any) -> None:
    number = first
    while time.monotonic() < until:
        done.value = number
        seeds = [(seed, number, k) for k in range(graphs)]
        try:
            wrong = faults(*made(seeds))
        except Exception:
            wrong = [traceback.format_exc()]
        if wrong:
            keep(seeds, wrong, out)
        number += 1


def keep(seeds: Sequence[Sequence[int]], wrong: Sequence[str], out: Path) -> None:
    """Write the shortest graph of each seed that fails alone; the whole finding where none does."""
    alone = 0
    for seed in seeds:
        count, why = shortest(seed)
        if count:
            alone += 1
            program, _ = made([seed], count)
            text = f"made([{seed}], {count})\n{why}\n{program_text(program.graph)}"
            (out / f"{'-'.join(map(str, seed))}.txt").write_text(text)
            print(seed, count, why.strip().splitlines()[-1][:150], flush=True)
    if not alone:
        (out / f"{'-'.join(map(str, seeds[0]))}-all.txt").write_text("\n".join([str(seeds), *wrong]))
        print(seeds, "only together", wrong[0].strip().splitlines()[-1][:150], flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_graphs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--graphs", type=int, default=4, help="graphs a program")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", args.first)
    until, number = time.monotonic() + args.seconds, args.first
    while time.monotonic() < until:
        child = context.Process(target=work, args=(args.seed, number, args.graphs, until, args.out, done))
        child.start()
        child.join()
        if child.exitcode != 0:
            (args.out / f"{args.seed}-{done.value}-crash.txt").write_text(f"the process ended with {child.exitcode}")
            print(f"program {done.value}: the process ended with {child.exitcode}", flush=True)
        number = done.value + 1
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = len(list(args.out.glob(f"{args.seed}-*.txt")))
    print(f"{number - args.first} programs, {cpu.ru_utime + cpu.ru_stime:.0f} s of CPU, {found} findings")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
