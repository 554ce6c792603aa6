"""The generated sources and tables of small programs, word for word.

`PYTHONPATH=src:. python -m tests.targets.cpu.test_golden` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.targets.common.lowering import lower
from migraphx.targets.cpu.codegen import HEAD, PLACE, STEP, Layout, generate, numbered, table_of
from migraphx.targets.cpu.emit.emitter import CppEmitter
from migraphx.targets.cpu.lower import CPU
from migraphx.targets.cpu.target import PASSES

FOLDER = Path(__file__).parent / "golden"


def pointwise(b: Builder, x: Instruction) -> Instruction:
    return b.gelu(b.add(*b.common(x, b.literal(np.arange(40, dtype=np.float32)))))


def rows(b: Builder, x: Instruction) -> Instruction:
    return b.softmax(x, axis=1)


def columns(b: Builder, x: Instruction) -> Instruction:
    return b.reduce_mean(b.relu(x), axes=(0,))


def epilogue(b: Builder, x: Instruction) -> Instruction:
    w = np.ones((24, 40), np.float32)
    return b.relu(b.linear(x, b.literal(w), b.literal(np.arange(24, dtype=np.float32))))


PROGRAMS: dict[str, Callable[[Builder, Instruction], Instruction]] = {
    "pointwise": pointwise,
    "reduce_rows": rows,
    "reduce_columns": columns,
    "dot_epilogue": epilogue,
}


def compiled(build: Callable[[Builder, Instruction], Instruction]) -> tuple[list[str], np.ndarray]:
    """The sources and the table of the program on an input {7, 40}; without the machine's sizes of buffers."""
    program = Program()
    x = program.main.add_parameter("x", Shape("float", (7, 40)))
    program.main.add_return([build(Builder(program.main), x)])
    run_passes(program, PASSES)
    lowered = lower(program.main, CPU, CppEmitter())
    layout = Layout(len(lowered.inputs), len(lowered.outputs), len(lowered.weights))
    kernels = numbered(lowered.calls)
    return generate(kernels), table_of(lowered.calls, kernels, layout, [])


def source(build: Callable[[Builder, Instruction], Instruction]) -> str:
    parts, table = compiled(build)
    return "\n".join([*parts, *(f"// {line}" for line in steps(table))]) + "\n"


def steps(table: np.ndarray) -> Iterator[str]:
    """Each step of a table without moves: its kernel's number, its numbers, entry and offset of its places."""
    count, entries = table[:HEAD].tolist()
    first = HEAD + entries
    for kernel, numbers, places, views in table[first : first + STEP * count].reshape(-1, STEP).tolist():
        at = table[places : places + PLACE * views].reshape(-1, PLACE)[:, :2].tolist()
        yield f"k{kernel} {table[numbers:places].tolist()} at {at}"


def test_many_kernels_are_several_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(b: Builder, x: Instruction) -> Instruction:
        for k, word in enumerate((b.tanh, b.relu, b.exp, b.neg, b.abs)):
            x = b.softmax(word(x), axis=k % 2)
        return x

    def kernels(parts: list[str]) -> list[list[str]]:
        return [[line for line in part.splitlines() if line.startswith("void k")] for part in parts]

    (main, *few), _ = compiled(many)
    monkeypatch.setattr("migraphx.targets.cpu.codegen.MOST_KERNELS", 2)
    (same, *parts), _ = compiled(many)
    assert same == main and len(parts) > len(few) and max(map(len, kernels(parts))) == 2
    assert sorted(chain(*kernels(parts))) == sorted(chain(*kernels(few)))


def test_programs_share_the_engine() -> None:
    def other(b: Builder, x: Instruction) -> Instruction:
        return b.tanh(b.dot(x, b.literal(np.ones((40, 9), np.float32))))

    (*_, one), _ = compiled(epilogue)
    (*_, two), _ = compiled(other)
    engine = "\ntemplate void run_grid<float, float, float>"
    first, second = ([text for text in compiled(build)[0] if engine in text] for build in (epilogue, other))
    assert one != two and first == second and len(first) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_generated_sources(name: str) -> None:
    assert source(PROGRAMS[name]) == (FOLDER / f"{name}.cpp").read_text()


if __name__ == "__main__":
    for name, build in PROGRAMS.items():
        (FOLDER / f"{name}.cpp").write_text(source(build))
