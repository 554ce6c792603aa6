"""Models whose input is a map, as exporters of scikit-learn's DictVectorizer write them, agree with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import migraphx
import migraphx.backend

F, I64, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def model(op: str, key: int, value: int, out: int, **given: Any) -> onnx.ModelProto:
    info = onnx.ValueInfoProto(name="x")
    info.type.map_type.key_type = key
    info.type.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(value, []))
    node = helper.make_node(op, ["x"], ["y"], name="it", domain="ai.onnx.ml", **given)
    graph = helper.make_graph([node], "g", [info], [helper.make_tensor_value_info("y", out, None)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


CASES = [
    (model("DictVectorizer", S, F, F, string_vocabulary=["a", "c", "b", "z"]), [{"a": 4.0, "c": 8.5}, {"b": 1.0}]),
    (model("DictVectorizer", I64, F, F, int64_vocabulary=[7, 3, 5]), [{3: 0.5, 7: 2.0}, {3: 1.5, 7: 1.0}]),
    (model("CastMap", I64, F, F), [{3: 0.5, 1: 2.0}]),
    (model("CastMap", I64, F, I64, cast_to="TO_INT64", map_form="SPARSE", max_map=5), [{3: 2.5, 1: 2.0}]),
]


@pytest.mark.parametrize(
    ("proto", "inputs"), CASES, ids=[c[0].graph.node[0].op_type + str(k) for k, c in enumerate(CASES)]
)
def test_agrees(proto: onnx.ModelProto, inputs: list[dict]) -> None:
    prepared = migraphx.backend.RefBackend.prepare(proto)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in inputs:
        want, (got,) = np.asarray(session.run(None, {"x": x})[0]), prepared.run([x])
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_what_does_not_enter_onnx_runtime_by_python() -> None:
    for proto, x, want in (
        (model("DictVectorizer", S, I64, I64, string_vocabulary=["a", "c", "d"]), {"c": 3, "a": 2}, [[2, 3, 0]]),
        (model("DictVectorizer", I64, S, S, int64_vocabulary=[1, 2, 3]), {3: "x", 1: "y"}, [["y", "", "x"]]),
        (model("CastMap", I64, S, F), {3: "0.5", 1: "2"}, [[2.0, 0.5]]),
    ):
        (got,) = migraphx.backend.RefBackend.prepare(proto).run([x])
        assert got.tolist() == want


def test_other_values_of_the_same_keys_compile_nothing() -> None:
    proto, (one, other) = CASES[1]
    prepared = migraphx.backend.RefBackend.prepare(proto)
    prepared.run([one])
    prepared.run([other])
    assert len(list(prepared.compiled.values())) == 1


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"'x' is a map.*migraphx.backend"):
        migraphx.parse_onnx_buffer(CASES[0][0].SerializeToString())
    run = migraphx.backend.RefBackend.prepare
    with pytest.raises(ValueError, match="max_map"):
        run(model("CastMap", I64, F, F, map_form="SPARSE", max_map=2)).run([{3: 1.0}])
    with pytest.raises(ValueError, match="vocabulary"):
        run(model("DictVectorizer", S, F, F)).run([{"a": 1.0}])
