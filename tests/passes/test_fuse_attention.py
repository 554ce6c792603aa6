"""Attention in the ways that people write it, and what must stay apart."""

import math

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.ir.shape import Shape
from migraphx.passes.fuse_attention import fuse_attention, fuse_attention_but_of
from migraphx.passes.pipeline import SIMPLIFY
from tests.passes.checking import checked, program_of

Value = Instruction
SIZES = {"q": (2, 4, 5, 8), "k": (2, 4, 7, 8), "v": (2, 4, 7, 6)}
SQUARE = {"q": (2, 4, 6, 8), "k": (2, 4, 6, 8), "v": (2, 4, 6, 8)}
LOWEST = float(np.finfo(np.float32).min)


def turned(b: Builder, x: Value) -> Value:
    order = list(range(x.shape.ndim))
    return b.transpose(x, permutation=[*order[:-2], order[-1], order[-2]])


def times(b: Builder, x: Value, number: float) -> Value:
    return b.mul(x, b.full(number, x))


def finish(b: Builder, scores: Value, v: Value) -> Value:
    return b.dot(b.softmax(scores, axis=scores.shape.ndim - 1), v)


def attention_of(program: Program) -> Instruction:
    found = [i for i in program.main if i.name == "attention"]
    assert len(found) == 1
    return found[0]


def fused(program: Program, **arguments: np.ndarray) -> Instruction:
    """The attention that the program becomes; every other product is gone."""
    left = checked(program, [*SIMPLIFY, fuse_attention, *SIMPLIFY], arguments or None)
    assert not left["dot"] and not left["softmax"]
    return attention_of(program)


@pytest.mark.parametrize("where", ["scores", "scores divided", "q", "k", "both"])
def test_scale(where: str):
    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        if where in ("q", "both"):
            q = times(b, q, 0.5)
        if where in ("k", "both"):
            k = times(b, k, 0.5)
        scores = b.dot(q, turned(b, k))
        if where == "scores":
            scores = times(b, scores, 0.5)
        if where == "scores divided":
            scores = b.div(scores, b.full(2.0, scores))
        return finish(b, scores, v)

    found = fused(program_of(build, **SIZES))
    assert found.op.attributes()["scale"] == (0.25 if where == "both" else 0.5)
    assert [i.name for i in found.inputs] == ["@param"] * 3


@pytest.mark.parametrize("lens", [(4, 1, 1), (1, 4, 1, 1), (2, 1, 1, 1), (2, 4, 1, 1), (1,), (1, 1, 1)])
@pytest.mark.parametrize("constant", [False, True])
def test_scale_of_each_head(lens: tuple[int, ...], constant: bool):
    """As of cosines, whose temperature is learnt: it multiplies the queries."""
    number = np.random.default_rng(0).standard_normal(lens).astype(np.float32)

    def build(b: Builder, q: Value, k: Value, v: Value, scale: Value, mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        one = b.literal(number) if constant else scale
        scores = b.mul(b.broadcast_to(one, scores.shape.lens), scores)
        return finish(b, b.add(scores, b.broadcast_to(mask, scores.shape.lens)), v)

    fused(program_of(build, **SIZES, scale=lens, mask=(4, 5, 7)))


@pytest.mark.parametrize("lens", [(5, 1), (1, 7), (5, 7)])
def test_a_scale_of_each_query_or_key_stays(lens: tuple[int, ...]):
    def build(b: Builder, q: Value, k: Value, v: Value, scale: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        return finish(b, b.mul(scores, b.broadcast_to(scale, scores.shape.lens)), v)

    left = checked(program_of(build, **SIZES, scale=lens), [*SIMPLIFY, fuse_attention])
    assert left["dot"] == 2 and not left["attention"]


WINDOWS = {"q": (2, 3, 4, 5, 8), "k": (2, 3, 4, 7, 8), "v": (2, 3, 4, 7, 6)}


@pytest.mark.parametrize(
    ("lens", "copies"),
    [((), 0), ((4, 5, 7), 0), ((1, 1, 1, 1, 7), 0), ((2, 3, 1, 5, 7), 0), ((2, 3, 4, 5, 7), 0), ((3, 1, 5, 7), 1)],
)
def test_windows_before_heads(lens: tuple[int, ...], copies: int):
    """A mask is copied only where it is repeated for one of the dimensions before heads, and not for another."""

    def build(b: Builder, q: Value, k: Value, v: Value, *mask: Value) -> Value:
        scores = times(b, b.dot(q, turned(b, k)), 0.5)
        if mask:
            scores = b.add(scores, b.broadcast_to(mask[0], scores.shape.lens))
        return finish(b, scores, v)

    found = fused(program_of(build, **WINDOWS, **({"mask": lens} if lens else {})))
    assert [i.shape.ndim for i in found.inputs] == [4] * (4 if lens else 3) and found.op.attributes()["scale"] == 0.5
    if lens:
        assert (found.inputs[3].name == "reshape" and found.inputs[3].inputs[0].name == "multibroadcast") == copies


def test_chosen_and_causal_masks_of_windows():
    lens = dict.fromkeys(WINDOWS, (2, 3, 4, 6, 8))

    def build(b: Builder, q: Value, k: Value, v: Value, keep: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        for one in (keep, b.literal(np.tri(6, dtype=bool))):
            scores = b.where(b.broadcast_to(one, scores.shape.lens), scores, b.full(-np.inf, scores))
        return finish(b, scores, v)

    keep = np.random.default_rng(0).random((2, 3, 1, 1, 6)) < 0.7
    keep[..., 0] = True
    program = program_of(build, **lens, keep=Shape("bool", keep.shape))
    rng = np.random.default_rng(0)
    found = fused(program, **{n: rng.standard_normal(m).astype(np.float32) for n, m in lens.items()}, keep=keep)
    assert found.op.attributes()["causal"] and found.inputs[3].shape.type == "bool"


@pytest.mark.parametrize("type", ["float", "double"])
def test_types_that_a_target_sums_in_narrower_ones_stay_products(type: str):
    program = Program()
    b = Builder(program.main)
    q, k, v = (program.main.add_parameter(n, Shape(type, lens)) for n, lens in SIZES.items())
    program.main.add_return([finish(b, b.dot(q, turned(b, k)), v)])
    fuse_attention_but_of("double")(program.main)
    assert [i.name for i in program.main if i.name in ("attention", "dot")] == (
        ["attention"] if type == "float" else ["dot", "dot"]
    )


def test_added_mask():
    def build(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        scores = times(b, b.dot(q, turned(b, k)), 0.25)
        return finish(b, b.add(scores, b.multibroadcast(mask, out_lens=scores.shape.lens)), v)

    found = fused(program_of(build, **SIZES, mask=(2, 1, 1, 7)))
    assert found.inputs[3].name == "multibroadcast"


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("low", [-math.inf, LOWEST, -1e4])
def test_chosen_mask(inverted: bool, low: float):
    def build(b: Builder, q: Value, k: Value, v: Value, keep: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        pair = [scores, b.full(low, scores)]
        condition = b.multibroadcast(keep, out_lens=scores.shape.lens)
        return finish(b, b.where(condition, *(pair[::-1] if inverted else pair)), v)

    keep = np.array([[[[1, 1, 0, 1, 0, 0, 1]]], [[[0, 1, 1, 1, 1, 1, 0]]]], bool)
    program = program_of(build, **SIZES, keep=Shape("bool", keep.shape))
    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SIZES.items()}
    found = fused(program, **values, keep=keep)
    assert found.inputs[3].shape.type == ("bool" if low == -math.inf else "float")


@pytest.mark.parametrize("form", ["chosen", "added", "added with lowest"])
def test_causal(form: str):
    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        tri = np.tri(6, dtype=bool)
        if form == "chosen":
            keep = b.multibroadcast(b.literal(tri), out_lens=scores.shape.lens)
            return finish(b, b.where(keep, scores, b.full(LOWEST, scores)), v)
        low = -np.inf if form == "added" else LOWEST
        mask = b.literal(np.where(tri, 0, low).astype(np.float32).reshape(1, 1, 6, 6))
        return finish(b, b.add(scores, b.multibroadcast(mask, out_lens=scores.shape.lens)), v)

    found = fused(program_of(build, **SQUARE))
    assert found.op.attributes()["causal"] and len(found.inputs) == 3


@pytest.mark.parametrize("form", ["chosen", "added", "of each text", "of a window"])
def test_a_causal_mask_that_is_computed_from_positions(form: str):
    """As models compute it: too large for a literal."""
    n, texts = 1100, 2 if form == "of each text" else 1

    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        square = (texts, 1, n, n)
        own = np.array([np.arange(n)] * texts)
        row, col = (b.broadcast_to(b.literal(own.reshape(texts, 1, *lens)), square) for lens in ((n, 1), (1, n)))
        keep = b.logical_or(b.less(col, row), b.equal(col, row))
        if form == "of a window":
            keep = b.logical_and(keep, b.less(row, b.add(col, b.full(n - 1, col))))
        if form == "added":
            zero = b.full(0.0, b.cast(keep, "float"))
            mask = b.where(keep, zero, b.full(-math.inf, zero))
            return finish(b, b.add(scores, b.broadcast_to(mask, scores.shape.lens)), v)
        return finish(b, b.where(b.broadcast_to(keep, scores.shape.lens), scores, b.full(-math.inf, scores)), v)

    found = fused(program_of(build, q=(texts, 2, n, 4), k=(texts, 2, n, 4), v=(texts, 2, n, 4)))
    assert found.op.attributes()["causal"] == (form != "of a window")
    assert len(found.inputs) == (4 if form == "of a window" else 3)


def test_a_mask_that_is_almost_causal_stays_a_mask():
    tri = np.tri(6, dtype=bool)
    tri[2, 4] = True

    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        keep = b.multibroadcast(b.literal(tri), out_lens=scores.shape.lens)
        return finish(b, b.where(keep, scores, b.full(-math.inf, scores)), v)

    found = fused(program_of(build, **SQUARE))
    assert not found.op.attributes()["causal"] and len(found.inputs) == 4


def test_a_mask_that_keeps_everything_goes():
    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        zeros = b.literal(np.zeros((1, 1, 5, 7), np.float32))
        return finish(b, b.add(scores, b.multibroadcast(zeros, out_lens=scores.shape.lens)), v)

    assert len(fused(program_of(build, **SIZES)).inputs) == 3


def test_two_masks():
    def build(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        keep = b.multibroadcast(b.literal(np.arange(7) % 3 < 2), out_lens=scores.shape.lens)
        scores = b.where(keep, scores, b.full(LOWEST, scores))
        return finish(b, b.add(scores, b.multibroadcast(mask, out_lens=scores.shape.lens)), v)

    assert len(fused(program_of(build, **SIZES, mask=(2, 1, 5, 7))).inputs) == 4


def test_rank_3():
    def build(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        return finish(b, b.add(scores, b.multibroadcast(mask, out_lens=scores.shape.lens)), v)

    found = fused(program_of(build, q=(4, 5, 8), k=(4, 7, 8), v=(4, 7, 6), mask=(5, 7)))
    assert found.shape.lens == (1, 4, 5, 6)


def test_grouped_queries():
    def repeated(b: Builder, x: Value) -> Value:
        n, h, length, d = x.shape.lens
        wide = b.multibroadcast(b.unsqueeze(x, axes=(2,)), out_lens=(n, h, 3, length, d))
        return b.reshape(wide, dims=(n, h * 3, length, d))

    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return finish(b, b.dot(q, turned(b, repeated(b, k))), repeated(b, v))

    found = fused(program_of(build, q=(2, 6, 5, 8), k=(2, 2, 7, 8), v=(2, 2, 7, 8)))
    assert [i.name for i in found.inputs] == ["@param"] * 3


def test_softmax_in_float():
    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.cast(b.dot(q, turned(b, k)), "float")
        return b.dot(b.cast(b.softmax(scores, axis=3), "half"), v)

    found = fused(program_of(build, **{n: Shape("half", lens) for n, lens in SIZES.items()}))
    assert found.shape.type == "half"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_the_composite(causal: bool, mask: str):
    def build(b: Builder, q: Value, k: Value, v: Value, *mask: Value) -> Value:
        return b.scaled_dot_product_attention(q, k, v, *mask, is_causal=causal)

    rng = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SQUARE.items()}
    parameters: dict = dict(SQUARE)
    if mask != "none":
        keep = rng.random((2, 1, 6, 6)) < 0.6
        keep[0, 0, 3] = False  # a row that sees nothing
        keep[..., 0] |= keep.any(-1) & causal
        values["mask"] = keep if mask == "bool" else np.where(keep, 0, -np.inf).astype(np.float32)
        parameters["mask"] = Shape(mask, keep.shape)
    program = program_of(build, **parameters)
    found = fused(program, **values)
    assert program.main.outputs[0].inputs[0] is found  # nothing but the output's layout behind it
    assert found.op.attributes()["causal"] == causal


def test_what_stays_apart():
    def shown(b: Builder, q: Value, k: Value, v: Value) -> list[Value]:
        weights = b.softmax(b.dot(q, turned(b, k)), axis=3)
        return [b.dot(weights, v), weights]

    def other_axis(b: Builder, q: Value, k: Value, v: Value) -> Value:
        return b.dot(b.softmax(b.dot(q, turned(b, k)), axis=2), v)

    def scaled_mask(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        return finish(b, times(b, b.add(b.dot(q, turned(b, k)), mask), 0.5), v)

    def inverse(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        return finish(b, b.div(b.full(2.0, scores), scores), v)

    def divided_by_zero(b: Builder, q: Value, k: Value, v: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        return finish(b, b.div(scores, b.full(0.0, scores)), v)

    for build in (shown, other_axis, scaled_mask, inverse, divided_by_zero):
        mask = {"mask": (2, 4, 5, 7)} if build is scaled_mask else {}
        left = checked(program_of(build, **SIZES, **mask), [*SIMPLIFY, fuse_attention])
        assert left["dot"] == 2 and not left["attention"]


def test_guard_against_nan():
    def build(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        weights = b.softmax(b.add(scores, b.multibroadcast(mask, out_lens=scores.shape.lens)), axis=3)
        return b.dot(b.where(b.isnan(weights), b.full(0.0, weights), weights), v)

    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SIZES.items()}
    mask = np.zeros((1, 1, 5, 7), np.float32)
    mask[0, 0, 2] = -np.inf
    fused(program_of(build, **SIZES, mask=mask.shape), **values, mask=mask)


def empty_rows(*lens: int) -> np.ndarray:
    """A bool mask with a row that keeps nothing, one that keeps one key, and others."""
    keep = np.random.default_rng(3).random(lens) < 0.5
    keep[..., 1, :] = False
    keep[..., 3, :] = np.arange(lens[-1]) == 4
    return keep


@pytest.mark.parametrize("form", ["added -inf", "added lowest", "chosen -inf", "chosen lowest", "chosen -1e4", "two"])
def test_queries_that_see_no_key_get_what_softmax_gives(form: str):
    low = {"-inf": -math.inf, "lowest": LOWEST, "-1e4": -1e4, "two": -1e4}[form.split()[-1]]

    def build(b: Builder, q: Value, k: Value, v: Value, keep: Value, float_mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        keep, float_mask = (b.multibroadcast(m, out_lens=scores.shape.lens) for m in (keep, float_mask))
        if form.startswith("added"):
            return finish(b, b.add(scores, float_mask), v)
        if form == "two":
            scores = b.where(b.instruction("not", [keep]), b.full(low, scores), scores)
        return finish(b, b.where(keep, scores, b.full(low, scores)), v)

    keep = empty_rows(2, 1, 5, 7)
    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SIZES.items()}
    float_mask = np.where(keep, 0, low).astype(np.float32)
    program = program_of(build, **SIZES, keep=Shape("bool", keep.shape), float_mask=float_mask.shape)
    fused(program, **values, keep=keep, float_mask=float_mask)


@pytest.mark.parametrize("outer", ["float", "bool"])
def test_masks_whose_order_matters_stay_apart(outer: str):
    def build(b: Builder, q: Value, k: Value, v: Value, keep: Value, other: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        keep, other = (b.multibroadcast(m, out_lens=scores.shape.lens) for m in (keep, other))
        scores = b.where(keep, scores, b.full(-1e4 if outer == "float" else -math.inf, scores))
        scores = b.add(scores, other) if outer == "float" else b.where(other, scores, b.full(LOWEST, scores))
        return finish(b, scores, v)

    keep = empty_rows(2, 1, 5, 7)
    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SIZES.items()}
    values["other"] = keep[:, :, ::-1] if outer == "bool" else rng.standard_normal(keep.shape).astype(np.float32)
    lens = {n: Shape("bool", keep.shape) for n in ("keep", "other")} | {"other": Shape(outer, keep.shape)}
    left = checked(program_of(build, **SIZES, **lens), [*SIMPLIFY, fuse_attention], values | {"keep": keep})
    assert left["dot"] == 2 and not left["attention"]


def test_causal_beside_another_mask_is_exact():
    """The first query may see one key only, which the other mask takes away: softmax falls back on all."""

    def build(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
        scores = b.dot(q, turned(b, k))
        causal = b.literal(np.where(np.tri(6), 0, LOWEST).astype(np.float32))
        for m in (causal, mask):
            scores = b.add(scores, b.multibroadcast(m, out_lens=scores.shape.lens))
        return finish(b, scores, v)

    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(lens).astype(np.float32) for n, lens in SQUARE.items()}
    mask = np.zeros((2, 1, 1, 6), np.float32)
    mask[0, ..., 0] = LOWEST
    found = fused(program_of(build, **SQUARE, mask=mask.shape), **values, mask=mask)
    assert not found.op.attributes()["causal"]


def test_a_product_of_a_converted_input_is_no_attention():
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3, 4, 5)).astype(np.float16), rng.standard_normal((3, 5, 6)).astype(np.float32)
    program = program_of(
        lambda b, x, v: b.dot(b.convert(x, target_type="float"), v), x=Shape("half", x.shape), v=v.shape
    )
    assert checked(program, [*SIMPLIFY, fuse_attention], {"x": x, "v": v})["dot"] == 1


@pytest.mark.parametrize("move", ["slice", "reverse", "contiguous", "multibroadcast"])
def test_scale_behind_data_movement(move: str):
    """Whatever only moves elements moves scaled ones as well."""
    attributes = {
        "slice": {"axes": (2,), "starts": (1,), "ends": (4,)}, "reverse": {"axes": (2,)}, "contiguous": {},
        "multibroadcast": {"out_lens": (2, 4, 5, 8)},
    }  # fmt: skip

    def build(b: Builder, q: Value, k: Value, v: Value) -> Value:
        moved = b.instruction(move, [times(b, q, 0.5)], **attributes[move])
        return finish(b, b.dot(moved, turned(b, k)), v)

    q = (1, 4, 5, 8) if move == "multibroadcast" else SIZES["q"]
    program = program_of(build, q=q, k=SIZES["k"], v=SIZES["v"])
    checked(program, [fuse_attention])
    assert attention_of(program).op.attributes()["scale"] == 0.5 and "mul" not in {i.name for i in program.main}
