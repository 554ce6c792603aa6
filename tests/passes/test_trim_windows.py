"""Taps that read nothing but padding are left out; the answer stays what it was."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.pipeline import SIMPLIFY
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)

TRIMMED = {
    "a dilation as wide as the image": ((14, 14), (3, 3), (24, 24), (24, 24), (1, 1), (1, 1)),
    "along one axis": ((14, 40), (3, 3), (20, 20), (20, 20), (1, 1), (1, 3)),
    "one frame": ((1, 6, 5), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 3, 3)),
    "the outer two of five": ((9,), (5,), (10,), (5,), (1,), (3,)),
    "one side": ((4, 4), (3, 1), (6, 0, 2, 0), (4, 1), (1, 1), (2, 1)),
    "strides": ((3, 8), (3, 3), (8, 1), (8, 1), (2, 2), (1, 3)),
    "none: each is inside somewhere": ((14, 14), (3, 3), (12, 12), (12, 12), (1, 1), (3, 3)),
}


@pytest.mark.parametrize("case", TRIMMED)
@pytest.mark.parametrize("group", [1, 2])
def test_taps_outside_are_left_out(case: str, group: int):
    lens, kernel, padding, dilation, stride, kept = TRIMMED[case]

    def build(b: Builder, x: Value) -> Value:
        w = b.literal(rng.standard_normal((4, 4 // group, *kernel)).astype(np.float32))
        return b.convolution(x, w, padding=padding, dilation=dilation, stride=stride, group=group)

    program = program_of(build, x=(2, 4, *lens))
    checked(program, SIMPLIFY)
    (left,) = (i for i in program.main if i.name == "convolution")
    assert left.inputs[1].shape.lens[2:] == kept
