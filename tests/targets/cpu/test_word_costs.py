"""What is computed twice, and what is written into every register of a tile: what the words cost decides."""

from collections.abc import Callable

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.runtime.options import CompileOptions
from migraphx.targets.cpu.target import translate
from migraphx.targets.cpu.toolchain import Features
from tests.passes.checking import program_of

Value = Instruction


def text_of(build: Callable[[Builder, Value], Value]) -> str:
    """The one kernel of a program on {3, 40}."""
    program = program_of(build, x=(3, 40))
    features = Features(lanes=16, bf16_words=False, amx=False)
    (call,) = translate(program, CompileOptions(), features).lowered.calls
    assert call.kernel is not None
    return call.kernel.text


@pytest.mark.parametrize(("word", "waits"), [("exp", True), ("leaky_relu", False), ("floor", False), ("relu", False)])
def test_what_costs_more_than_a_load_waits_in_the_output(word: str, waits: bool) -> None:
    def share(b: Builder, x: Value) -> Value:
        y = getattr(b, word)(x)
        return b.div(y, b.multibroadcast(b.reduce_sum(y, axes=(1,)), out_lens=(3, 40)))

    assert text_of(share).count("put(p1") == 1 + waits


@pytest.mark.parametrize(("word", "short"), [("relu", True), ("sqdiff", True), ("sqrt", True), ("tanh", False)])
def test_epilogues_of_an_instruction_a_word_are_short(word: str, short: bool) -> None:
    def product(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.literal(np.ones((40, 24), np.float32)))
        return b.instruction(word, [y, b.full(0.5, y)] if word == "sqdiff" else [y])

    assert ("ShortEpilogue" in text_of(product)) == short
