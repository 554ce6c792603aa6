"""Reductions over both sides of a kept axis become two; answers are compared."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape, permuted
from migraphx.ir.size import Sizes
from migraphx.passes.common_subexpressions import common_subexpressions
from migraphx.passes.fuse_pointwise import fuse_pointwise
from migraphx.passes.fuse_reduce import fuse_reduce
from migraphx.passes.pixels_first import pixels_first
from migraphx.passes.simplify_reshapes import simplify_reshapes
from tests.passes.checking import checked, program_of

Value = Instruction
PASSES = [simplify_reshapes, pixels_first, fuse_reduce, fuse_pointwise, common_subexpressions]


def image(n: int, c: int, *size: int, type: str = "float") -> Shape:
    """Channels-last."""
    rank = len(size)
    return permuted(type, (n, c, *size), (0, *range(2, rank + 2), 1))


def weights(b: Builder, n: int, type: str = "float") -> tuple[Value, Value]:
    scale, bias = np.random.default_rng(0).standard_normal((2, n)).astype("f2" if type == "half" else "f4")
    return b.literal(scale), b.literal(bias)


def grouped(b: Builder, x: Value, groups: int) -> Value:
    """{N, C, H, W} as {N, G, C / G, H, W}, a view."""
    n, c, h, w = x.shape.lens
    apart = b.reshape(b.transpose(x, permutation=(0, 2, 3, 1)), dims=(n, h, w, groups, c // groups))
    return b.transpose(apart, permutation=(0, 3, 4, 1, 2))


@pytest.mark.parametrize(("n", "c", "groups"), [(1, 40, 20), (2, 24, 3), (1, 36, 2)])
def test_group_norms_read_all_channels_of_a_pixel(n: int, c: int, groups: int) -> None:
    """Two reductions over pixels, two over the channels of a group; what lies between is computed where it is read."""

    def norm(b: Builder, x: Value) -> Value:
        d = b.sub(y := grouped(b, x, groups), b.multibroadcast(b.reduce_mean(y, axes=(2, 3, 4)), out_lens=y.shape.lens))
        variance = b.reduce_mean(b.mul(d, d), axes=(2, 3, 4))
        epsilon = b.multibroadcast(b.literal(np.full(1, 1e-5, np.float32)), out_lens=variance.shape.lens)
        small = b.rsqrt(b.add(variance, epsilon))
        return b.relu(b.mul(d, b.multibroadcast(small, out_lens=y.shape.lens)))

    left = checked(program_of(norm, x=image(n, c, 53, 52)), PASSES)
    assert (left["fused_reduce"], left["pointwise"], left["contiguous"]) == (4, 1, 2)


@pytest.mark.parametrize("axes", [(2, 3), (0, 2, 3)])
def test_norms_over_pixels_alone_are_shared_by_lines(axes: tuple[int, ...]) -> None:
    def norm(b: Builder, x: Value) -> Value:
        d = b.sub(x, b.multibroadcast(b.reduce_mean(x, axes=axes), out_lens=x.shape.lens))
        scale = b.rsqrt(b.reduce_mean(b.mul(d, d), axes=axes))
        return b.mul(d, b.multibroadcast(scale, out_lens=x.shape.lens))

    left = checked(program_of(norm, x=image(2, 24, 53, 52)), PASSES)
    assert (left["fused_reduce"], left["pointwise"], left["contiguous"]) == (4, 1, 2)


@pytest.mark.parametrize("type", ["float", "half"])
def test_the_composite(type: str) -> None:
    def norm(b: Builder, x: Value) -> Value:
        return b.silu(b.group_norm(x, *weights(b, 40, type), num_groups=10))

    assert checked(program_of(norm, x=image(1, 40, 41, 41, type=type)), PASSES)["fused_reduce"] == 4


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_min", "reduce_mean"])
def test_every_reduction_of_floats(name: str) -> None:
    def build(b: Builder, x: Value) -> Value:
        return b.instruction(name, [grouped(b, x, 4)], axes=(2, 3, 4))

    assert checked(program_of(build, x=image(1, 32, 50, 50)), PASSES, scale=100)["fused_reduce"] == 2


def test_a_softmax_of_groups_is_right() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = grouped(b, x, 4)
        e = b.exp(b.sub(y, b.multibroadcast(b.reduce_max(y, axes=(2, 3, 4)), out_lens=y.shape.lens)))
        return b.div(e, b.multibroadcast(b.reduce_sum(e, axes=(2, 3, 4)), out_lens=y.shape.lens))

    checked(program_of(build, x=image(1, 32, 50, 50)), PASSES, scale=100)


STAYS = {
    "a small image": (lambda b, x: b.reduce_sum(grouped(b, x, 4), axes=(2, 3, 4)), image(1, 32, 20, 20)),
    "pixels alone": (lambda b, x: b.reduce_sum(x, axes=(2, 3)), image(1, 32, 50, 50)),
    "a norm of one line": (
        lambda b, x: b.sub(x, b.multibroadcast(b.reduce_max(x, axes=(2,)), out_lens=x.shape.lens)),
        image(1, 32, 2500),
    ),
    "channels alone": (lambda b, x: b.reduce_sum(x, axes=(1,)), image(1, 32, 50, 50)),
    "all": (lambda b, x: b.reduce_sum(x, axes=(1, 2, 3)), image(2, 32, 50, 50)),
    "planes": (lambda b, x: b.group_norm(x, num_groups=4), Shape("float", (1, 32, 50, 50))),
    "batches of planes": (lambda b, x: b.reduce_mean(x, axes=(0, 2, 3)), Shape("float", (4, 8, 50, 50))),
    "integers, whose means are truncated": (
        lambda b, x: b.reduce_mean(grouped(b, x, 4), axes=(2, 3, 4)),
        image(1, 32, 50, 50, type="int32"),
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    build, shape = STAYS[name]
    program = program_of(build, x=shape)
    before = [(i.name, i.op) for i in program.main]
    checked(program, [pixels_first], scale=100)
    assert [(i.name, i.op) for i in program.main] == before


def test_a_number_of_images_that_is_open() -> None:
    n = Sizes().symbol("n", 2, 1, 8)
    program = program_of(
        lambda b, x: b.reduce_mean(b.transpose(x, permutation=(0, 3, 4, 1, 2)), axes=(2, 3, 4)),
        x=Shape("float", (n, 50, 50, 4, 8)),
    )
    pixels_first(program.main)
    assert [i.name for i in program.main].count("reduce_mean") == 2


def test_norms_of_rows_wish_for_no_number_of_rows() -> None:
    """A wish makes a program be compiled again, beside runs, at lengths at which it does not hold."""
    sizes = Sizes()
    n = sizes.symbol("n", 200, 1, 4096)

    def build(b: Builder, x: Value) -> list[Value]:
        of_channels = b.reduce_sum(b.transpose(x, permutation=(0, 2, 1)), axes=(1,))
        return [b.reduce_max(x, axes=(2,)), b.reduce_max(x, axes=(1, 2)), of_channels]

    program = program_of(build, x=Shape("float", (1, n, 512)))
    pixels_first(program.main)
    assert not sizes.wishes


def test_long_chains_are_not_computed_again() -> None:
    """What is behind one norm, and has a norm itself, is stored; so many ways from one value to the next end soon."""

    def build(b: Builder, x: Value) -> Value:
        for _ in range(2):
            mean = b.reduce_mean(grouped(b, x, 4), axes=(2, 3, 4))
            for _ in range(40):
                mean = b.add(mean, b.sigmoid(mean))
            y = grouped(b, x, 4)
            y = b.sub(y, b.multibroadcast(mean, out_lens=y.shape.lens))
            for _ in range(3):
                y = b.mul(y, b.sigmoid(y))
            x = b.reshape(b.transpose(y, permutation=(0, 3, 4, 1, 2)), dims=(1, 50, 50, 32))
            x = b.transpose(x, permutation=(0, 3, 1, 2))
        return x

    checked(program_of(build, x=image(1, 32, 50, 50)), PASSES, scale=100)
