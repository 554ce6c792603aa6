"""Products of few rows with weights of 4 bits are as exact as those of floats, whatever numbers lie in a block."""

import numpy as np

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.ops.quantize import PackInt4
from tests.tolerances import assert_close

DEPTH, COLUMNS = 96, 70


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    """Normal numbers, some far larger or smaller than the rest of their block, and a row of zeros.

    Of four rows one has numbers whose lower two digits are the least, -128 each.
    """
    x = rng.standard_normal((count, DEPTH)).astype(np.float32)
    x[:, 3::17] *= np.float32(1e4)
    x[:, 5::13] *= np.float32(1e-6)
    x[0, : DEPTH // 2] *= np.float32(1e-38)
    x[-1] *= np.float32(0 if count > 1 else 1e30)
    if count == 4:
        x[1] = -0x8080 / 0x7F7F70
        x[1, ::6] = 1
    return x


def test_few_rows_against_double() -> None:
    rng, program = np.random.default_rng(0), migraphx.program()
    main = program.graph.main
    b = Builder(main)
    inputs: dict[str, np.ndarray] = {}
    products, wanted = [], []
    for block, with_zeros in ((32, False), (32, True), (6, True), (DEPTH, False)):
        codes = rng.integers(-8, 8, (DEPTH, COLUMNS)).astype(np.int8)
        codes[:, 3] = 7
        scales = rng.uniform(0.01, 0.1, (DEPTH // block, COLUMNS)).astype(np.float32)
        zeros = rng.integers(-8, 8, scales.shape).astype(np.int8)
        packed = [b.literal(v) for v in (PackInt4(axis=0).compute(codes), scales, *([zeros] if with_zeros else []))]
        below = np.repeat(zeros, block, 0) if with_zeros else 0
        weights = (codes.astype(np.float64) - below) * np.repeat(scales, block, 0)
        for count in (1, 2, 3, 4, 5):
            x = rows(rng, count)
            special = x.copy()
            special[0, 1], special[-1, -1] = np.inf, -np.inf if count > 1 else np.nan
            for value in (x, special):
                inputs[name := f"x{len(inputs)}"] = value
                products.append(b.dot_int4(main.add_parameter(name, Shape.of(value)), *packed))
                with np.errstate(invalid="ignore"):
                    wanted.append(value.astype(np.float64) @ weights)
    main.add_return(products)
    program.compile(migraphx.get_target("cpu"))
    for got, want in zip(program.run(inputs), wanted, strict=True):
        for row, exact in zip(np.array(got), want, strict=True):  # each has a size of its own
            assert_close(row, exact.astype(np.float32), scale=DEPTH**0.5)
