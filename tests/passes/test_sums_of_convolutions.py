"""Branches side by side, as networks are trained with them, become one convolution; what must not, stays."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.pipeline import SIMPLIFY
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)


def const(b: Builder, *lens: int, type: str = "float") -> Value:
    return b.cast(b.literal(rng.standard_normal(lens).astype(np.float32)), type)


def norm(b: Builder, x: Value) -> Value:
    c = x.shape.lens[1]
    return b.batchnorm(x, const(b, c), const(b, c), const(b, c), b.literal((rng.random(c) + 0.5).astype(np.float32)))


def left_of(build, **parameters) -> dict[str, int]:
    """How often each operator is left, broadcasts apart; answers are compared."""
    left = checked(program_of(build, **parameters), SIMPLIFY, scale=30)
    return {name: n for name, n in left.items() if name != "multibroadcast"}


@pytest.mark.parametrize("group", [1, 2, 4])
def test_a_block_of_branches(group: int):
    """Of MobileOne: windows of 3 x 3 and of 1 x 1 with their norms, and a norm of the input."""

    def build(b: Builder, x: Value) -> Value:
        y = b.add(norm(b, b.convolution(x, const(b, 4, 4 // group, 1, 1), group=group)), norm(b, x))
        for _ in range(3):
            w = const(b, 4, 4 // group, 3, 3)
            y = b.add(y, norm(b, b.convolution(x, w, padding=(1, 1), group=group)))
        return b.relu(y)

    assert left_of(build, x=(2, 4, 6, 5)) == {"convolution": 1, "add": 1, "relu": 1}


def test_a_mixer_of_tokens():
    """Of FastViT: x + scale * (branches - norm)."""

    def build(b: Builder, x: Value) -> Value:
        c = 6
        branches = norm(b, b.convolution(x, const(b, c, 1, 3, 3), padding=(1, 1), group=c))
        branches = b.add(branches, norm(b, x))
        scaled = b.mul(b.sub(branches, norm(b, x)), b.multibroadcast(const(b, c, 1, 1), out_lens=x.shape.lens))
        return b.add(x, scaled)

    assert left_of(build, x=(1, 6, 7, 5)) == {"convolution": 1, "add": 2}


@pytest.mark.parametrize("rank", [3, 5])
@pytest.mark.parametrize("order", ["wide - narrow", "narrow - wide", "wide - scaled", "scaled - wide"])
def test_differences_in_other_ranks(order: str, rank: int):
    n = rank - 2

    def build(b: Builder, x: Value) -> Value:
        ones, tail = (1,) * n, (2,) * n
        of = {
            "scaled": b.mul(x, b.multibroadcast(const(b, 4, *ones), out_lens=x.shape.lens)),
            "wide": b.convolution(x, const(b, 4, 2, *(5,) * n), padding=tail, stride=ones, dilation=ones, group=2),
            "narrow": b.convolution(x, const(b, 4, 2, *(3,) * n), padding=ones, stride=ones, dilation=ones, group=2),
        }
        first, second = order.split(" - ")
        return b.sub(of[first], of[second])

    assert left_of(build, x=(1, 4, *(7,) * n)) == {"convolution": 1}


@pytest.mark.parametrize(
    ("window", "padding", "dilation", "count"),
    [
        ((1, 1), (0, 0), (1, 1), 1),
        ((3, 3), (2, 4), (2, 4), 1),
        ((2, 3), (2, 2, 2, 2), (4, 2), 1),
        ((2, 1), (0, 0, 2, 0), (2, 1), 1),
        ((3, 3), (1, 1), (1, 1), 2),
        ((7, 1), (6, 0), (2, 1), 2),
    ],
)
def test_windows_within_others(window, padding, dilation, count):
    """Where each tap of the smaller one is where one of the larger one is; strides are the same."""

    def build(b: Builder, x: Value) -> Value:
        large = b.convolution(x, const(b, 6, 3, 5, 5), padding=(4, 4), dilation=(2, 2), stride=(2, 1))
        small = b.convolution(x, const(b, 6, 3, *window), padding=padding, dilation=dilation, stride=(2, 1))
        return b.add(small, large)

    assert left_of(build, x=(2, 3, 11, 9))["convolution"] == count


def test_groups_within_others():
    """Smaller groups are zeros of the larger ones' weights; of other groups nothing is known."""

    def build(b: Builder, x: Value) -> Value:
        one = b.convolution(x, const(b, 12, 3, 3, 3), padding=(1, 1), group=2)
        return b.add(one, b.convolution(x, const(b, 12, 1, 3, 3), padding=(1, 1), group=6))

    def others(b: Builder, x: Value) -> Value:
        one = b.convolution(x, const(b, 12, 3, 3, 3), padding=(1, 1), group=2)
        return b.add(one, b.convolution(x, const(b, 12, 2, 3, 3), padding=(1, 1), group=3))

    assert left_of(build, x=(2, 6, 5, 5)) == {"convolution": 1}
    assert left_of(others, x=(2, 6, 5, 5)) == {"convolution": 2, "add": 1}


def test_the_input_itself_is_added_exactly():
    def build(b: Builder, x: Value) -> Value:
        return b.add(x, b.convolution(x, const(b, 4, 4, 3, 3), padding=(1, 1)))

    assert left_of(build, x=(1, 4, 5, 5)) == {"convolution": 1, "add": 1}


@pytest.mark.parametrize("why", ["narrow", "shared", "shifted", "strides", "used", "inputs", "overflow"])
def test_what_stays(why: str):
    type = "half" if why == "narrow" else "float"

    def weights(b: Builder, huge: float) -> Value:
        return b.full(huge, const(b, 4, 4, 3, 3)) if why == "overflow" else const(b, 4, 4, 3, 3, type=type)

    def build(b: Builder, x: Value, v: Value) -> list[Value]:
        w = v if why == "inputs" else weights(b, 3e38)
        u = w if why == "shared" else weights(b, 2e38)
        pad, stride = ((1, 1, 1, 1) if why != "shifted" else (0, 1, 2, 1)), ((1, 1) if why != "strides" else (2, 2))
        one = b.convolution(x, w, padding=(1, 1))
        if why == "strides":  # of one pixel there is one window, whatever the stride
            x = b.slice(x, axes=(2, 3), starts=(0, 0), ends=(1, 1))
            one = b.convolution(x, w, padding=(1, 1))
        y = b.add(one, b.convolution(x, u, padding=pad, stride=stride))
        return [y, one] if why == "used" else [y]

    program = program_of(build, x=Shape(type, (1, 4, 5, 5)), v=Shape(type, (4, 4, 3, 3)))
    zeros = {n: np.zeros(p.shape.lens, p.shape.numpy_dtype) for n, p in program.main.parameters.items()}
    left = checked(program, SIMPLIFY, zeros if why == "overflow" else None, scale=30)
    assert left["convolution"] == 2
