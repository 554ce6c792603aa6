"""Transposed convolutions of quantized numbers become convolutions of integers; torch says what they give."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.manager import run_passes
from migraphx.passes.simplify_qdq import simplify_qdq
from migraphx.passes.transposed_products import transposed_products
from migraphx.targets.ref.evaluate import evaluate
from tests.passes.checking import program_of
from tests.tolerances import assert_close

Value = Instruction
CASES = {
    "one dimension": {"lens": (2, 3, 5), "kernel": (4,), "stride": (3,), "padding": (1,)},
    "two": {"lens": (1, 4, 3, 4), "kernel": (4, 3), "stride": (2, 1), "padding": (1, 0)},
    "three": {"lens": (1, 3, 2, 3, 2), "kernel": (2, 2, 3), "stride": (2, 2, 2), "padding": (0, 0, 1)},
    "dilated": {"lens": (1, 4, 4, 4), "kernel": (3, 2), "stride": (2, 3), "padding": (1, 1), "dilation": (2, 3)},
    "strides beyond the kernel": {"lens": (1, 3, 3, 3), "kernel": (2, 1), "stride": (3, 4), "padding": (0, 0)},
    "groups": {"lens": (2, 8, 3, 3), "kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "groups": 2},
}


@pytest.mark.parametrize("zero", [0, 3], ids=["symmetric", "zero points"])
@pytest.mark.parametrize("by_channel", [True, False], ids=["by channel", "one scale"])
@pytest.mark.parametrize("case", CASES)
def test_what_torch_gives(case: str, by_channel: bool, zero: int):
    given = {"groups": 1, "dilation": (1,) * len(CASES[case]["kernel"]), **CASES[case]}
    lens, kernel, groups = given["lens"], given["kernel"], given["groups"]
    rng = np.random.default_rng(0)
    channels = 3
    codes = rng.integers(-100, 100, (lens[1], channels, *kernel)).astype(np.int8)
    own = (1, channels if by_channel else 1, *(1,) * len(kernel))
    scale = (rng.random(own) + 0.5).astype(np.float32)
    points = rng.integers(-zero, zero + 1, own).astype(np.int8)
    x = rng.integers(0, 256, lens).astype(np.uint8)

    def build(b: Builder, x: Value) -> Value:
        one = np.full((1,) * len(lens), 0.5, np.float32), np.full((1,) * len(lens), 7, np.uint8)
        left = b.dequantizelinear(x, *(b.broadcast_to(b.literal(p), lens) for p in one))
        of_weights = [b.broadcast_to(b.literal(p), codes.shape) for p in ((scale, points) if zero else (scale,))]
        return b.convolution_backwards(
            left, b.dequantizelinear(b.literal(codes), *of_weights), padding=given["padding"], stride=given["stride"],
            dilation=given["dilation"], group=groups,
        )  # fmt: skip

    program = program_of(build, x=Shape("uint8", lens))
    run_passes(program, [transposed_products, simplify_qdq], check=True)
    left = {i.name for i in program.main}
    assert "quant_convolution" in left and not left & {"convolution", "convolution_backwards"}
    weights = torch.from_numpy((codes.astype(np.float32) - points) * scale)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(kernel) - 1]
    want = function(
        (torch.from_numpy(x).float() - 7) * 0.5, weights, stride=given["stride"], padding=given["padding"],
        dilation=given["dilation"], groups=groups,
    )  # fmt: skip
    (got,) = evaluate(program.main, {"x": x})
    assert_close(got, want.numpy(), scale=10)


@pytest.mark.parametrize("case", ["computed weights", "scales along the depth", "float input", "narrow groups"])
def test_what_stays(case: str):
    """Where no product of integers would come of it, a transposed convolution has its own kernel."""
    groups = 2 if case == "narrow groups" else 1
    scales = np.ones((4, 1, 1) if case == "scales along the depth" else (1, 2, 1), np.float32)
    scales[0] = 2

    def build(b: Builder, x: Value, w: Value, y: Value) -> Value:
        half = b.literal(np.array([0.5], np.float32))
        left = y if case == "float input" else b.dequantizelinear(x, b.broadcast_to(half, (1, 4, 5)))
        codes = w if case == "computed weights" else b.literal(np.arange(24, dtype=np.int8).reshape(4, 2, 3))
        right = b.dequantizelinear(codes, b.broadcast_to(b.literal(scales), (4, 2, 3)))
        return b.convolution_backwards(left, right, padding=(0,), stride=(2,), dilation=(1,), group=groups)

    program = program_of(build, x=Shape("int8", (1, 4, 5)), w=Shape("int8", (4, 2, 3)), y=(1, 4, 5))
    run_passes(program, [transposed_products], check=True)
    assert "convolution_backwards" in {i.name for i in program.main}
