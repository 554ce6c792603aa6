"""Programs in half and bfloat16 against the same program in float."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import Shape
from migraphx.ir.verify import verify_program
from tests.tolerances import QUANTIZED_ERROR, relative_error
from tools.fuzz_graphs import made

RNG = np.random.default_rng(2)


def program() -> migraphx.program:
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    i = main.add_parameter("i", Shape("int64", (5,)))
    x = main.add_parameter("x", Shape("float", (5, 32)))
    table = b.literal(RNG.standard_normal((9, 32)).astype(np.float32))
    h = b.add(x, b.gather(table, i, axis=0))
    w = b.literal(RNG.standard_normal((24, 32)).astype(np.float32))
    h = b.layer_norm(b.gelu(b.linear(h, w, b.literal(RNG.standard_normal(24).astype(np.float32)))))
    main.add_return([b.softmax(h, axis=1), b.argmax(h, axis=1)])
    return p


INPUTS = {"i": np.array([0, 3, 8, 8, 1]), "x": RNG.standard_normal((5, 32)).astype(np.float32)}
quantize_int8 = partial(migraphx.quantize_int8, t=migraphx.get_target("ref"), calibration=[INPUTS])


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(("quantize", "type", "error"), [("fp16", "half", 5e-3), ("bf16", "bf16", 5e-2)])
def test_narrow(target: str, quantize: str, type: str, error: float) -> None:
    wide = program()
    low = wide.clone()
    getattr(migraphx, f"quantize_{quantize}")(low)
    assert any(i.shape().type_string() == f"{type}_type" and i.name() == "dot" for i in low.get_main_module())
    for p in (wide, low):
        p.compile(migraphx.get_target(target))
    assert low.get_output_shapes() == wide.get_output_shapes()
    got, want = (np.array(p.run(INPUTS)[0]) for p in (low, wide))
    assert 0 < relative_error(got, want) < error


def test_named_operators_only() -> None:
    p = program()
    migraphx.quantize_fp16(p, ["dot"])
    halves = {i.name() for i in p.get_main_module() if i.shape().type_string() == "half_type"}
    assert halves == {"dot", "convert"}


@pytest.mark.parametrize("quantize", [migraphx.quantize_fp16, migraphx.quantize_bf16, quantize_int8])
def test_names_that_no_operator_has(quantize: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    p = program()
    with pytest.raises(ValueError, match="unknown operator 'convolutoin'; did you mean 'convolution'"):
        quantize(p, ins_names=["dot", "convolutoin"])
    with pytest.raises(TypeError, match="a list of operators' names, got the string 'dot'"):
        quantize(p, ins_names="dot")
    assert p == program()
    with caplog.at_level(logging.WARNING):
        quantize(p, ins_names=["convolution"])
    assert "has no convolution" in caplog.text and p == program()


@pytest.mark.parametrize("names", [["all"], ["mul"], ["add", "dot", "multibroadcast"]])
@pytest.mark.parametrize("seed", range(10))
def test_random_graph(seed: int, names: list[str]) -> None:
    p, _ = made([(300, seed)])
    before = [o.shape for o in p.graph.main.outputs]
    migraphx.quantize_bf16(p, names)
    verify_program(p.graph)
    assert [(o.shape.type, o.shape.lens) for o in p.graph.main.outputs] == [(s.type, s.lens) for s in before]


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("names", [["all"], ["mul"]])
def test_layouts_that_a_convert_changes(target: str, names: list[str]) -> None:
    """A convert of a broadcast is whole in memory, so that the product's layout is another."""
    p = migraphx.program()
    b = Builder(p.graph.main)
    x = p.graph.main.add_parameter("x", Shape("float", (2, 3, 4)))
    half = b.multibroadcast(b.literal(np.array(0.5, np.float32)), out_lens=(3, 2, 4))
    product = b.mul(b.transpose(x, permutation=(1, 0, 2)), half)
    p.graph.main.add_return([b.exp(product)])
    migraphx.quantize_fp16(p, names)
    verify_program(p.graph)
    p.compile(migraphx.get_target(target))
    array = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    assert relative_error(np.array(p.run({"x": array})[0]), np.exp(array.transpose(1, 0, 2) / 2)) < QUANTIZED_ERROR


def test_compiled_program_is_refused() -> None:
    p = program()
    p.compile(migraphx.get_target("ref"))
    with pytest.raises(RuntimeError, match="before compiling"):
        migraphx.quantize_bf16(p)
