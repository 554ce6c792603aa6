"""Outputs are computed where the caller wants them, other lens of what is computed too."""

from __future__ import annotations

import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.target import translate
from migraphx.targets.cpu.toolchain import Features
from tests.targets.cpu.side_by_side import Build, Case, check
from tests.tiers import few

AVX2 = Features(lanes=8, bf16_words=False, amx=False)


def product(b: Builder, x: Instruction) -> Instruction:
    return b.relu(b.dot(x, b.transpose(x, permutation=(0, 2, 1))))


def twice(b: Builder, x: Instruction) -> list[Instruction]:
    made = product(b, x)
    return [b.reshape(made, dims=(32,)), made]


def read_again(b: Builder, x: Instruction) -> list[Instruction]:
    made = product(b, x)
    return [b.reshape(made, dims=(2, 16)), b.tanh(made)]


OUTPUTS: dict[str, tuple[Build, int]] = {  # with the number of calls
    "other lens": (lambda b, x: b.reshape(product(b, x), dims=(8, 4)), 1),
    "a dimension less": (lambda b, x: b.squeeze(b.reshape(product(b, x), dims=(1, 32)), axes=(0,)), 1),
    "a dimension more": (lambda b, x: b.unsqueeze(product(b, x), axes=(0,)), 1),
    "other lens, and as it is": (twice, 2),
    "other lens, and read again": (read_again, 2),
    "of an argument": (lambda b, x: b.reshape(x, dims=(24,)), 1),
    "turned": (lambda b, x: b.reshape(b.transpose(product(b, x), permutation=(0, 2, 1)), dims=(32,)), 2),
}


@pytest.mark.parametrize("case", few(OUTPUTS, at=[0, 1]))
def test_reshaped_outputs(case: str) -> None:
    build, calls = OUTPUTS[case]
    shape = Shape("float", (2, 4, 3))
    check([Case(case, build, (shape,))])
    program = migraphx.program().graph
    made = build(Builder(program.main), program.main.add_parameter("x", shape))
    program.main.add_return([made] if isinstance(made, Instruction) else list(made))
    assert len(translate(program, CompileOptions(), AVX2).lowered.calls) == calls
