"""Programs in 8-bit integers, fp8 and 4-bit weights: error against the same program in float, and cpu against ref."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import migraphx
from migraphx.ir.builder import Builder
from migraphx.ir.shape import DynamicDimension, Shape
from migraphx.passes.manager import run_passes
from migraphx.targets.cpu.target import PASSES
from tests.tiers import few_rows
from tests.tolerances import MODEL_ERROR, QUANTIZED_ERROR, relative_error

RNG = np.random.default_rng(5)


def random(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def network() -> migraphx.program:
    """Convolutions of every kind that the cpu has kernels for, and dots of two ranks."""
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x = main.add_parameter("x", Shape("float", (2, 3, 20, 20)))
    bias = b.broadcast(b.literal(random(16)), axis=1, out_lens=(2, 16, 10, 10))
    h = b.relu(b.add(b.convolution(x, b.literal(random(16, 3, 5, 5) / 8), padding=(2, 2), stride=(2, 2)), bias))
    h = b.relu(b.add(h, b.convolution(h, b.literal(random(16, 16, 3, 3) / 12), padding=(1, 1))))
    h = b.convolution(h, b.literal(random(32, 8, 1, 1) / 3), group=2)
    h = b.convolution(h, b.literal(random(32, 1, 3, 3) / 3), group=32)
    h = b.tanh(b.dot(b.reshape(h, dims=(2, -1)), b.literal(random(32 * 8 * 8, 50) / 40)))
    wide = b.multibroadcast(b.literal(random(50, 31)), out_lens=(2, 50, 31))
    main.add_return([b.dot(b.reshape(h, dims=(2, 1, 50)), wide)])
    return p


def result(p: migraphx.program, target: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
    copy = p.clone()
    copy.compile(migraphx.get_target(target))
    return np.array(copy.run(inputs)[0])


def signal_to_noise(got: np.ndarray, want: np.ndarray) -> float:
    """In decibels."""
    return float(20 * np.log10(np.linalg.norm(want) / np.linalg.norm(got - want)))


@pytest.mark.parametrize(("name", "decibels"), few_rows([("int8", 28), ("fp8", 20)], ("int8", 28)))
def test_network(name: str, decibels: float) -> None:
    p = network()
    want = result(p, "ref", inputs := {"x": random(2, 3, 20, 20)})
    quantize = getattr(migraphx, f"quantize_{name}")
    quantize(p, migraphx.get_target("ref"), [{"x": random(2, 3, 20, 20)} for _ in range(3)])
    ref = result(p, "ref", inputs)
    assert signal_to_noise(ref, want) > decibels
    assert relative_error(result(p, "cpu", inputs), ref) < MODEL_ERROR


def products(p: migraphx.program) -> set[str]:
    """The names of the dots and convolutions that the cpu target is left with."""
    optimised = p.graph.clone()
    run_passes(optimised, PASSES)
    names = {i.name for ins in optimised.main for m in (optimised.main, *ins.modules) for i in m}
    return names & {"dot", "convolution", "quant_dot", "quant_convolution"}


@pytest.mark.parametrize(("operator", "names", "said"), [
    ("dot", (), None),
    ("dot", (["dot", "convolution"],), "no convolution"),
    ("add", (), "no dot and no convolution"),
])  # fmt: skip
def test_what_is_asked_for_and_missing_is_said(
    operator: str, names: tuple[Any, ...], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The default names all kinds of products: one of them is enough."""
    p = migraphx.program()
    m = p.get_main_module()
    x = m.add_parameter("x", migraphx.shape(type="float", lens=[3, 3]))
    m.add_return([m.add_instruction(migraphx.op(operator), [x, m.add_literal(np.ones((3, 3), np.float32))])])
    migraphx.quantize_int8(p, migraphx.get_target("ref"), [{"x": np.ones((3, 3), np.float32)}], *names)
    messages = [r.message for r in caplog.records]
    assert messages == [] if said is None else len(messages) == 1 and said in messages[0]


def test_named_products_become_those_of_integers():
    for names, want in (
        (["dot", "convolution"], {"quant_dot", "quant_convolution", "convolution"}),  # the last of one channel a group
        (["convolution"], {"dot", "quant_convolution", "convolution"}),
    ):
        p = network()
        migraphx.quantize_int8(p, migraphx.get_target("ref"), ins_names=names)
        assert products(p) == want


def residual() -> migraphx.program:
    """A block of which both operands of the sum are convolutions', and one whose input is added."""
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x = main.add_parameter("x", Shape("float", (2, 8, 6, 6)))

    def conv(value, out: int):
        y = b.convolution(value, b.literal(random(out, value.shape.lens[1], 1, 1) / 4))
        return b.add(y, b.broadcast(b.literal(random(out) / 4), axis=1, out_lens=y.shape.lens))

    h = b.relu(b.add(conv(b.relu(conv(x, 16)), 24), conv(x, 24)))
    h = b.relu(b.add(conv(b.relu(conv(h, 16)), 24), h))
    main.add_return([conv(h, 4)])
    return p


@pytest.mark.slow
def test_sums_are_quantized_where_they_are_named() -> None:
    """Then a residual is what the products read, and nothing between them is float in memory."""
    p = residual()
    want = result(p, "ref", inputs := {"x": random(2, 8, 6, 6)})
    calibration = [{"x": random(2, 8, 6, 6)} for _ in range(3)]
    migraphx.quantize_int8(p, migraphx.get_target("ref"), calibration, ["convolution", "add"])
    ref = result(p, "ref", inputs)
    assert signal_to_noise(ref, want) > 28
    assert relative_error(result(p, "cpu", inputs), ref) < QUANTIZED_ERROR
    optimised = p.graph.clone()
    run_passes(optimised, PASSES)
    floats = [i for i in optimised.main if i.shape.type == "float" and i.name in ("pointwise", "group")]
    assert len(floats) == 1  # the answer
    assert "int32" not in {i.shape.type for i in optimised.main}


@pytest.mark.slow
def test_queries_keys_and_values_are_quantized_together() -> None:
    """Products of one input are one before their weights become codes, and its weights have no batch."""
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x = main.add_parameter("x", Shape("half", (2, 5, 16)))
    weights = [b.literal(random(16, 16).astype(np.float16) / 4) for _ in range(3)]
    q, k, v = (b.reshape(b.matmul(x, w), dims=(2, 5, 4, 4)) for w in weights)
    main.add_return([b.dot(b.softmax(b.dot(q, b.transpose(k, permutation=(0, 1, 3, 2))), axis=3), v)])
    want = result(p, "ref", inputs := {"x": random(2, 5, 16).astype(np.float16)})
    migraphx.quantize_int8(p, migraphx.get_target("ref"), [inputs])
    assert relative_error(result(p, "cpu", inputs), result(p, "ref", inputs)) < QUANTIZED_ERROR
    assert signal_to_noise(result(p, "ref", inputs), want) > 28
    optimised = p.graph.clone()
    run_passes(optimised, PASSES)
    (product,) = (
        i for ins in optimised.main for m in (optimised.main, *ins.modules) for i in m if i.name == "quant_dot"
    )
    assert product.inputs[1].shape.element_space == 16 * 48


def qdq(activation: str, zero: int) -> migraphx.program:
    """What ONNX's QDQ models look like: zero points, padding, weights transposed after they are dequantized."""
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x = main.add_parameter("x", Shape("float", (2, 6, 9, 9)))

    def through(value, scale: float):
        steps, zeros = b.full(scale, value), b.broadcast_to(b.literal(np.array([zero], activation)), value.shape.lens)
        return b.dequantizelinear(b.quantizelinear(value, steps, zeros), steps, zeros)

    def weights(*lens: int, axis: int):
        scale = b.broadcast(b.literal(np.abs(random(lens[axis])) / 99), axis=axis, out_lens=lens)
        return b.dequantizelinear(b.literal(RNG.integers(-128, 128, lens).astype(np.int8)), scale)

    h = b.relu(b.convolution(through(x, 0.03), weights(10, 6, 3, 3, axis=0), padding=(1, 1, 0, 2), stride=(2, 1)))
    h = through(b.reshape(h, dims=(2, -1)), 0.07)
    main.add_return([b.dot(h, b.transpose(weights(13, h.shape.lens[1], axis=0), permutation=(1, 0)))])
    return p


@pytest.mark.parametrize(("activation", "zero"), [("uint8", 120), ("int8", -7)])
def test_qdq_models(activation: str, zero: int) -> None:
    p, inputs = qdq(activation, zero), {"x": random(2, 6, 9, 9)}
    assert products(p) == {"quant_dot", "quant_convolution"}
    # where a rounding falls on the other side, one step of 255 is the error
    assert relative_error(result(p, "cpu", inputs), result(p, "ref", inputs)) < QUANTIZED_ERROR


@pytest.mark.parametrize("block", [32, 6])
def test_int4_weights(block: int) -> None:
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    w, kept = random(96, 100), random(50, 7)
    inputs = {f"x{rows}": random(1, rows, 96) for rows in (1, 2, 3, 4, 5, 70)}
    parts = []
    for name, value in inputs.items():
        h = b.dot(main.add_parameter(name, Shape.of(value)), b.multibroadcast(b.literal(w), out_lens=(1, 96, 100)))
        h = b.slice(b.relu(h), axes=(2,), starts=(0,), ends=(50,))
        parts.append(b.dot(h, b.multibroadcast(b.literal(kept), out_lens=(1, 50, 7))))
    main.add_return([b.concat(*parts, axis=1)])
    want = result(p, "ref", inputs)
    migraphx.quantize_int4_weights(p, block)
    ref = result(p, "ref", inputs)
    assert signal_to_noise(ref, want) > 17
    p.compile(migraphx.get_target("cpu"))
    assert relative_error(np.array(p.run(inputs)[0]), ref) < MODEL_ERROR
    executable: Any = p.executable
    held = sum(a.nbytes for a in executable.weights)
    packed = w.size // 2 * (-(-block // 4) * 4) // block + w.nbytes // block  # of a block four lie side by side
    assert held < 1.3 * packed + 2 * kept.nbytes + 4096  # codes, scales, what is padded to whole panels


@pytest.mark.parametrize("type", ["half", "bf16"])
def test_int4_weights_of_narrow_floats(type: str) -> None:
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x, w = main.add_parameter("x", shape := Shape(type, (3, 64))), random(5000, 64)
    main.add_return([b.dot(x, b.transpose(b.literal(w.astype(shape.numpy_dtype)), permutation=(1, 0)))])
    given = {"x": random(3, 64).astype(shape.numpy_dtype)}
    want = given["x"].astype(np.float32) @ w.T
    migraphx.quantize_int4_weights(p)
    p.compile(migraphx.get_target("ref"))
    assert "unpack_int4" in str(p) and p.get_output_shapes()[0].type_string() == f"{type}_type"
    assert signal_to_noise(np.array(p.run(given)[0]).astype(np.float32), want) > 17


def test_autocast() -> None:
    p = migraphx.program()
    main = p.graph.main
    b = Builder(main)
    x = main.add_parameter("x", Shape("fp8e4m3fn", (3, 4)))
    main.add_return([b.add(x, x)])
    migraphx.autocast_fp8(p)
    assert [s.type_string() for s in (*p.get_parameter_shapes().values(), *p.get_output_shapes())] == ["float_type"] * 2
    inputs = {"x": np.array([[1, 2.1, 1000, -3]] * 3, np.float32)}
    rounded = inputs["x"].astype(main.last.inputs[0].inputs[0].shape.numpy_dtype).astype(np.float32)  # type: ignore[union-attr]
    np.testing.assert_array_equal(result(p, "cpu", inputs), 2 * rounded)


def test_autocast_replaces_parameters_in_their_order() -> None:
    programs = []
    for types in (("fp8e4m3fnuz",) * 2, ("float",) * 2):
        p = migraphx.program()
        b = Builder(p.graph.main)
        for name, type in zip("xy" if types[0] != "float" else "yx", types, strict=True):
            p.graph.main.add_parameter(name, Shape(type))
        y, x = (b.cast(p.graph.main.parameters[name], "fp8e4m3fnuz") for name in "yx")
        p.graph.main.add_return([b.cast(b.add(x, y), types[0])])
        programs.append(p)
    migraphx.autocast_fp8(programs[0])
    assert programs[0] == programs[1]


def test_values_that_were_zero_in_calibration_have_a_scale() -> None:
    p = migraphx.program()
    b = Builder(p.graph.main)
    weights = random(4, 3)
    weights[:, 1] = 0
    x = p.graph.main.add_parameter("x", Shape("float", (2, 4)))
    p.graph.main.add_return([b.dot(x, b.literal(weights))])
    migraphx.quantize_int8(p, migraphx.get_target("ref"), [{"x": np.zeros((2, 4), np.float32)}])
    ones = np.ones((2, 4), np.float32)
    assert relative_error(result(p, "ref", {"x": ones}), ones @ weights) < 0.02


def test_products_of_no_elements_stay() -> None:
    p = migraphx.program()
    b = Builder(p.graph.main)
    x = p.graph.main.add_parameter("x", Shape("float", (0, 4)))
    p.graph.main.add_return([b.dot(x, b.literal(np.ones((4, 3), np.float32)))])
    migraphx.quantize_int8(p, migraphx.get_target("ref"), [{"x": np.empty((0, 4), np.float32)}])
    assert [i.name() for i in p.get_main_module()].count("dot") == 1
    p.compile(migraphx.get_target("cpu"))
    assert np.array(p.run({"x": np.empty((0, 4), np.float32)})[0]).shape == (0, 3)


def test_bad_input() -> None:
    p, target = network(), migraphx.get_target("ref")
    with pytest.raises(ValueError, match="cannot quantize 'relu'"):
        migraphx.quantize_int8(p, target, ins_names=["relu"])
    with pytest.raises(ValueError, match="not finite"):
        migraphx.quantize_int8(p, target, [{"x": np.full((2, 3, 20, 20), np.nan, np.float32)}])
    with pytest.raises(ValueError, match="must be even"):
        migraphx.quantize_int4_weights(p, 7)
    p.compile(target)
    for quantize in (migraphx.quantize_int4_weights, migraphx.autocast_fp8):
        with pytest.raises(RuntimeError, match="before compiling"):
            quantize(p)


@pytest.mark.parametrize("quantize", ["quantize_int8", "quantize_fp8", "quantize_int4_weights"])
def test_dynamic_programs_are_refused(quantize: str) -> None:
    p = migraphx.program()
    b = Builder(p.graph.main)
    x = p.graph.main.add_parameter("tokens", Shape("float", dyn_dims=(DynamicDimension(1, 4), DynamicDimension(8, 8))))
    p.graph.main.add_return([b.dot(x, b.literal(random(8, 3)))])
    target = () if quantize == "quantize_int4_weights" else (migraphx.get_target("ref"),)
    with pytest.raises(ValueError, match=r"fixed shapes.*'tokens'.*map_input_dims"):
        getattr(migraphx, quantize)(p, *target)
