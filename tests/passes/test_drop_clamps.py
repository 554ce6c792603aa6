"""Lower bounds that are never reached go; all others stay."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.drop_clamps import drop_clamps
from tests.passes.checking import checked, program_of

Value = Instruction


@pytest.mark.parametrize(
    ("lowest", "scale", "bound", "dropped"),
    [(0, 2, -128, True), (3, 2, 0, True), (0, 2, 1, False), (-1, 2, -128, False), (0, -2, -128, False)],
)
def test_what_is_clipped_and_scaled(lowest: float, scale: float, bound: float, dropped: bool):
    def build(b: Builder, x: Value) -> Value:
        def all_of(value: float) -> Value:
            return b.broadcast_to(b.literal(np.array([value], np.float32)), (4, 5))

        y = b.mul(b.clip(x, all_of(lowest), all_of(6)), all_of(scale))
        return b.max(b.nearbyint(y), all_of(bound))

    left = checked(program_of(build, x=(4, 5)), [drop_clamps])
    assert bool(left["max"]) is not dropped


def test_a_lower_bound_that_is_computed():
    def build(b: Builder, x: Value, low: Value) -> Value:
        return b.max(b.clip(x, low, b.broadcast_to(b.literal(np.array([6], np.float32)), (4, 5))), b.full(0.0, x))

    assert checked(program_of(build, x=(4, 5), low=(4, 5)), [drop_clamps])["max"] == 1
