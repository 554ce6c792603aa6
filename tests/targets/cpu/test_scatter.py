"""Writing at indices and the rarer reads on cpu against ref."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape, permuted
from tests.targets.cpu.side_by_side import Case, check
from tests.tiers import few

HOWS = ("none", "add", "mul", "min", "max")


def shape(*lens: int, type: str = "float") -> Shape:
    return Shape(type, lens)


def indices(*lens: int, type: str = "int64") -> Shape:
    return Shape(type, lens)


def _rows(how: str):
    """Whole rows: the index is alike in the last dimension, or in the first too."""

    def build(b, x, i, u):
        rows = b.multibroadcast(b.unsqueeze(i, axes=(2,)), out_lens=u.shape.lens)
        return b.instruction(f"scatter_{how}", [x, rows, u], axis=1)

    return build


@pytest.mark.parametrize("how", few(HOWS, "add"))
def test_scatter(how: str) -> None:
    def along(axis: int):
        return lambda b, x, i, u: b.instruction(f"scatter_{how}", [x, i, u], axis=axis)

    cases = [
        Case("middle", along(1), (shape(3, 7, 5), indices(3, 9, 5), shape(3, 9, 5))),
        Case("smaller", along(0), (shape(3, 7, 5), indices(9, 4, 2), shape(9, 4, 2))),
        Case("last", along(-1), (shape(3, 7), indices(3, 20, type="int32"), shape(3, 20))),
        Case("line", along(0), (shape(30), indices(9), shape(9))),
        Case("special", along(1), (shape(9, 7), indices(9, 9), shape(9, 9)), special=True),
        *(
            Case(t, along(1), (shape(3, 7, type=t), indices(3, 9), shape(3, 9, type=t)), 10)
            for t in ("half", "bf16", "double", "int32", "uint8", "int64")
        ),
        Case(
            "turned",
            along(1),
            (permuted("float", (3, 7, 5), (2, 0, 1)), permuted("int64", (3, 9, 5), (1, 2, 0)), shape(3, 9, 5)),
        ),
        Case("rows", _rows(how), (shape(3, 7, 5), indices(1, 9), shape(3, 9, 5))),
        Case("rows of each", _rows(how), (shape(3, 7, 5), indices(3, 9), shape(3, 9, 5))),
        Case("nothing", along(1), (shape(3, 7), indices(3, 0), shape(3, 0))),
    ]
    check(cases)


@pytest.mark.parametrize("how", few(HOWS, "none"))
def test_scatternd(how: str) -> None:
    def at(b, x, i, u):
        return b.instruction(f"scatternd_{how}", [x, i, u])

    cases = [
        Case("slices", at, (shape(3, 7, 5), indices(4, 1), shape(4, 7, 5))),
        Case("elements", at, (shape(3, 7, 5), indices(2, 9, 3, type="int32"), shape(2, 9))),
        Case("half", at, (shape(3, 7, 5, type="half"), indices(9, 2), shape(9, 5, type="half")), 10),
        Case("int32", at, (shape(3, 7, 5, type="int32"), indices(9, 2), shape(9, 5, type="int32"))),
    ]
    check(cases)


def test_bool_scatter() -> None:
    types = (shape(3, 7, type="bool"), indices(3, 4), shape(3, 4, type="bool"))
    check([Case("bool", lambda b, x, i, u: b.scatter_none(x, i, u, axis=1), types)])


def test_gathernd() -> None:
    cases = [
        Case("slices", lambda b, x, i: b.gathernd(x, i), (shape(3, 7, 5), indices(4, 2))),
        Case("elements", lambda b, x, i: b.gathernd(x, i), (shape(3, 7), indices(2, 4, 2))),
        Case("batched", lambda b, x, i: b.gathernd(x, i, batch_dims=1), (shape(3, 7, 5, 2), indices(3, 6, 2))),
        Case("int32", lambda b, x, i: b.gathernd(x, i), (shape(3, 40, type="half"), indices(4, 1, type="int32"))),
    ]
    check(cases)


def test_onehot_and_nonzero() -> None:
    cases = [
        Case("last", lambda b, i, v: b.onehot(i, v, depth=5), (indices(3, 4), shape(2)), high=9),
        Case("first", lambda b, i, v: b.onehot(i, v, depth=5, axis=0), (indices(3, 4), shape(2, type="int32"))),
        Case("middle", lambda b, i, v: b.onehot(i, v, depth=3, axis=1), (indices(3, 4), shape(2, type="half"))),
        Case("nonzero", lambda b, x: b.nonzero(x), (shape(5, 7, 3, type="int32"),), high=2),
        Case("nonzero_bool", lambda b, x: b.nonzero(x), (shape(60, type="bool"),)),
        Case("nonzero_special", lambda b, x: b.nonzero(x), (shape(9, 5),), special=True),
    ]
    check(cases)


@pytest.mark.parametrize("bad", few([4, -5], 4))
@pytest.mark.parametrize("name", ["scatter_add", "scatternd_none", "gathernd"])
def test_index_out_of_range(name: str, bad: int) -> None:
    program = migraphx.program()
    main = program.graph.main
    i = main.add_parameter("i", Shape("int64", (3, 1)))
    b = Builder(main, origin="model.py:12")
    data = b.literal(np.ones((4, 1), np.float32))
    updates = [] if name == "gathernd" else [b.literal(np.ones((3, 1), np.float32))]
    main.add_return([b.instruction(name, [data, i, *updates])])
    program.compile(migraphx.get_target("cpu"))
    with pytest.raises(IndexError, match=rf"{name} \(model.py:12\).*4.*{bad}"):
        program.run({"i": np.array([[0], [bad], [1]])})


@pytest.mark.parametrize("types", few([["int8"], ["uint8", "int16", "uint16", "int32"]], ["int8"]), ids=str)
def test_quantize_linear(types: list[str]) -> None:
    x, one = shape(3, 40), shape(3, 40)

    def positive(b, s):
        return b.add(b.abs(s), b.full(0.01, s))

    cases = []
    for t in types:
        zero = shape(3, 40, type=t)
        cases += [
            Case(f"to_{t}", lambda b, x, s, z: b.quantizelinear(x, positive(b, s), z), (x, one, zero)),
            Case(f"to_{t}_plain", lambda b, x, s, t=t: b.quantizelinear(x, positive(b, s), out_type=t), (x, one)),
            Case(f"from_{t}", lambda b, y, s, z: b.dequantizelinear(y, s, z), (zero, one, zero), high=100),
            Case(f"from_{t}_plain", lambda b, y, s: b.dequantizelinear(y, s), (zero, shape(3, 40, type="half"))),
        ]
    check(cases)


@pytest.mark.slow
def test_quantized() -> None:
    x, one = shape(3, 40), shape(3, 40)

    def positive(b, s):
        return b.add(b.abs(s), b.full(0.01, s))

    cases = [
        Case("special", lambda b, x, s: b.quantizelinear(x, positive(b, s), out_type="int8"), (x, one), special=True),
        Case("double", lambda b, x, s: b.quantizelinear(x, positive(b, s)), (shape(9, type="double"),) * 2),
        Case("dot", lambda b, x, y: b.quant_dot(x, y), (shape(5, 24, type="int8"), shape(24, 40, type="int8"))),
        Case(
            "dot_fp8", lambda b, x, y: b.quant_dot(x, y), (shape(5, 24, type="fp8e5m2"), shape(24, 3, type="fp8e5m2"))
        ),
        Case("dot_mixed", lambda b, x, y: b.quant_dot(x, y), (shape(5, 24, type="uint8"), shape(24, 3, type="int8"))),
        Case(
            "dot_weights",
            lambda b, x: b.relu(b.quant_dot(x, b.literal(np.arange(-90, 90).reshape(9, 20).astype(np.int8)))),
            (shape(5, 9, type="uint8"),),
            high=200,
        ),
        *(
            Case(
                f"convolution_{group}",
                lambda b, x, g=group: b.quant_convolution(
                    x,
                    b.literal(np.arange(-108, 108).reshape(12, 6 // g, -1)[..., :3, None].astype(np.int8)),
                    padding=(1, 0),
                    group=g,
                ),
                (shape(2, 6, 7, 5, type="int8"),),
                high=100,
            )
            for group in (1, 2, 3)
        ),
    ]
    check(cases)


def test_beside_a_reduction_of_the_same_name():
    """Their kernels are in one source file, where each name must be defined once."""
    program = migraphx.program()
    main = program.get_main_module()
    x = main.add_parameter("x", migraphx.shape("float", [3, 4]))
    index = main.add_literal(np.array([[1, 0, 2, 1]], np.int64))
    update = main.add_parameter("u", migraphx.shape("float", [1, 4]))
    joined = main.add_instruction(migraphx.op("scatter_min", axis=0), [x, index, update])
    largest = main.add_instruction(migraphx.op("reduce_max", axes=[1]), [x])
    main.add_return([joined, largest])
    values = {k: np.random.default_rng(0).standard_normal(s).astype("f4") for k, s in (("x", (3, 4)), ("u", (1, 4)))}
    other = program.clone()
    program.compile(migraphx.get_target("cpu"))
    other.compile(migraphx.get_target("ref"))
    for got, want in zip(program.run(values), other.run(values), strict=True):
        np.testing.assert_array_equal(np.array(got), np.array(want))
