"""Convolutions of few channels from padded copies on target gpu against ref (lower/convolution.py: lined_up)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.targets.common.epilogue import Window
from migraphx.targets.common.views import Buffer, View
from migraphx.targets.gpu import facts
from migraphx.targets.gpu.choices import Config
from migraphx.targets.gpu.costs.convolutions import lined_up_convolutions
from migraphx.targets.gpu.emit.spatial import Conv
from tests.targets.gpu.side_by_side import built, check
from tests.tiers import few_rows

pytestmark = pytest.mark.usefixtures("everywhere")
RNG = np.random.default_rng(3)


def weight(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


@pytest.mark.parametrize(
    ("type", "channels"),
    few_rows([("int8", 1), ("int8", 3), ("half", 2), ("half", 3), ("bf16", 1)], ("int8", 3), ("half", 2)),
)
def test_windows_lined_up(type: str, channels: int, always: Callable[..., None]) -> None:
    """Few channels: a copy with zeros round each image, where rows of windows are vectors; what follows is not seen."""
    always(Config("lined", 16, 16, 32))
    x, w = (weight(*lens) * 4 for lens in ((2, channels, 9, 13), (20, channels, 3, 5)))
    if type != "int8":
        x[0, 0, 4, 6], x[1, -1, 0, 12], x[1, 0, 8, 0] = np.nan, np.inf, -np.inf
    x, w = ((10 * a if type == "int8" else a).astype(dtypes.to_numpy(type)) for a in (x, w))
    operator = "quant_convolution" if type == "int8" else "convolution"
    layouts = Shape(type, x.shape), permuted(type, x.shape, (0, 2, 3, 1))
    for stride, padding, shapes in (
        ((2, 2), (1, 3, 2, 0), layouts), ((1, 3), (0, 0), layouts[channels % 2 :][:1]), ((1, 1), (2, 2), layouts[:1]),
    ):  # fmt: skip

        def build(b: Builder, x: Instruction, s=stride, p=padding) -> Instruction:
            return getattr(b, operator)(x, b.literal(w), stride=s, padding=p)

        for shape in shapes:
            made = check(built(build, shape), {"x0": x}, scale=4)
            assert [s.kernel for s in made.executable.steps][:2] == ["pad", operator]


def test_images_are_padded_as_they_are_quantized(always: Callable[..., None]) -> None:
    always(Config("lined", 16, 16, 32))
    w = (weight(20, 3, 3, 5) * 40).astype(np.int8)

    def build(b: Builder, x: Instruction) -> Instruction:
        codes = b.quantizelinear(x, b.full(0.03, x), out_type="int8")
        return b.relu(b.quant_convolution(codes, b.literal(w), stride=(2, 2), padding=(1, 2)))

    for shape in (Shape("float", (2, 3, 9, 13)), permuted("float", (2, 3, 9, 13), (0, 2, 3, 1))):
        made = check(built(build, shape))
        assert [s.kernel.split()[0] for s in made.executable.steps][:2] == ["pad", "quant_convolution"]


def test_weights_are_packed_as_they_are_multiplied(
    always: Callable[..., None], hopper_with: Callable[..., None]
) -> None:
    """As halves, where tensor cores do not multiply fp8."""
    hopper_with(fp8=False)
    always(Config("lined", 16, 16, 32))
    type = "fp8e4m3fn"
    w = weight(20, 3, 3, 5).astype(dtypes.to_numpy(type))
    check(built(lambda b, x: b.convolution(x, b.literal(w), padding=(1, 2)), Shape(type, (2, 3, 9, 13))), scale=4)


def test_tiles_of_wide_windows_fit_the_shared_memory() -> None:
    """A row of a window is a step's depth, which may be four times the usual one."""
    n, c, size, kernel = 2, 15, 40, 8
    x = View(Buffer("input", 2 * n * c * size * size), "half", (n, c, size, size), (c * size * size, 1, c * size, c))
    w = View(Buffer("weight", 2 * 64 * kernel**2 * c), "half", (64, kernel**2, c), (kernel**2 * c, c, 1))
    window = Window.of((size,) * 2, (size - kernel + 1,) * 2, (kernel,) * 2, (1,) * 2, (1,) * 2, (0,) * 2)
    found = lined_up_convolutions(Conv(x, w, window, 1), facts.H200)
    assert found and {c.k for c in found} == {128}
    assert max(c.shared(x.itemsize) for c in found) <= facts.H200.shared
