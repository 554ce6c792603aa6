"""Algebra: what is folded, and what must not be."""

import math

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.fold_constants import fold_constants
from migraphx.passes.fold_norms import fold_norms
from migraphx.passes.pipeline import SIMPLIFY
from migraphx.passes.simplify_algebra import simplify_algebra
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)


def const(b: Builder, *lens: int) -> Value:
    return b.literal(rng.standard_normal(lens).astype(np.float32))


def left_of(build, passes=(simplify_algebra,), **parameters) -> dict[str, int]:
    """How often each operator is left, broadcasts apart."""
    left = checked(program_of(build, **parameters), list(passes))
    return {name: n for name, n in left.items() if name != "multibroadcast"}


def normalized(b: Builder, x: Value) -> Value:
    c = x.shape.lens[1]
    return b.batchnorm(x, const(b, c), const(b, c), const(b, c), b.literal((rng.random(c) + 0.5).astype(np.float32)))


@pytest.mark.parametrize("group", [1, 2, 4])
def test_batch_norm_goes_into_a_convolution(group: int):
    def build(b: Builder, x: Value) -> Value:
        return normalized(b, b.convolution(x, const(b, 4, 4 // group, 3, 3), padding=(1, 1), group=group))

    assert left_of(build, SIMPLIFY, x=(2, 4, 5, 5)) == {"convolution": 1, "add": 1}


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("type", ["float", "half"])
def test_batch_norm_goes_into_a_transposed_convolution(type: str, group: int):
    """Of halves it is computed in float."""

    def build(b: Builder, x: Value) -> Value:
        w = b.cast(const(b, 4, 8 // group, 3, 2), type)
        y = b.convolution_backwards(x, w, padding=(1, 0), stride=(2, 3), group=group)
        return b.cast(normalized(b, b.cast(y, "float")), type)

    left = left_of(build, [*SIMPLIFY, fold_norms, *SIMPLIFY], x=Shape(type, (2, 4, 5, 4)))
    assert left == {"convolution_backwards": 1, "add": 1}


@pytest.mark.parametrize("rank", [3, 5])
def test_batch_norm_in_other_ranks(rank: int):
    spatial = rank - 2

    def build(b: Builder, x: Value) -> Value:
        w = const(b, 4, 3, *(2,) * spatial)
        ones = (1,) * spatial
        return normalized(b, b.convolution(x, w, padding=(0,) * spatial, stride=ones, dilation=ones))

    assert left_of(build, SIMPLIFY, x=(2, 3, *(4,) * spatial)) == {"convolution": 1, "add": 1}


def test_batch_norm_goes_into_a_linear_layer():
    def build(b: Builder, x: Value) -> Value:
        return normalized(b, b.linear(x, const(b, 5, 4), const(b, 5)))

    assert left_of(build, SIMPLIFY, x=(3, 4)) == {"dot": 1, "add": 1}


def test_scales_before_a_linear_layer():
    def build(b: Builder, x: Value) -> Value:
        scaled = b.mul(x, b.multibroadcast(const(b, 4), out_lens=x.shape.lens))
        return b.linear(scaled, const(b, 5, 4))

    assert left_of(build, SIMPLIFY, x=(2, 3, 4)) == {"dot": 1}


def test_a_scale_by_row_stays():
    def build(b: Builder, x: Value) -> Value:
        y = b.linear(x, const(b, 5, 4))
        return b.mul(y, b.multibroadcast(const(b, 3, 1), out_lens=y.shape.lens))

    assert left_of(build, SIMPLIFY, x=(2, 3, 4)) == {"dot": 1, "mul": 1}


def test_shared_weights_are_not_scaled():
    def build(b: Builder, x: Value) -> list[Value]:
        w = const(b, 4, 4)
        y = b.dot(x, w)
        return [b.mul(y, b.full(3.0, y)), b.dot(b.relu(x), w)]

    assert left_of(build, SIMPLIFY, x=(3, 4)) == {"dot": 2, "mul": 1, "relu": 1}


def test_scaled_weights_that_overflow_stay():
    def build(b: Builder, x: Value) -> Value:
        y = b.dot(x, b.literal(np.full((4, 2), 3e4), "half"))
        return b.mul(y, b.full(8.0, y))

    program = program_of(build, x=Shape("half", (3, 4)))
    left = checked(program, SIMPLIFY, {"x": np.full((3, 4), 1e-4, np.float16)})
    assert left["mul"] == 1


def test_weights_that_are_one_number_take_a_scale_each():
    def build(b: Builder, x: Value) -> Value:
        y = b.convolution(x, b.multibroadcast(b.literal(np.array([0.5], np.float32)), out_lens=(4, 2, 3, 3)))
        return b.mul(y, b.broadcast(const(b, 4), axis=1, out_lens=y.shape.lens))

    assert left_of(build, SIMPLIFY, x=(1, 2, 5, 5)) == {"convolution": 1}


def test_chains_of_constants_are_one():
    def build(b: Builder, x: Value) -> Value:
        for word in ("mul", "add", "mul", "sub", "div", "add"):
            x = getattr(b, word)(x, b.broadcast_to(const(b, 1, 3), x.shape.lens))
        return x

    assert left_of(build, x=(2, 3)) == {"mul": 1, "add": 1}


def test_biases_of_two_terms_are_one():
    def build(b: Builder, x: Value, y: Value) -> Value:
        x, y = (b.add(v, b.multibroadcast(const(b, 3), out_lens=v.shape.lens)) for v in (x, y))
        return b.add(x, y)

    assert left_of(build, x=(2, 3), y=(2, 3)) == {"add": 2}


@pytest.mark.parametrize(
    ("exponent", "left"), [(1, {}), (2, {"mul": 1}), (3, {"mul": 2}), (-1, {"recip": 1}), (0.5, {"pow": 1})]
)
def test_powers(exponent: float, left: dict[str, int]):
    values = np.array([-2, -0.0, 0.5, 3, math.inf, math.nan], np.float32)
    program = program_of(lambda b, x: b.pow(x, b.full(exponent, x)), x=(6,))
    found = checked(program, [simplify_algebra], {"x": values})
    del found["multibroadcast"]
    assert found == left


def test_negative_zero_keeps_its_sign():
    def build(b: Builder, x: Value) -> list[Value]:
        return [b.add(x, b.full(0.0, x)), b.add(x, b.full(-0.0, x)), b.sub(x, b.full(0.0, x))]

    assert left_of(build, x=(4,)) == {"add": 1}


def test_integers_are_not_floats():
    def build(b: Builder, x: Value) -> list[Value]:
        return [b.div(x, b.full(2, x)), b.sub(x, b.full(1, x)), b.add(x, b.full(0, x)), b.mul(x, b.full(1, x))]

    assert left_of(build, x=Shape("int32", (4,))) == {"div": 1, "sub": 1}


@pytest.mark.parametrize(
    ("type", "by", "word"),
    [
        ("float", 3.0, "mul"),
        ("half", 3.0, "div"),
        ("half", 4.0, "mul"),
        ("float", 0.0, "div"),
        ("float", 1e-45, "div"),
    ],
)
def test_division_by_a_constant(type: str, by: float, word: str):
    assert left_of(lambda b, x: b.div(x, b.full(by, x)), x=Shape(type, (5,))) == {word: 1}


def test_division_by_a_broadcast_value():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        magnitude = b.abs(y)
        by = (b.multibroadcast(v, out_lens=x.shape.lens) for v in (b.sqrt(magnitude), magnitude))
        return [b.div(x, v) for v in by]

    # 1 / y is lost where y is 1e-40 or 3e38, and x / y is not
    assert left_of(build, x=(3, 8), y=(3, 1)) == {"abs": 1, "rsqrt": 1, "mul": 1, "div": 1}


def test_converts():
    def build(b: Builder, x: Value) -> list[Value]:
        exact = b.convert(b.convert(x, target_type="float"), target_type="double")
        rounded = b.convert(b.convert(x, target_type="bf16"), target_type="float")
        back = b.convert(b.convert(x, target_type="double"), target_type="half")
        return [exact, rounded, b.convert(x, target_type="half"), back]

    assert left_of(build, x=Shape("half", (5,))) == {"convert": 3}


@pytest.mark.parametrize(("type", "to"), [("bf16", "float"), ("float", "half"), ("float", "fp8e4m3fn")])
def test_isnan_of_a_convert(type: str, to: str):
    """Numbers out of range become infinite in half, but NaN in fp8."""

    def build(b: Builder, x: Value) -> Value:
        return b.isnan(b.convert(b.mul(x, b.full(1e6, x)), target_type=to))

    assert left_of(build, x=Shape(type, (50,))).get("convert", 0) == (to == "fp8e4m3fn")


@pytest.mark.parametrize(("type", "between"), [("uint8", "fp8e4m3fn"), ("int64", "double"), ("uint8", "uint4")])
def test_a_type_between_that_rounds_stays(type: str, between: str):
    def build(b: Builder, x: Value) -> Value:
        return b.convert(b.convert(x, target_type=between), target_type=type)

    values = np.array([0, 1, 7, 13], type) if between != "double" else np.array([2**53 + 1], type)
    program = program_of(build, x=Shape(type, values.shape))
    assert checked(program, [simplify_algebra], {"x": values}) == {"convert": 2}


@pytest.mark.parametrize(("x", "a", "c"), [(1e25, 1e-30, 1e-30), (1e-25, 1e30, 1e30)])
def test_factors_whose_product_is_not_normal_stay(x: float, a: float, c: float):
    def build(b: Builder, x: Value) -> Value:
        return b.mul(b.mul(x, b.full(a, x)), b.full(c, x))

    program = program_of(build, x=(2,))
    found = checked(program, [simplify_algebra], {"x": np.full(2, x, np.float32)})
    assert found["mul"] == 2


def test_a_scale_before_a_grouped_convolution_stays():
    def build(b: Builder, x: Value) -> Value:
        y = b.mul(x, b.broadcast(const(b, 4), axis=1, out_lens=x.shape.lens))
        return b.convolution(y, const(b, 4, 2, 3, 3), group=2)

    assert left_of(build, SIMPLIFY, x=(1, 4, 5, 5)) == {"mul": 1, "convolution": 1}


def test_where():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        true, false = (b.multibroadcast(b.literal(np.array([v])), out_lens=x.shape.lens) for v in (True, False))
        some = b.less(x, y)
        return [
            b.where(true, x, y),
            b.where(false, x, y),
            b.where(some, x, x),
            b.where(b.instruction("not", [some]), x, y),
        ]

    assert left_of(build, x=(5,), y=(5,)) == {"less": 1, "where": 1}


def test_logic_with_constants():
    def build(b: Builder, x: Value, y: Value) -> list[Value]:
        true, false = (b.multibroadcast(b.literal(np.array([v])), out_lens=x.shape.lens) for v in (True, False))
        c = b.less(x, y)
        return [b.logical_and(c, true), b.logical_or(false, c), b.logical_and(c, false)]

    assert left_of(build, x=(5,), y=(5,)) == {"less": 1, "logical_and": 1}


def test_idempotents():
    def build(b: Builder, x: Value) -> list[Value]:
        return [b.relu(b.relu(x)), b.abs(b.abs(x)), b.neg(b.neg(x)), b.max(x, x), b.relu(b.abs(x))]

    assert left_of(build, x=(5,)) == {"relu": 2, "abs": 2}


# ---- constants ----


def test_folding_neither_copies_nor_grows():
    weights = np.zeros((512, 512), np.float32)

    def build(b: Builder, x: Value) -> list[Value]:
        w = b.literal(weights)
        wide = b.multibroadcast(b.literal(np.ones((1, 1), np.float32)), out_lens=(2000, 2000))
        return [b.dot(x, b.transpose(w, permutation=(1, 0))), b.exp(wide)]

    program = program_of(build, x=(3, 512))
    left = checked(program, [fold_constants])
    assert left == {"dot": 1, "exp": 1, "multibroadcast": 1}
    literal = next(i.literal for i in program.main if i.shape.lens == (512, 512))
    assert literal is not None and np.shares_memory(literal, weights)
    assert literal.strides == (4, 2048)


def test_dequantized_weights_of_a_float_product_become_floats_once():
    """One scale for each index of the depth: no product of integers."""
    codes = rng.integers(-100, 100, (512, 1024)).astype(np.int8)

    def build(b: Builder, x: Value) -> Value:
        scale = b.broadcast_to(b.literal(rng.random((512, 1)).astype(np.float32)), codes.shape)
        return b.dot(x, b.dequantizelinear(b.literal(codes), scale))

    assert left_of(build, SIMPLIFY, x=(3, 512)) == {"dot": 1}


def test_a_view_of_a_broadcast_literal_stays_small():
    def build(b: Builder, x: Value) -> Value:
        wide = b.multibroadcast(b.literal(np.arange(3, dtype=np.float32)), out_lens=(4, 5, 3))
        return b.add(x, b.transpose(wide, permutation=(2, 0, 1)))

    program = program_of(build, x=(3, 4, 5))
    checked(program, [fold_constants])
    assert all(i.literal is None or i.literal.size == 3 for i in program.main)
