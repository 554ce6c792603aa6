"""Resized images: written in the order of their reader, or broadcast; answers stay what they were."""

import numpy as np
import pytest
import torch

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.ops.vision import Resize
from migraphx.passes.pipeline import optimize
from migraphx.passes.simplify_reshapes import simplify_reshapes
from migraphx.targets.ref.evaluate import evaluate
from tests.passes.checking import checked, program_of
from tests.tolerances import assert_close

Value = Instruction


def channels_last(*lens: int, type: str = "float") -> Shape:
    return permuted(type, lens, (0, 2, 3, 1))


@pytest.mark.parametrize("mode", Resize.MODES)
@pytest.mark.parametrize("type", ["float", "half", "double"])
def test_a_layout_moves_before_what_grows(mode: str, type: str):
    def build(b: Builder, x: Value) -> Value:
        return b.layout(b.resize(x, sizes=(2, 5, 7, 9), mode=mode), permutation=(0, 1, 2, 3))

    program = program_of(build, x=channels_last(2, 5, 3, 4, type=type))
    left = checked(program, [simplify_reshapes])
    assert [i.name for i in program.main if i.name in left] == ["layout", "resize"]


def test_an_answer_is_written_once():
    """A segmentation's end: the scores of few pixels, which are laid out, and then those of all."""

    def build(b: Builder, x: Value) -> Value:
        w = b.literal(np.random.default_rng(0).standard_normal((5, 3, 1, 1)).astype(np.float32))
        return b.resize(b.convolution(x, w), sizes=(1, 5, 32, 30), mode="linear")

    program = program_of(build, x=(1, 3, 4, 5))
    checked(program, optimize)
    last = program.main.outputs[0]
    assert last.name == "resize" and last.inputs[0].name == "layout"
    assert last.shape.standard and last.inputs[0].shape.standard


def test_both_readers_of_one_order():
    """A layout that two read is one instruction; where something reads the image as it is nothing changes."""

    def build(b: Builder, x: Value) -> list[Value]:
        y = b.resize(x, sizes=(1, 3, 8, 8))
        laid = b.layout(y, permutation=(0, 1, 2, 3))
        return [b.relu(laid), b.neg(laid), *([b.exp(y)] if x.shape.lens[2] == 4 else [])]

    for size, order in ((2, ["layout", "resize"]), (4, ["resize", "layout"])):
        program = program_of(build, x=channels_last(1, 3, size, size))
        checked(program, [simplify_reshapes])
        assert [i.name for i in program.main if i.name in order] == order


ONES = {
    "nearest": {"mode": "nearest"},
    "linear": {"mode": "linear"},
    "aligned": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "one axis": {"mode": "linear", "width": 1},
}


@pytest.mark.parametrize("case", ONES)
@pytest.mark.parametrize("size", [(14, 14), (7, 5)])
def test_one_element_is_repeated(case: str, size: tuple[int, int]):
    """Infinities too: torch's own answer has NaN where a weight of 0 meets them, ONNX Runtime's has none."""
    how = dict(ONES[case])
    width = size[1] if how.pop("width", 0) else 1

    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.mul(b.resize(x, sizes=(2, 3, *size), **how), y)

    program = program_of(build, x=(2, 3, 1, width), y=(2, 3, *size))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 1, width)).astype(np.float32)
    y = rng.standard_normal((2, 3, *size)).astype(np.float32)
    mode = {"linear": "bilinear", "nearest": "nearest"}[str(how["mode"])]
    want = torch.nn.functional.interpolate(torch.from_numpy(x), size, mode=mode).numpy() * y
    left = checked(program, [simplify_reshapes], {"x": x, "y": y})
    assert left == {"multibroadcast": 1, "mul": 1}
    assert_close(evaluate(program.main, {"x": x, "y": y})[0], want, scale=10)
    x[0, 0, 0, 0], x[1, 1, 0, 0], x[1, 2, 0, 0] = np.inf, -np.inf, np.nan
    program = program_of(build, x=(2, 3, 1, width), y=(2, 3, *size))
    checked(program, [simplify_reshapes], {"x": x, "y": y})


@pytest.mark.parametrize("how", [
    {"mode": "cubic"},
    {"mode": "linear", "exclude_outside": True},
    {"mode": "linear", "sizes": (1, 3, 4, 4), "lens": (1, 3, 1, 2)},
    {"mode": "linear", "sizes": (1, 3, 4, 2), "scales": (1.0, 1.0, 4.0, 1.5), "lens": (1, 3, 1, 2)},
])  # fmt: skip
def test_what_is_no_repetition(how: dict):
    """Weights of both signs or of 0 make NaN of infinities; two elements are mixed."""
    given = {"sizes": (1, 3, 4, 4)} | how
    lens = given.pop("lens", (1, 3, 1, 1))
    program = program_of(lambda b, x: b.relu(b.resize(x, **given)), x=lens)
    assert checked(program, [simplify_reshapes])["resize"] == 1
