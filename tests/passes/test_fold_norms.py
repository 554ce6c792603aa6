"""Batch norms whose weights and statistics are inputs, against the program before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes import fold_norms as passes
from migraphx.passes.fold_norms import fold_norms
from tests.passes.checking import checked, program_of

RNG = np.random.default_rng(3)
STATISTICS = ("gamma", "beta", "mean", "variance")


def normed(b: Builder, y: Instruction, gamma: Instruction, beta: Instruction, mean: Instruction, variance: Instruction):
    """A batch norm in float of narrow floats, as a convolution's result goes through it: a scale and an offset."""
    small = (y.shape.lens[1], *(1,) * (y.shape.ndim - 2))
    gamma, beta, mean, variance = (b.convert(b.reshape(v, dims=small), target_type="float")
                                   for v in (gamma, beta, mean, variance))  # fmt: skip
    scale = b.mul(gamma, b.rsqrt(b.add(variance, b.full(1e-5, variance))))
    offset = b.sub(beta, b.mul(mean, scale))
    wide = lambda v: b.multibroadcast(v, out_lens=y.shape.lens)  # noqa: E731
    return b.convert(
        b.add(b.mul(b.convert(y, target_type="float"), wide(scale)), wide(offset)), target_type=y.shape.type
    )


def left(
    build: Callable[..., Instruction], type: str, x: Sequence[int], *weights: Sequence[int], rows: int = 1
) -> Counter[str]:
    """How often each operator is left of `build(b, x, *convolution and norm of each of the weights)`."""
    shapes = {"x": Shape(type, tuple(x))}
    for n, lens in enumerate(weights):
        shapes |= {f"w{n}": Shape(type, tuple(lens))}
        shapes |= {f"{name}{n}": Shape(type, (lens[0],)) for name in STATISTICS}
    numpy = {n: dtypes.to_numpy(s.type) for n, s in shapes.items()}
    given = {n: (np.abs(RNG.standard_normal(s.lens)) + 0.1).astype(numpy[n]) for n, s in shapes.items()}
    given["x"] -= given["x"].dtype.type(1)

    def body(b: Builder, x: Instruction, *rest: Instruction) -> Instruction:
        return build(b, x, *(rest[n : n + 5] for n in range(0, len(rest), 5)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "LEAST_ROWS", rows)
        return checked(program_of(body, **shapes), [fold_norms], given)


def one(b: Builder, x: Instruction, given: Sequence[Instruction], **how: int) -> Instruction:
    ones = (1,) * (x.shape.ndim - 2)
    y = b.convolution(x, given[0], padding=(0,) * len(ones), stride=ones, dilation=ones, **how)
    return normed(b, y, *given[1:])


@pytest.mark.parametrize("type", ["half", "bf16"])
@pytest.mark.parametrize("lens", [((2, 4, 5, 6), (3, 4, 3, 2)), ((1, 4, 9), (5, 4, 1))])
def test_weights_that_are_inputs_are_scaled(type: str, lens: tuple[Sequence[int], Sequence[int]]) -> None:
    """The result goes through no float: the only conversions are those of weights and statistics."""
    found = left(one, type, *lens)
    assert (found["convolution"], found["add"], found["convert"]) == (1, 2, 7)


def test_what_is_no_gain_stays() -> None:
    """Fewer rows than weights are worth; groups, whose weights are few."""
    few = left(one, "half", (2, 4, 5, 6), (3, 4, 3, 2), rows=1000)
    groups = left(lambda b, x, g: one(b, x, g, group=2), "half", (2, 4, 5, 6), (4, 2, 3, 2))
    of_float = left(one, "float", (2, 4, 5, 6), (3, 4, 3, 2))
    assert [f["convert"] for f in (few, groups)] == [6, 6] and of_float["mul"] == 3


def test_offsets_of_two_branches_meet() -> None:
    """So that one kernel may compute both convolutions."""

    def both(b: Builder, x: Instruction, first: Sequence[Instruction], second: Sequence[Instruction]) -> Instruction:
        return b.relu(b.add(one(b, x, first), one(b, x, second)))

    one_of_many = left(both, "half", (2, 4, 5, 6), (3, 4, 1, 1), (3, 4, 1, 1))
    assert one_of_many["convolution"] == 2 and one_of_many["add"] == 2 + 3  # in each norm; the sum, offsets, their sum


def test_weights_of_two_convolutions() -> None:
    """Of different steps, each scaled by its own norm."""

    def both(b: Builder, x: Instruction, first: Sequence[Instruction], second: Sequence[Instruction]) -> Instruction:
        w, ones = first[0], (1, 1)
        far = b.convolution(x, w, padding=(0, 0), stride=(2, 2), dilation=ones)
        near = b.convolution(x, w, padding=(0, 0), stride=ones, dilation=ones)
        sums = [b.reduce_sum(normed(b, y, *n[1:]), axes=(2, 3)) for y, n in ((far, first), (near, second))]
        return b.add(*sums)

    found = left(both, "half", (2, 4, 5, 6), (3, 4, 2, 2), (3, 4, 1, 1))
    assert found["convolution"] == 2 and found["convert"] == 2 * 7
