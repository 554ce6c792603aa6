"""The standard's backend interface."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import migraphx.backend as backend
from migraphx.onnx.graph import OnnxError
from tests.limits import HANG
from tests.onnx.one_node import model, one_node
from tests.tolerances import assert_close

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def made(data: bytes) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(data)


def typed(nodes: list, inputs: list, outputs: list, opset: int = 21) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "small", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def test_a_model_runs():
    relu = made(one_node("Relu", [X]))
    (got,) = backend.run_model(relu, [X - 3])
    np.testing.assert_array_equal(got, np.maximum(X - 3, 0))
    (got,) = backend.prepare(relu).run({"x0": X})
    np.testing.assert_array_equal(got, X)


def test_a_node_runs():
    (got,) = backend.run_node(helper.make_node("Add", ["a", "b"], ["c"]), [X, X])
    np.testing.assert_array_equal(got, X + X)
    (got,) = backend.run_node(helper.make_node("Softmax", ["a"], ["c"], axis=1), [X], opset_version=12)
    assert_close(got.sum(1), np.ones(2, np.float32))


def test_shapes_come_with_the_inputs():
    names = {"x": (TensorProto.FLOAT, ["batch", None])}
    prepared = backend.prepare(made(model([helper.make_node("Neg", ["x"], ["y"])], names, ["y"])))
    for lens in ((2, 3), (4, 1), (2, 3)):
        (got,) = prepared.run([np.ones(lens, np.float32)])
        np.testing.assert_array_equal(got, -np.ones(lens, np.float32))
    assert len(prepared.compiled) == 2


def test_only_values_that_shapes_depend_on_are_compiled_in():
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"])
    prepared = backend.prepare(made(model([node], {"x": X, "k": np.array([1])}, ["values", "places"])))
    for k in (1, 3):
        values, _ = prepared.run([X, np.array([k])])
        np.testing.assert_array_equal(values, np.sort(X, 1)[:, ::-1][:, :k])
    assert prepared.fixed == {"k"}


def test_threads_compile_a_shape_once(monkeypatch: pytest.MonkeyPatch):
    compilations = []
    importing = backend.import_model
    monkeypatch.setattr(backend, "import_model", lambda *a: compilations.append(a) or importing(*a))
    prepared = backend.RefBackend.prepare(made(one_node("Neg", [X])))
    together = Barrier(4)

    def run(_: int) -> np.ndarray:
        together.wait(HANG)
        return prepared.run([X])[0]

    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(run, range(4)):
            np.testing.assert_array_equal(got, -X)
    assert len(compilations) == 1


def test_old_programs_are_forgotten():
    prepared = backend.RefBackend.prepare(made(one_node("Neg", [X])))
    prepared.model.graph.infos["x0"] = type(prepared.model.graph.infos["x0"])("x0", "float", (None,))
    for n in range(backend.MOST_KEPT + 3):
        prepared.run([np.ones(n + 1, np.float32)])
    assert len(prepared.compiled) == backend.MOST_KEPT


def test_sequences_and_optionals():
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    items = onnx.ValueInfoProto(name="s", type=helper.make_sequence_type_proto(kind))
    maybe = onnx.ValueInfoProto(name="o", type=helper.make_optional_type_proto(kind))
    nodes = [
        helper.make_node("SequenceInsert", ["s", "x"], ["more"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    results = [onnx.ValueInfoProto(name=n) for n in ("more", "has")]
    results[0].type.CopyFrom(items.type)
    results[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, ()))
    prepared = backend.prepare(typed(nodes, [items, x, maybe], results))
    more, has = prepared.run([[X, X[0]], X + 1, None])
    assert [m.shape for m in more] == [(2, 3), (3,), (2, 3)] and not has
    np.testing.assert_array_equal(more[2], X + 1)
    more, has = prepared.run([[], X, X])
    assert len(more) == 1 and has


def test_strings():
    text = [helper.make_tensor_value_info(n, TensorProto.STRING, [None]) for n in ("a", "b")]
    nodes = [helper.make_node("StringConcat", ["a", "b"], ["c"]), helper.make_node("Equal", ["a", "b"], ["same"])]
    results = [
        helper.make_tensor_value_info("c", TensorProto.STRING, [None]),
        helper.make_tensor_value_info("same", TensorProto.BOOL, [None]),
    ]
    prepared = backend.prepare(typed(nodes, text, results))
    for b in (["x", "y"], ["x", ""]):
        joined, same = prepared.run([np.array(["x", "q"], object), np.array(b, object)])
        assert joined.tolist() == ["x" + b[0], "q" + b[1]]
        assert same.tolist() == [True, False]
    wrong = typed([helper.make_node("Neg", ["a"], ["c"])], text[:1], results[:1])
    with pytest.raises(OnnxError, match=r"c \(Neg\): its input 0 is a tensor of strings, must be a tensor"):
        backend.prepare(wrong).run([np.array(["x"], object)])


def test_devices_and_support():
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    relu = made(one_node("Relu", [X]))
    assert backend.is_compatible(relu)
    odd = made(one_node("Relu", [X]))
    odd.graph.node[0].domain = "nobody"
    odd.opset_import.append(helper.make_opsetid("nobody", 1))
    assert not backend.is_compatible(odd)
    with pytest.raises(OnnxError, match=r"nobody\.Relu"):
        backend.prepare(odd)
    with pytest.raises(ValueError, match="does not run on device 'CUDA'"):
        backend.prepare(relu, "CUDA")


def test_bad_input():
    prepared = backend.prepare(made(one_node("Relu", [X])))
    with pytest.raises(ValueError, match="inputs are"):
        prepared.run({"y": X})
    with pytest.raises(ValueError, match="longer"):
        prepared.run([X, X])
    with pytest.raises(TypeError, match="verbose"):
        prepared.run([X], verbose=1)
    with pytest.raises(ValueError, match="must have shape"):
        prepared.run([X.astype(np.float64)])
