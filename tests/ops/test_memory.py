"""Buffers, caches and chosen modules on ref and cpu; the oracles are NumPy and onnxruntime."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import migraphx
from migraphx.ir.operation import ShapeError
from tests.tolerances import assert_close

TARGETS = ("ref", "cpu")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def shape(type: str, *lens: int, strides: list[int] | None = None) -> migraphx.shape:
    return migraphx.shape(type=type, lens=list(lens), strides=strides)


def run(name: str, arrays: list[np.ndarray], target: str, **attributes) -> np.ndarray:
    """One operator on parameters, between two additions of 0 so that it is not at the edge of the program."""
    p = migraphx.program()
    main = p.get_main_module()
    inputs = [main.add_parameter(f"x{k}", migraphx.argument(a).get_shape()) for k, a in enumerate(arrays)]
    main.add_return([main.add_instruction(migraphx.op(name, **attributes), inputs)])
    assert str(migraphx.load_buffer(migraphx.save_buffer(p))) == str(p)
    p.compile(migraphx.get_target(target))
    return np.array(p.run({f"x{k}": a for k, a in enumerate(arrays)})[0])


@pytest.mark.parametrize("target", TARGETS)
def test_buffers(target: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3)).astype(np.float32)
    assert not run("allocate", [], target, shape=shape("int64", 2, 3)).any()
    assert not run("outline", [], target, shape=shape("float", 4)).any()
    assert (run("fill", [np.array([7], np.float32), x], target) == 7).all()
    got = run("as_shape", [x], target, shape=shape("float", 3, 2, strides=[1, 3]))
    assert np.array_equal(got, x.reshape(-1)[np.arange(3)[:, None] + 3 * np.arange(2)])
    got = run("load", [x], target, shape=shape("int32", 2, 2), offset=8)
    assert np.array_equal(got, x.reshape(-1)[2:].view(np.int32).reshape(2, 2))
    assert np.array_equal(run("capture", [x], target, ins_index=3), x)
    assert np.array_equal(run("fixed_pad", [x], target, output_lens=[4, 3]), np.pad(x, ((0, 2), (0, 0))))


@pytest.mark.parametrize("target", TARGETS)
def test_memory_as_long_as_values_say(target: str) -> None:
    assert run("allocate", [np.array([2, 5])], target, buf_type="float").shape == (2, 5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [1, 3])
def test_a_cache_takes_new_steps(target: str, steps: int, rng: np.random.Generator) -> None:
    new, cache = (rng.standard_normal((3, 2, n, 4)).astype(np.float32) for n in (steps, 6))
    lengths = np.array([0, 5, 6], np.int32)  # the last one is full
    want = cache.copy()
    for n, length in enumerate(lengths if steps == 1 else [0, 0, 0]):
        if length < 6:
            want[n, :, length : length + steps] = new[n]
    assert np.array_equal(run("concat_past_present", [new, lengths, cache], target, kv_num_heads=2), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("steps", "interleaved"), [(1, False), (1, True), (4, False), (4, True)])
def test_turned_queries_and_keys(target: str, steps: int, interleaved: bool, rng: np.random.Generator) -> None:
    """As com.microsoft's RotaryEmbedding turns them; values stay."""
    x = rng.standard_normal((2, 3 + 2 * 2, steps, 8)).astype(np.float32)
    angle = rng.standard_normal((9, 4)).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)
    lengths = np.array([2, 7], np.int32)
    at = lengths[:, None].astype(np.int64) if steps == 1 else np.tile(np.arange(steps), (2, 1))
    node = helper.make_node(
        "RotaryEmbedding", ["x", "at", "cos", "sin"], ["y"], domain="com.microsoft", interleaved=int(interleaved)
    )
    infos = [
        helper.make_tensor_value_info(n, t, None)
        for n, t in (("x", 1), ("at", TensorProto.INT64), ("cos", 1), ("sin", 1))
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (turned,) = session.run(None, {"x": x[:, :5], "at": at, "cos": cos, "sin": sin})
    got = run(
        "gqa_rotary_embedding", [x, lengths, cos, sin], target, num_heads=3, kv_num_heads=2, interleaved=interleaved
    )
    assert_close(got, np.concatenate([np.asarray(turned), x[:, 5:]], 1))


def choosing(lens: list) -> migraphx.program:
    """doubles {2, 3}, negates {4, 3}"""
    p = migraphx.program()
    main, inner = p.get_main_module(), []
    for rows, name in ((2, "add"), (4, "neg")):
        m = p.create_module(f"for{rows}")
        x = m.add_parameter("x", shape("float", rows, 3))
        m.add_return([m.add_instruction(migraphx.op(name), [x, x] if name == "add" else [x])])
        inner.append(m)
    x = main.add_parameter("x", migraphx.shape(type="float", dyn_dims=lens) if lens else shape("float", 4, 3))
    made = main.add_instruction(migraphx.op("select_module"), [x], inner)
    main.add_return([main.add_instruction(migraphx.op("get_tuple_elem", index=0), [made])])
    return p


@pytest.mark.parametrize("target", TARGETS)
def test_a_module_is_chosen(target: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 3)).astype(np.float32)
    p = choosing([])
    p.compile(migraphx.get_target(target))
    assert np.array_equal(np.array(p.run({"x": x})[0]), -x)


def test_bad_input() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ShapeError, match="does not fit its memory"):
        run("as_shape", [x], "ref", shape=shape("float", 7))
    with pytest.raises(ShapeError, match="reaches beyond"):
        run("load", [x], "ref", shape=shape("float", 3), offset=16)
    with pytest.raises(ShapeError, match="none smaller"):
        run("fixed_pad", [x], "ref", output_lens=[1, 3])
    with pytest.raises(ShapeError, match="a shape or lens, not both"):
        run("allocate", [np.array([2])], "ref", shape=shape("float", 2))
    with pytest.raises(IndexError, match="outside of 2"):
        table = np.zeros((2, 1), np.float32)
        run("gqa_rotary_embedding", [np.zeros((1, 3, 1, 2), np.float32), np.array([5]), table, table], "ref")
