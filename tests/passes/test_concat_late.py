"""Products side by side take what follows their concatenation along; answers are compared."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.ir.size import Sizes
from migraphx.passes.concat_late import concat_late
from migraphx.passes.fuse_epilogue import fuse_epilogue
from migraphx.passes.fuse_pointwise import fuse_pointwise
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)


def const(b: Builder, *lens: int) -> Value:
    return b.literal(rng.standard_normal(lens).astype(np.float32))


def mixed(b: Builder, x: Value, axis: int = 1) -> Value:
    """Of MixNet: each part of the channels has windows of its own size."""
    parts, start = list[Value](), 0
    for channels, k in ((2, 1), (3, 3), (1, 5)):
        part = b.slice(x, axes=(1,), starts=(start,), ends=(start + channels,))
        pad = (k // 2, k // 2)
        parts.append(b.convolution(part, const(b, channels, 1, k, k), padding=pad, group=channels))
        start += channels
    return b.concat(*parts, axis=axis)


def silu(b: Builder, x: Value) -> Value:
    return b.mul(x, b.sigmoid(x))


def norm(b: Builder, x: Value) -> Value:
    a, c = (b.multibroadcast(const(b, x.shape.lens[1], 1, 1), out_lens=x.shape.lens) for _ in range(2))
    return b.add(b.mul(x, a), c)


def left_of(build, **parameters) -> dict[str, int]:
    left = checked(program_of(build, **parameters), [fuse_pointwise, concat_late, fuse_epilogue], scale=30)
    return {name: n for name, n in left.items() if name not in ("multibroadcast", "slice")}


@pytest.mark.parametrize("axis", [1, -3])
def test_windows_of_several_sizes(axis: int):
    def build(b: Builder, x: Value) -> Value:
        return silu(b, norm(b, mixed(b, x, axis)))

    assert left_of(build, x=(2, 6, 7, 5)) == {"concat": 1, "group": 3}


def test_what_else_the_kernel_reads():
    """A residual, and what lies at its own strides: each product takes its part."""

    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.relu(b.add(b.add(norm(b, mixed(b, x)), x), b.transpose(y, permutation=(0, 3, 1, 2))))

    assert left_of(build, x=(2, 6, 7, 5), y=(2, 7, 5, 6)) == {"concat": 1, "group": 3, "transpose": 1}


@pytest.mark.parametrize("axis", [0, 1])
def test_dots(axis: int):
    def build(b: Builder, x: Value, y: Value, w: Value) -> Value:
        return b.tanh(
            b.add(b.concat(b.dot(x, w), b.dot(y, w), axis=axis), const(b, *((7, 5) if axis == 0 else (4, 10))))
        )

    other = (3, 6) if axis == 0 else (4, 6)
    assert left_of(build, x=(4, 6), y=other, w=(6, 5)) == {"concat": 1, "group": 2}


def test_lengths_that_are_open_elsewhere():
    """Images: as many as there are."""
    n = Sizes().symbol("n", 2, 1, 8)
    x = Shape("float", (n, 6, 7, 5))

    def build(b: Builder, x: Value) -> Value:
        return b.relu(mixed(b, x))

    program = program_of(build, x=x)
    for one in (fuse_pointwise, concat_late, fuse_epilogue):
        one(program.main)
    assert [i.name for i in program.main].count("group") == 3


STAYS = {
    "a part that is no product": lambda b, x, w: b.relu(b.concat(b.dot(x, w), b.exp(x), axis=1)),
    "a part that is read elsewhere": lambda b, x, w: (
        b.relu(b.concat(b.dot(x, w), y := b.dot(b.exp(x), w), axis=1)),
        b.reduce_sum(y, axes=(0,)),
    ),
    "a part that comes twice": lambda b, x, w: b.relu(b.concat(y := b.dot(x, w), y, axis=1)),
    "the whole is read elsewhere": lambda b, x, w: (
        b.relu(y := b.concat(b.dot(x, w), b.dot(b.exp(x), w), axis=1)),
        b.reduce_sum(y, axes=(0,)),
    ),
    "two concatenations": lambda b, x, w: b.add(
        b.concat(b.dot(x, w), b.dot(b.exp(x), w), axis=1), b.concat(b.dot(b.neg(x), w), b.dot(b.sin(x), w), axis=1)
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str):
    program = program_of(STAYS[name], x=(4, 6), w=(6, 6))
    left = checked(program, [fuse_pointwise, concat_late], scale=30)
    (whole,) = {u.name for i in program.main if i.name == "concat" for u in i.users} - {"reduce_sum"}
    assert whole == "pointwise" and left["dot"] >= 1
