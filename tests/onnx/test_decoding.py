"""GroupQueryAttention step by step on caches that stay where they are, against ONNX Runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import migraphx
from tests.tiers import few_rows
from tests.tolerances import assert_close

ROOM = 8  # positions of the caches


def model(batch: int, length: int | str, **attributes: Any) -> bytes:
    """4 heads on 2 of keys, 16 numbers each; how many keys there are is an input."""

    def info(name: str, dims: Sequence[int | str], type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, type, dims)

    cache = (batch, 2, ROOM, 16)
    inputs = [info("q", (batch, length, 64)), info("k", (batch, length, 32)), info("v", (batch, length, 32))]
    inputs += [info("past_k", cache), info("past_v", cache)]
    inputs += [info("seqlens", (batch,), TensorProto.INT32), info("total", (1,), TensorProto.INT32)]
    inputs += [info("cos", (ROOM, 8)), info("sin", (ROOM, 8))]
    outputs = [info("y", (batch, length, 64)), info("present_k", cache), info("present_v", cache)]
    node = helper.make_node(
        "GroupQueryAttention", [i.name for i in inputs], [o.name for o in outputs], domain="com.microsoft",
        num_heads=4, kv_num_heads=2, do_rotary=1, **attributes,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "decoder", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def step(batch: int, length: int, seqlens: Sequence[int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    lens = {"q": 64, "k": 32, "v": 32}
    given = {n: rng.standard_normal((batch, length, m)).astype(np.float32) for n, m in lens.items()}
    return {**given, "seqlens": np.array(seqlens, np.int32), "total": np.array([max(seqlens) + 1], np.int32)}


@pytest.mark.parametrize(("batch", "window"), few_rows([(1, -1), (2, 3)], (2, 3)))
def test_steps_are_one_program(batch: int, window: int) -> None:
    """A prompt of 3 and steps of 1; of two items one is shorter. Programs are compiled once, caches bound in place."""
    rng = np.random.default_rng(0)
    angles = {n: rng.standard_normal((ROOM, 8)).astype(np.float32) for n in ("cos", "sin")}
    mine, theirs = ({n: np.zeros((batch, 2, ROOM, 16), np.float32) for n in ("past_k", "past_v")} for _ in range(2))
    programs = {}
    for length, seqlens in ((3, (2, 1)), (1, (3, 2)), (1, (4, 3)), (1, (5, 4)), (1, (6, 5)), (1, (7, 6))):
        text = model(batch, length, local_window_size=window)
        given = {**step(batch, length, seqlens[:batch], rng), **angles}
        session = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
        made: Any = session.run(None, {**given, **theirs})
        want, theirs["past_k"], theirs["past_v"] = made
        if length not in programs:
            programs[length] = migraphx.parse_onnx_buffer(text)
            programs[length].compile(migraphx.get_target("cpu"), offload_copy=False)
        got = np.empty((batch, length, 64), np.float32)
        bound = {"main:#output_0": got, "main:#output_1": mine["past_k"], "main:#output_2": mine["past_v"]}
        programs[length].run({**given, **mine, **bound})
        for item in range(batch):
            filled, rows = seqlens[item] + 1, length if length == 1 else seqlens[item] + 1
            assert_close(got[item, :rows], want[item, :rows])
            for n in ("past_k", "past_v"):
                assert_close(mine[n][item, :, :filled], theirs[n][item, :, :filled])
    assert programs[1].get_in_place() == {"main:#output_1": "past_k", "main:#output_2": "past_v"}


def test_a_cache_that_is_full_is_an_error() -> None:
    program = migraphx.parse_onnx_buffer(model(1, 1))
    program.compile(migraphx.get_target("ref"))
    rng = np.random.default_rng(0)
    caches = {n: np.zeros((1, 2, ROOM, 16), np.float32) for n in ("past_k", "past_v")}
    angles = {n: np.zeros((ROOM, 8), np.float32) for n in ("cos", "sin")}
    with pytest.raises(IndexError):
        program.run({**step(1, 1, (ROOM,), rng), **caches, **angles})
