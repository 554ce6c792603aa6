"""Users' operators with a body in Triton's language."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.ir.shape import Shape
from migraphx.targets.common.lowering import UnsupportedOperator
from tests.targets.gpu.side_by_side import built, check, one

pytestmark = pytest.mark.usefixtures("everywhere")


class Shifted(migraphx.custom_op, name="gpu_test::shifted"):
    """x rolled along its rows, times a factor, plus the first of the biases."""

    factor: float = 2.0
    by: tuple[int, ...] = (1,)
    negated: bool = False

    triton = """
        columns = in0_lens[1]
        source = i // columns * columns + (i % columns + columns - by[0]) % columns
        value = tl.load(in0 + source, inside).to(tl.float32) * factor + tl.load(in1).to(tl.float32)
        if negated:
            value = -value
        tl.store(out + i, value.to(out.dtype.element_ty), inside)
    """

    def compute_shape(self, x, bias):
        return migraphx.shape(type=x.type_string(), lens=x.lens())

    def compute(self, x, bias):
        value = np.roll(x, self.by[0], 1).astype(np.float32) * np.float32(self.factor) + bias[0].astype(np.float32)
        return (-value if self.negated else value).astype(x.dtype)


class ForCpu(migraphx.custom_op, name="gpu_test::for_cpu"):
    """Has no body for this target."""

    cpp = "for (int64_t i = begin; i < end; ++i) out[i] = in0[i];"

    def compute_shape(self, x):
        return migraphx.shape(type=x.type_string(), lens=x.lens())

    def compute(self, x):
        return x


@pytest.mark.parametrize("type", ["half", "float"])
@pytest.mark.parametrize("attributes", [{}, {"factor": float("inf")}, {"by": (3, 1), "negated": True}])
def test_bodies_see_inputs_lens_and_attributes(type, attributes):
    layout = Shape(type, (5, 300), (1, 5))
    check(built(one("gpu_test::shifted", **attributes), layout, Shape(type, (4,))))


def test_an_operator_without_a_body_is_refused():
    with pytest.raises(UnsupportedOperator, match=r"refuses gpu_test::for_cpu .*without a body for it, `triton`"):
        check(built(one("gpu_test::for_cpu"), Shape("float", (4,))))
