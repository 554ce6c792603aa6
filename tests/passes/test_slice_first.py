"""Rows that nobody reads are not computed."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.pipeline import SIMPLIFY
from migraphx.passes.slice_first import slice_first
from tests.passes.checking import checked, program_of

rng = np.random.default_rng(0)


def const(b: Builder, *lens: int) -> Instruction:
    return b.literal((rng.standard_normal(lens) / 4).astype(np.float32))


def norm(b: Builder, x: Instruction) -> Instruction:
    lens = x.shape.lens
    apart = b.sub(x, b.broadcast_to(b.reduce_mean(x, axes=(2,)), lens))
    spread = b.reduce_mean(b.mul(apart, apart), axes=(2,))
    return b.add(b.mul(apart, b.broadcast_to(b.rsqrt(b.add(spread, b.full(0.1, spread))), lens)), const(b, *lens))


def layer(b: Builder, x: Instruction) -> Instruction:
    """Of a transformer: x {batch, tokens, 8}, two heads."""
    batch, tokens, width = x.shape.lens
    y = norm(b, x)
    q, k, v = (
        b.transpose(
            b.reshape(b.dot(y, b.broadcast_to(const(b, width, width), (batch, width, width))),
                      dims=(batch, tokens, 2, width // 2)),
            permutation=(0, 2, 1, 3))
        for _ in range(3)
    )  # fmt: skip
    mixed = b.dot(b.softmax(b.dot(q, b.transpose(k, permutation=(0, 1, 3, 2))), axis=3), v)
    mixed = b.reshape(b.transpose(mixed, permutation=(0, 2, 1, 3)), dims=(batch, tokens, width))
    x = b.add(x, b.dot(mixed, b.broadcast_to(const(b, width, width), (batch, width, width))))
    return b.add(x, b.relu(b.dot(norm(b, x), b.broadcast_to(const(b, width, width), (batch, width, width)))))


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (4, 7), (6, 7)])
def test_the_last_layer_is_computed_for_the_tokens_that_are_read(start: int, stop: int):
    """Keys and values are of all tokens."""

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.slice(norm(b, layer(b, layer(b, x))), axes=(1,), starts=(start,), ends=(stop,))

    program = program_of(build, x=(2, 7, 8))
    checked(program, SIMPLIFY)
    rows = [i.shape.lens[1] for i in program.main if i.name == "dot" and i.shape.ndim == 3]
    assert rows == [7] * 5 + [stop - start, 7, 7, stop - start, stop - start]  # keys and values of the last layer


def heads_of_one_product(b: Builder, x: Instruction, turned: bool) -> Instruction:
    """Attention of two heads whose queries, keys and values one product makes; the result for the first query.

    `turned`: tokens come first, as torch has them.
    """
    batch, tokens, width = x.shape.lens
    x = b.transpose(x, permutation=(1, 0, 2)) if turned else x
    weights = b.broadcast_to(const(b, width, 20), (x.shape.lens[0], width, 20))
    wide = b.add(b.dot(x, weights), b.broadcast_to(const(b, 20), (*x.shape.lens[:2], 20)))
    parts = [b.slice(wide, axes=(2,), starts=(s,), ends=(e,)) for s, e in ((0, 8), (8, 16), (16, 20))]
    order = (1, 2, 0, 3) if turned else (0, 2, 1, 3)
    q, k, v = (b.transpose(b.reshape(p, dims=(*p.shape.lens[:2], 2, -1)), permutation=order) for p in parts)
    mixed = b.dot(b.softmax(b.dot(q, b.transpose(k, permutation=(0, 1, 3, 2))), axis=3), v)
    mixed = b.reshape(b.transpose(mixed, permutation=(0, 2, 1, 3)), dims=(batch, tokens, 4))
    return b.slice(mixed, axes=(1,), starts=(0,), ends=(1,))


@pytest.mark.parametrize("turned", [False, True])
def test_queries_of_a_product_that_makes_keys_too(turned: bool):
    program = program_of(lambda b, x: heads_of_one_product(b, x, turned), x=(3, 7, 8))
    checked(program, SIMPLIFY)
    made = [i.shape.lens for i in program.main if i.name == "dot" and i.shape.ndim == 3]
    assert sorted((rows * more, columns) for rows, more, columns in made) == [(3 * 1, 8), (3 * 7, 4), (3 * 7, 8)]


def test_queries_of_heads_that_are_taken_apart_first():
    """As timm has it: {batch, tokens, 3 * heads * width} is seen as {3, batch, heads, tokens, width}."""

    def build(b: Builder, x: Instruction) -> Instruction:
        wide = b.dot(x, b.broadcast_to(const(b, 8, 24), (3, 8, 24)))
        wide = b.transpose(b.reshape(wide, dims=(3, 7, 3, 2, 4)), permutation=(2, 0, 3, 1, 4))
        q, k, v = (b.squeeze(b.slice(wide, axes=(0,), starts=(n,), ends=(n + 1,)), axes=(0,)) for n in range(3))
        mixed = b.dot(b.softmax(b.dot(q, b.transpose(k, permutation=(0, 1, 3, 2))), axis=3), v)
        mixed = b.reshape(b.transpose(mixed, permutation=(0, 2, 1, 3)), dims=(3, 7, 8))
        return b.slice(mixed, axes=(1,), starts=(6,), ends=(7,))

    program = program_of(build, x=(3, 7, 8))
    checked(program, SIMPLIFY)
    made = [i.shape.lens for i in program.main if i.name == "dot" and i.shape.ndim == 3]
    assert sorted((rows * more, columns) for rows, more, columns in made) == [(3 * 1, 8), (3 * 7, 8), (3 * 7, 8)]


def test_a_product_of_one_column_that_becomes_a_vector():
    def build(b: Builder, x: Instruction) -> list[Instruction]:
        column = b.squeeze(b.dot(x, const(b, 8, 1)), axes=(1,))
        return [b.slice(b.relu(b.dot(x, const(b, 8, 4))), axes=(0,), starts=(0,), ends=(1,)), b.neg(column)]

    program = program_of(build, x=(6, 8))
    checked(program, [slice_first])
    assert sorted(i.shape.lens for i in program.main if i.name == "dot") == [(1, 4), (6, 1)]


@pytest.mark.parametrize("case", ["few queries", "read elsewhere", "overlapping", "most queries", "other rows"])
def test_a_product_of_which_more_is_read_stays_one(case: str):
    """Beside another one, of which one row is read."""

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        y = b.dot(x, b.broadcast_to(const(b, 4, 6), (2, 4, 6)))
        few = b.slice(y, axes=(2,), starts=(0,), ends=(4 if case == "overlapping" else 3,))
        rest = b.slice(y, axes=(2,), starts=(3,), ends=(6,))
        stop = 4 if case == "most queries" else 2
        made = [b.relu(b.slice(b.neg(few), axes=(1,), starts=(0,), ends=(stop,))), b.neg(rest)]
        if case == "read elsewhere":
            made.append(b.reduce_max(y, axes=(1,)))
        if case == "other rows":
            made.append(b.slice(b.relu(few), axes=(1,), starts=(2,), ends=(4,)))
        other = b.relu(b.dot(x, b.broadcast_to(const(b, 4, 5), (2, 4, 5))))
        return [*made, b.slice(other, axes=(1,), starts=(0,), ends=(1,))]

    program = program_of(build, x=(2, 6, 4))
    checked(program, [slice_first])
    kept = [(2, 2, 3), (2, 6, 3)] if case == "few queries" else [(2, 6, 6)]
    assert [i.shape.lens for i in program.main if i.name == "dot"] == [*kept, (2, 1, 5)]


def test_columns_and_batches():
    def columns(b: Builder, x: Instruction) -> Instruction:
        return b.slice(b.relu(b.dot(x, const(b, 8, 12))), axes=(1,), starts=(2,), ends=(5,))

    def batches(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.slice(b.tanh(b.dot(x, y)), axes=(0,), starts=(1,), ends=(2,))

    for build, parameters, lens in (
        (columns, {"x": (4, 8)}, (4, 3)),
        (batches, {"x": (3, 4, 8), "y": (3, 8, 2)}, (1, 4, 2)),
    ):
        program = program_of(build, **parameters)
        checked(program, SIMPLIFY)
        assert [i.shape.lens for i in program.main if i.name == "dot"] == [lens]


def test_constant_indices():
    """Of relative positions those that there are; of rows those that are picked, one of them twice."""
    relative = 20 + np.arange(4)[:, None] - np.arange(4)

    def positions(b: Builder, x: Instruction) -> Instruction:
        places = b.multibroadcast(b.literal(relative), out_lens=(2, 4, 4))
        return b.gather_elements(b.relu(b.dot(x, const(b, 2, 8, 40))), places, axis=2)

    def rows(b: Builder, x: Instruction) -> Instruction:
        return b.gather(b.dot(x, const(b, 2, 8, 3)), b.literal(np.array([[2, 1], [2, 2]])), axis=-2)

    for build, lens, kept in ((positions, (2, 4, 8), (2, 4, 7)), (rows, (2, 9, 8), (2, 2, 3))):
        program = program_of(build, x=lens)
        checked(program, SIMPLIFY)
        assert [i.shape.lens for i in program.main if i.name == "dot"] == [kept]


@pytest.mark.parametrize("indices", [[-1, 2], [0, 8], [3, 9]])
def test_indices_that_are_no_few_rows(indices: list[int]):
    """From the end, far apart, and out of range, which stays an error."""

    def build(b: Builder, x: Instruction) -> Instruction:
        return b.gather(b.dot(x, const(b, 8, 3)), b.literal(np.array(indices)), axis=0)

    program = program_of(build, x=(9, 8))
    before = str(program.main)
    slice_first(program.main)
    assert str(program.main) == before


@pytest.mark.parametrize(
    "case", ["read elsewhere", "returned", "most rows", "summed rows", "other rows", "no product", "softmax"]
)
def test_what_is_read_whole_is_computed_whole(case: str):
    def build(b: Builder, x: Instruction) -> list[Instruction]:
        y = b.relu(x) if case == "no product" else b.relu(b.dot(x, b.broadcast_to(const(b, 4, 4), (2, 4, 4))))
        if case == "summed rows":
            y = b.add(y, b.broadcast_to(b.reduce_sum(y, axes=(1,)), y.shape.lens))
        if case == "softmax":
            y = b.softmax(y, axis=1)
        made = [b.neg(b.slice(y, axes=(1,), starts=(0,), ends=(4 if case == "most rows" else 2,)))]
        if case == "read elsewhere":
            made.append(b.reduce_max(y, axes=(1,)))
        if case == "returned":
            made.append(y)
        if case == "other rows":
            made.append(b.neg(b.slice(y, axes=(1,), starts=(2,), ends=(4,))))
        return made

    program = program_of(build, x=(2, 6, 4))
    before = str(program.main)
    checked(program, [slice_first])
    whole = [i for i in program.main if i.name == ("relu" if case == "no product" else "dot")]
    assert [i.shape.lens[1] for i in whole] == [6]
    if case not in ("summed rows", "softmax"):
        assert str(program.main) == before
