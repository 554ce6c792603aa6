"""What becomes a product of integers and what must not."""

import numpy as np
import pytest

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.shape import Shape
from migraphx.passes.simplify_qdq import simplify_qdq
from tests.passes.checking import checked, program_of

Value = Instruction
rng = np.random.default_rng(0)
CODES = rng.integers(-100, 100, (4, 4)).astype(np.int8)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("scale by row", "dot"),
        ("scale by row of x", "quant_dot"),
        ("scale along the depth of x", "dot"),
        ("zero point", "quant_dot"),
        ("unsigned weights", "quant_dot"),
    ],
)
def test_products_of_integers(case: str, word: str):
    """Only scales along the depth keep a product from being one of integers."""
    lens = (4, 1) if case == "scale by row" else (1, 4)
    scales = rng.random(lens).astype(np.float32) + 0.5
    weights = CODES.view(np.uint8) if case == "unsigned weights" else CODES

    def build(b: Builder, x: Value) -> Value:
        of_x = {"scale by row of x": scales.T, "scale along the depth of x": scales}
        step = b.literal(of_x.get(case, np.array([0.5], np.float32)))
        left = b.dequantizelinear(x, b.broadcast_to(step, (4, 4)))
        parts = [b.literal(weights), b.broadcast_to(b.literal(scales), (4, 4))]
        if case == "zero point":
            parts.append(b.broadcast_to(b.literal(np.array([3], np.int8)), (4, 4)))
        return b.dot(left, b.dequantizelinear(*parts))

    program = program_of(build, x=Shape("int8", (4, 4)))
    left = checked(program, [simplify_qdq], {"x": rng.integers(-100, 100, (4, 4)).astype(np.int8)})
    assert {name for name in ("dot", "quant_dot") if left[name]} == {word}


@pytest.mark.parametrize(("product", "places"), [("dot", "one"), ("dot", "rows"), ("convolution", "one")])
def test_scales_that_are_computed(product: str, places: str):
    """A scale and a zero point of the whole, or of each row of a dot, known in a run only; x moved afterwards."""
    if product == "convolution":
        lens, own, codes = (1, 4, 5, 5), (1, 1, 1, 1), rng.integers(-100, 100, (3, 4, 3, 3)).astype(np.int8)
    else:
        lens, own, codes = (2, 6, 4), (1, 1, 1) if places == "one" else (2, 6, 1), CODES

    def build(b: Builder, x: Value, scale: Value, zero: Value) -> Value:
        real = b.dequantizelinear(x, *(b.broadcast_to(i, lens) for i in (scale, zero)))
        weights = b.dequantizelinear(
            b.literal(codes), b.broadcast_to(b.literal(np.array([0.5], np.float32)), codes.shape)
        )
        if product == "convolution":
            return b.convolution(real, weights, padding=(1, 1))
        return b.dot(b.reshape(real, dims=(12, 4)), weights)

    values = {
        "x": rng.integers(-100, 100, lens).astype(np.int8),
        "scale": (rng.random(own) + 0.5).astype(np.float32),
        "zero": rng.integers(-20, 20, own).astype(np.int8),
    }
    program = program_of(build, **{name: Shape.of(value) for name, value in values.items()})
    left = checked(program, [simplify_qdq], values)
    assert left[f"quant_{product}"] == 1 and not left[product]


@pytest.mark.parametrize(("codes", "indices"), [(CODES, [3, 1]), (CODES, 2), (CODES[0], [3, 1]), (CODES[0], 2)])
def test_a_table_is_dequantized_where_it_is_read(codes: np.ndarray, indices: int | list[int]):
    def build(b: Builder, i: Value) -> Value:
        parts = (np.array([0.5], np.float32), np.array([3], np.int8))
        table = b.dequantizelinear(b.literal(codes), *(b.broadcast_to(b.literal(p), codes.shape) for p in parts))
        return b.gather(table, i, axis=0)

    values = np.array(indices)
    program = program_of(build, i=Shape.of(values))
    checked(program, [simplify_qdq], {"i": values})
    assert [i.shape.type for i in program.main if i.name in ("gather", "dequantizelinear")] == ["int8", "float"]
