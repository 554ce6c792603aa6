"""Views: what cancels, what becomes a view, what stays."""

from typing import Any

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.fold_constants import fold_constants
from migraphx.passes.simplify_reshapes import groups, simplify_reshapes
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)


def const_array(*lens: int) -> np.ndarray:
    return rng.standard_normal(lens).astype(np.float32)


def const(b: Builder, *lens: int) -> Value:
    return b.literal(const_array(*lens))


def left_of(build, **parameters) -> dict[str, int]:
    """How often each operator is left; a `layout` only restores what an output promised."""
    left = checked(program_of(build, **parameters), [fold_constants, simplify_reshapes])
    return {name: n for name, n in left.items() if name != "layout"}


@pytest.mark.parametrize(
    ("lens", "dims", "want"),
    [
        ((2, 12, 5), (2, 3, 4, 5), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((6, 4), (4, 6), [([0, 1], [0, 1])]),
        ((2, 1, 3), (6,), [([0, 1, 2], [0])]),
        ((4, 3), (2, 2, 3), [([0], [0, 1]), ([1], [2])]),
        ((0, 3), (3, 0), None),
    ],
)
def test_groups(lens, dims, want):
    assert groups(lens, dims) == want


@pytest.mark.parametrize("seed", range(20))
def test_groups_hold_the_same_elements(seed: int):
    random = np.random.default_rng(seed)
    lens, dims = ([int(n) for n in random.permutation([1, 1, 2, 2, 3])] for _ in range(2))
    dims = [*dims[:2], int(np.prod(dims[2:]))]
    found = groups(lens, dims)
    assert found is not None
    assert [d for mine, _ in found for d in mine] == list(range(5))
    assert [d for _, theirs in found for d in theirs] == list(range(3))
    for mine, theirs in found:
        assert np.prod([lens[d] for d in mine]) == np.prod([dims[d] for d in theirs])


def test_what_does_nothing_goes():
    def build(b: Builder, x: Value) -> Value:
        x = b.contiguous(b.identity(x))
        x = b.reshape(b.flatten(x, axis=1), dims=(2, 3, 4))
        x = b.transpose(b.transpose(x, permutation=(2, 0, 1)), permutation=(1, 2, 0))
        x = b.squeeze(b.unsqueeze(x, axes=(1,)), axes=(1,))
        x = b.slice(x, axes=(0, 2), starts=(0, 0), ends=(2, 4))
        x = b.multibroadcast(x, out_lens=(2, 3, 4))
        x = b.reduce_mean(b.pad(b.reshape(x, dims=(2, 3, 4, 1)), pads=(0,) * 8), axes=(3,))
        return b.concat(b.squeeze(x, axes=(3,)), axis=1)

    assert left_of(build, x=(2, 3, 4)) == {}


def test_slices_and_concats():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        joined = b.concat(x, b.concat(y, x, axis=1), axis=1)
        twice = b.slice(b.slice(x, axes=(1,), starts=(1,), ends=(4,)), axes=(1,), starts=(1,), ends=(-1,))
        whole = b.concat(*(b.slice(x, axes=(1,), starts=(k,), ends=(k + 2,)) for k in (0, 2)), axis=1)
        return [b.slice(joined, axes=(1,), starts=(4,), ends=(7,)), twice, whole]

    assert left_of(build, x=(2, 4), y=(2, 3)) == {"slice": 1}


def test_a_slice_that_cuts_two_inputs_stays():
    def build(b: Builder, x: Value, y: Value) -> Value:
        return b.slice(b.concat(x, y, axis=0), axes=(0,), starts=(1,), ends=(4,))

    assert left_of(build, x=(2, 3), y=(3, 3)) == {"concat": 1, "slice": 1}


@pytest.mark.parametrize("index", [2, -1])
def test_gather_of_one_index(index: int):
    def build(b: Builder, x: Value) -> list[Value]:
        one, number = b.literal(np.array([index])), b.literal(np.array(index))
        return [b.relu(b.gather(x, one, axis=1)), b.relu(b.gather(x, number, axis=1))]

    left = left_of(build, x=(2, 4, 3))
    assert not left.get("gather") and left["slice"] == 2


@pytest.mark.parametrize(
    ("indices", "left"),
    [([1, 2, 3], "slice"), ([[0, 1], [2, 3]], "reshape"), ([-2, -1], "slice"), ([-1, 0], "gather"), ([2, 1], "gather")],
)
def test_gather_of_a_range(indices: list, left: str):
    def build(b: Builder, x: Value) -> Value:
        return b.relu(b.gather(x, b.literal(np.array(indices)), axis=1))

    assert left_of(build, x=(2, 4, 3)) == {left: 1, "relu": 1}


@pytest.mark.parametrize("axis", [0, 1])
def test_indices_that_are_broadcast_are_looked_up_once(axis: int):
    """Those of a constant then are a constant."""

    def build(b: Builder, x: Value, i: Value) -> list[Value]:
        known = b.multibroadcast(b.literal(np.array(1)), out_lens=(4, 3))
        return [
            b.relu(b.gather(x, b.broadcast_to(i, (4, 3)), axis=axis)),
            b.relu(b.gather(const(b, 3, 3), known, axis=axis)),
        ]

    program = program_of(build, x=(5, 6), i=Shape("int64", (3,)))
    left = checked(
        program, [fold_constants, simplify_reshapes, fold_constants], {"x": const_array(5, 6), "i": np.array([2, 0, 4])}
    )
    assert left["gather"] == 1
    assert next(i for i in program.main if i.name == "gather").shape.elements == {0: 3 * 6, 1: 5 * 3}[axis]


def test_an_index_out_of_range_is_left_to_the_operator():
    program = program_of(lambda b, x: b.gather(x, b.literal(np.array([9])), axis=1), x=(2, 4))
    simplify_reshapes(program.main)
    assert any(i.name == "gather" for i in program.main)


def test_reshapes_of_permuted_values_are_views():
    def build(b: Builder, x: Value) -> Value:
        last = b.layout(x, permutation=(0, 2, 3, 1))
        return b.neg(b.reshape(last, dims=(2, 8, 6, 1)))

    program = program_of(build, x=(2, 8, 3, 2))
    checked(program, [simplify_reshapes])
    reshape = next(i for i in program.main if i.name == "reshape")
    assert reshape.inputs[0].shape.standard


def test_a_reshape_that_must_copy_stays():
    def build(b: Builder, x: Value) -> Value:
        return b.reshape(b.transpose(x, permutation=(1, 0)), dims=(12,))

    assert left_of(build, x=(3, 4)) == {"transpose": 1, "reshape": 1}


def test_padding_goes_into_the_convolution():
    def build(b: Builder, x: Value) -> Value:
        return b.convolution(b.pad(x, pads=(0, 0, 0, 1, 0, 0, 1, 2)), const(b, 2, 3, 3, 3), padding=(1, 0))

    program = program_of(build, x=(1, 3, 6, 6))
    assert checked(program, [simplify_reshapes]) == {"convolution": 1}
    convolution = next(i for i in program.main if i.name == "convolution")
    assert convolution.op.attributes()["padding"] == (1, 1, 2, 2)


def test_padding_goes_into_maxima():
    """As TensorFlow's SAME is written; windows wholly in the padding, too."""
    for pads, padding in (((0, 0, 0, 1, 0, 0, 1, 2), (0, 1, 1, 2)), ((0, 0, 5, 0, 0, 0, 5, 0), (5, 0, 5, 0))):
        program = program_of(
            lambda b, x, p=pads: b.pooling(b.pad(x, pads=p, value=-np.inf), mode="max", lengths=(3, 2), stride=(2, 1)),
            x=(1, 3, 6, 6),
        )
        assert checked(program, [simplify_reshapes]) == {"pooling": 1}
        pooling = next(i for i in program.main if i.name == "pooling")
        assert pooling.op.attributes()["padding"] == padding


@pytest.mark.parametrize(
    ("padding", "pooling"),
    [
        ({"value": 0.0}, {}),
        ({"mode": "reflect"}, {}),
        ({"pads": (0, 1, 0, 0, 0, 0, 0, 0)}, {}),
        ({}, {"ceil_mode": True}),
        ({}, {"mode": "average"}),
        ({}, {"dyn_global": True}),
    ],
)
def test_padding_that_counts_stays(padding: dict, pooling: dict):
    pad: dict[str, Any] = {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": -np.inf} | padding
    pool: dict[str, Any] = {"mode": "max", "lengths": (2, 2), "stride": (2, 2)} | pooling
    assert left_of(lambda b, x: b.pooling(b.pad(x, **pad), **pool), x=(1, 3, 6, 6)) == {"pad": 1, "pooling": 1}


@pytest.mark.parametrize("change", [{"mode": "reflect"}, {"value": 1.0}, {"pads": (0, 1, 0, 0, 0, 0, 0, 0)}])
def test_other_padding_stays(change: dict):
    attributes: dict[str, Any] = {"pads": (0, 0, 1, 1, 0, 0, 1, 1)} | change
    channels = 4 if "pads" in change else 3

    def build(b: Builder, x: Value) -> Value:
        return b.convolution(b.pad(x, **attributes), const(b, 2, channels, 3, 3), padding=(0, 0))

    assert left_of(build, x=(1, 3, 6, 6)) == {"pad": 1, "convolution": 1}


def test_a_residual_joins_the_dot_behind_a_reshape():
    def build(b: Builder, x: Value, y: Value) -> Value:
        flat = b.dot(b.reshape(x, dims=(6, 4)), const(b, 4, 5))
        return b.relu(b.add(b.reshape(flat, dims=(3, 2, 5)), y))

    program = program_of(build, x=(2, 3, 4), y=(3, 2, 5))
    checked(program, [simplify_reshapes])
    add = next(i for i in program.main if i.name == "add")
    assert any(i.name == "dot" for i in add.inputs)


@pytest.mark.parametrize("tokens", [1, 2])
def test_a_slice_of_a_residual_joins_where_dimensions_of_one_move(tokens: int):
    """The first token of a residual stream, which lies in rows of all tokens; two of them would need a copy."""

    def build(b: Builder, x: Value, y: Value) -> Value:
        made = b.dot(x, b.broadcast_to(const(b, 4, 5), (1, 4, 5)))
        return b.relu(b.add(b.reshape(made, dims=(3, tokens, 5)), b.slice(y, axes=(1,), starts=(0,), ends=(tokens,))))

    program = program_of(build, x=(1, 3 * tokens, 4), y=(3, 7, 5))
    checked(program, [simplify_reshapes])
    add = next(i for i in program.main if i.name == "add")
    assert any(i.name == "dot" for i in add.inputs) == (tokens == 1)


def test_two_residuals_do_not_push_each_other_about():
    def build(b: Builder, x: Value, y: Value) -> Value:
        p = b.dot(b.reshape(x, dims=(4, 6)), const(b, 6, 6))
        q = b.dot(b.transpose(y, permutation=(1, 0, 2)), b.broadcast_to(const(b, 6, 6), (2, 6, 6)))
        return b.add(b.reshape(p, dims=(2, 12)), b.reshape(q, dims=(2, 12)))

    checked(program_of(build, x=(2, 2, 6), y=(2, 2, 6)), [simplify_reshapes])


def test_batches_of_products_are_not_merged():
    """What torch makes of `matmul`: `bmm` of copies, where keys come transposed."""

    def build(b: Builder, x: Value, y: Value) -> Value:
        q, k = (b.transpose(i, permutation=order) for i, order in ((x, (0, 2, 1, 3)), (y, (0, 2, 3, 1))))
        made = b.dot(b.reshape(q, dims=(6, 4, 5)), b.reshape(k, dims=(6, 5, 7)))
        return b.reshape(made, dims=(2, 3, 4, 7))

    assert left_of(build, x=(2, 4, 3, 5), y=(2, 7, 3, 5)) == {"transpose": 2, "dot": 1}


@pytest.mark.parametrize("batch", [(), (1,), (2,), (2, 3)])
def test_heads_that_are_mixed(batch: tuple[int, ...]):
    """Of CaiT: a product over the heads, before a softmax over the last dimension."""
    d = len(batch)
    there, back = (*range(d), d + 1, d + 2, d), (*range(d), d + 2, d, d + 1)

    def build(b: Builder, x: Value) -> Value:
        rows = b.transpose(x, permutation=there)
        mixed = b.dot(rows, b.broadcast_to(const(b, 4, 3), (*rows.shape.lens[:-2], 4, 3)))
        bias = b.broadcast_to(const(b, 3), mixed.shape.lens)
        return b.softmax(b.transpose(b.add(mixed, bias), permutation=back), axis=d + 2)

    left = left_of(build, x=(*batch, 4, 16, 17))
    assert left["dot"] == 1 and "transpose" not in left


def test_rows_that_are_short_or_many():
    for lens, columns in (((2, 4, 5, 6), 3), ((2, 12, 16, 17), 3), ((2, 4, 16, 17), 12)):

        def build(b: Builder, x: Value, n: int = columns) -> Value:
            rows = b.transpose(x, permutation=(0, 2, 3, 1))
            return b.dot(
                rows, b.broadcast_to(const(b, x.shape.lens[1], n), (*rows.shape.lens[:-2], x.shape.lens[1], n))
            )

        assert left_of(build, x=lens)["transpose"] == 1


def test_a_transposed_operand_that_was_merged():
    def build(b: Builder, x: Value, y: Value) -> Value:
        keys = b.transpose(b.reshape(y, dims=(6, 7, 5)), permutation=(0, 2, 1))
        return b.reshape(b.dot(b.reshape(x, dims=(6, 4, 5)), keys), dims=(2, 3, 4, 7))

    assert left_of(build, x=(2, 3, 4, 5), y=(2, 3, 7, 5)) == {"transpose": 1, "dot": 1}


def test_probabilities_of_merged_batches():
    def build(b: Builder, x: Value, y: Value) -> Value:
        rows = b.softmax(b.reshape(b.neg(x), dims=(6, 4, 5)), axis=2)
        values = b.reshape(b.transpose(y, permutation=(0, 2, 1, 3)), dims=(6, 5, 7))
        return b.reshape(b.dot(rows, values), dims=(2, 3, 4, 7))

    assert left_of(build, x=(2, 3, 4, 5), y=(2, 5, 3, 7)) == {"neg": 1, "softmax": 1, "transpose": 1, "dot": 1}


@pytest.mark.parametrize(("axis", "dims"), [(0, (6, 4, 5)), (1, (6, 4, 5)), (2, (6, 20, 1)), (-1, (2, 3, 20))])
def test_a_softmax_along_what_reshapes_change_stays(axis: int, dims: tuple[int, ...]):
    def build(b: Builder, x: Value) -> Value:
        return b.reshape(b.softmax(b.reshape(x, dims=dims), axis=axis), dims=(2, 3, 4, 5))

    assert left_of(build, x=(2, 3, 4, 5))["reshape"] == 2


def test_a_softmax_that_others_read_is_computed_once():
    def build(b: Builder, x: Value) -> list[Value]:
        rows = b.softmax(b.reshape(x, dims=(6, 4, 5)), axis=2)
        return [b.reshape(rows, dims=(2, 3, 4, 5)), b.neg(rows)]

    assert left_of(build, x=(2, 3, 4, 5))["softmax"] == 1


def test_dots_of_squeezed_slices_end():
    def reshaped(b: Builder, x: Value) -> list[Value]:
        last = b.slice(x, axes=(3,), starts=(7,), ends=(8,))
        return [b.dot(b.reshape(last, dims=(3, 9)), const(b, 9, 28))]

    def squeezed(b: Builder, x: Value) -> list[Value]:
        last = b.slice(x, axes=(3,), starts=(7,), ends=(8,))
        y = b.dot(b.reshape(b.squeeze(last, axes=(0, 3)), dims=(3, 9)), const(b, 9, 28))
        z = b.add(y, b.broadcast_to(const(b, 28), (3, 28)))
        return [b.reshape(z, dims=(1, 1, 3, 28))]

    for build in (reshaped, squeezed):
        assert left_of(build, x=(1, 3, 9, 8))["dot"] == 1


def test_a_reshape_moves_behind_all_that_reads_it():
    """silu(reshape(dot)): both readers of the reshape move, so that they can be the dot's epilogue."""

    def build(b: Builder, x: Value) -> Value:
        y = b.reshape(b.dot(x, b.literal(np.ones((4, 6), np.float32))), dims=(1, 3, 6))
        return b.mul(y, b.sigmoid(y))

    program = program_of(build, x=(3, 4))
    checked(program, [simplify_reshapes])
    assert [i.name for i in program.main if i.inputs] == ["dot", "sigmoid", "mul", "reshape", "@return"]


def test_moves_and_reductions_of_nothing_go():
    """All reductions over dimensions of length 1, and all that gives x's lens."""

    def build(b: Builder, x: Value) -> Value:
        x = b.step(x, axes=(1,), steps=(1,))
        x = b.unsqueeze(x, axes=())
        seen = b.isnan(x)
        for name in ("reduce_any", "reduce_all"):
            seen = b.instruction(name, [seen], axes=(0,))
        for name in ("sum", "mean", "max", "min", "prod"):
            x = b.instruction(f"reduce_{name}", [x], axes=(0,))
        return b.where(seen, x, x)

    assert left_of(build, x=(1, 3)) == {"isnan": 1, "where": 1}


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (2, 0, 1, 3), (0, 2, 1, 3)])
def test_rows_change_places_behind_a_product(order: tuple[int, ...]):
    """What torch's attention does, which wants the sequence first; there and back is nothing."""
    back = [order.index(d) for d in range(4)]

    def build(b: Builder, x: Value) -> Value:
        rows = b.transpose(x, permutation=order)
        weights = b.broadcast_to(const(b, 5, 6), (*rows.shape.lens[:2], 5, 6))
        return b.transpose(b.relu(b.dot(rows, weights)), permutation=back)

    assert left_of(build, x=(2, 3, 4, 5)) == {"dot": 1, "relu": 1, "multibroadcast": 1}
