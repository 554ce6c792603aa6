"""What is only moved between two quantizations of one scale stays integers."""

from typing import Any

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.simplify_requantize import simplify_requantize
from tests.passes.checking import checked, program_of

Value = Instruction
CODES = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
MOVES: dict[str, dict[str, Any]] = {
    "transpose": {"permutation": (0, 1, 3, 2)}, "reverse": {"axes": (3,)}, "step": {"axes": (2,), "steps": (2,)},
    "multibroadcast": {"out_lens": (1, 3, 4, 4)}, "slice": {"axes": (3,), "starts": (1,), "ends": (3,)},
    "flatten": {"axis": 2}, "layout": {"permutation": (0, 2, 3, 1)}, "contiguous": {},
}  # fmt: skip


def quantized(b: Builder, x: Value, step: float = 0.5) -> Value:
    return b.quantizelinear(x, b.full(step, x), out_type="int8")


@pytest.mark.parametrize("move", MOVES)
def test_moves_of_codes(move: str):
    def build(b: Builder, x: Value) -> Value:
        step = b.multibroadcast(b.literal(np.array([0.5], np.float32)), out_lens=x.shape.lens)
        return quantized(b, b.instruction(move, [b.dequantizelinear(x, step)], **MOVES[move]))

    left = checked(program_of(build, x=Shape.of(CODES)), [simplify_requantize], {"x": CODES})
    assert left[move] == 1 and left.keys() <= {move, "layout"}


@pytest.mark.parametrize(("move", "gains"), [("transpose", True), ("reverse", True), ("slice", False), ("step", False)])
def test_maxima_read_integers_where_nothing_else_is_dropped(move: str, gains: bool):
    """What a slice drops would be quantized in vain."""

    def build(b: Builder, x: Value) -> Value:
        pooled = b.pooling(b.sigmoid(x), mode="max", lengths=(2, 2))
        attributes: dict[str, Any] = {"slice": {"axes": (3,), "starts": (0,), "ends": (2,)}}.get(move, MOVES[move])
        return quantized(b, b.instruction(move, [pooled], **attributes))

    program = program_of(build, x=(1, 1, 4, 4))
    checked(program, [simplify_requantize])
    assert [i.shape.type for i in program.main if i.name == "pooling"] == ["int8" if gains else "float"]
