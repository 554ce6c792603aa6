"""What cannot be read is an error that names the place; nothing outside the model's folder is opened."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import migraphx
from tests.onnx.one_node import model, one_node

X = np.ones((2, 3), np.float32)
F = TensorProto.FLOAT


def refused(data: bytes, *words: str, **options):
    with pytest.raises(ValueError) as error:
        migraphx.parse_onnx_buffer(data, **options)
    for word in words:
        assert word in str(error.value), str(error.value)


def node(op, inputs, outputs, name="it", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def test_truncated_file_at_every_length(tmp_path):
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    whole = model([node("MatMul", ["x", "w"], ["y"])], {"x": np.ones((2, 64), np.float32)}, ["y"], {"w": weight})
    path = tmp_path / "cut.onnx"
    for length in [*range(0, 120, 7), 500, 5000, len(whole) - 200, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.onnx"):
            migraphx.parse_onnx(path)
    assert migraphx.parse_onnx_buffer(whole).get_parameter_names() == ["x"]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        migraphx.parse_onnx(tmp_path / "none.onnx")


def test_unknown_operators_are_all_listed():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Relux", ["a"], ["b"], "first"),
        node("Relux", ["b"], ["c"], "second"),
        node("Magic", ["c"], ["y"], "third", domain="my.domain"),
    ]
    data = model(nodes, {"x": X}, ["y"])
    refused(data, "Relux: 2 nodes, the first first", "my.domain.Magic: 1 nodes, the first third")
    program = migraphx.parse_onnx_buffer(data, skip_unknown_operators=True)
    assert str(program).count("unknown[op=Relux]") == 2
    program.compile(migraphx.get_target("ref"))
    with pytest.raises(NotImplementedError, match="Relux"):
        program.run({"x": X})


def test_nodes_out_of_order_are_sorted():
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])]
    program = migraphx.parse_onnx_buffer(model(nodes, {"x": X}, ["y"]))
    assert "relu" in str(program)


def test_names_of_the_graph():
    refused(model([node("Relu", ["x"], ["y"])], {"x": X}, ["z"]), "output 'z'")
    twice = onnx.ModelProto.FromString(model([node("Relu", ["w"], ["y"])], {}, ["y"], {"w": X}))
    twice.graph.initializer.append(twice.graph.initializer[0])
    refused(twice.SerializeToString(), "initializer 'w' is there twice")


def test_wrong_attributes():
    refused(model([node("LeakyRelu", ["x"], ["y"], beta=1.0)], {"x": X}, ["y"]), "'beta'")
    refused(model([node("Concat", ["x", "x"], ["y"])], {"x": X}, ["y"]), "'axis' is missing")
    refused(model([node("Relu", ["x", "x"], ["y"])], {"x": X}, ["y"]), "takes 1 inputs, got 2")


def test_missing_inputs_and_names():
    refused(model([node("Flatten", [""], ["y"])], {"x": X}, ["y"]), "it (Flatten)")
    refused(model([node("Add", ["", "x"], ["y"])], {"x": X}, ["y"]), "it (Add)", "its input 0 is missing")
    refused(model([node("Relu", ["x"], ["y"])], {"x": X}, ["y", ""]), "output ''")


def test_shapes_that_do_not_fit_name_the_node():
    refused(one_node("Add", [X, np.ones((4, 5), np.float32)]), "it (Add)", "float[2, 3], float[4, 5]")
    refused(one_node("Softmax", [X], axis=5), "it (Softmax)")
    conv = one_node("Conv", [np.ones((1, 4, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)])
    refused(conv, "it (Conv)", "channels")


def test_newer_opset_and_none():
    refused(model([node("Relu", ["x"], ["y"])], {"x": X}, ["y"], opset=999), "opset 999")
    bare = onnx.ModelProto.FromString(model([node("Relu", ["x"], ["y"])], {"x": X}, ["y"]))
    del bare.opset_import[:]
    refused(bare.SerializeToString(), "opset")


def test_inputs_that_are_no_tensors():
    data = onnx.ModelProto.FromString(model([node("Identity", ["x"], ["y"])], {"x": X}, ["y"]))
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, [2]))
    data.graph.input[0].type.CopyFrom(kind)
    refused(data.SerializeToString(), "input 'x'", "sequence")
    refused(
        model([node("Relu", ["x"], ["y"])], {"x": (TensorProto.STRING, [2])}, ["y"]),
        "input 'x'",
        "holds strings",
    )
    refused(model([node("Relu", ["x"], ["y"])], {"x": (F, None)}, ["y"]), "input 'x'", "map_input_dims")


def test_options_that_do_not_fit():
    data = model([node("Relu", ["data"], ["y"])], {"data": (F, ["batch", 3])}, ["y"])
    refused(data, "'dato'", "did you mean 'data'", map_input_dims={"dato": [1, 2]})
    refused(data, "'bach'", "did you mean 'batch'", dim_params={"bach": 2})
    refused(data, "2 dimensions", map_input_dims={"data": [1]})
    refused(data, "length", default_dim_value=-1)
    batch = migraphx.shape.dynamic_dimension(1, 4)
    refused(data, "both give 'data'", map_input_dims={"data": [1, 3]}, map_dyn_input_dims={"data": [batch, 3]})
    refused(data, "not both", default_dim_value=2, default_dyn_dim_value=batch)


def test_function_that_calls_itself():
    body = helper.make_function(
        "mine",
        "Again",
        ["a"],
        ["b"],
        [node("Again", ["a"], ["b"], domain="mine")],
        [helper.make_opsetid("mine", 1)],
    )
    data = model([node("Again", ["x"], ["y"], domain="mine")], {"x": X}, ["y"], functions=[body])
    refused(data, "calls itself")


# ---- external data ----


def external(folder, location, data=b"", **entries) -> str:
    tensor = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.append(onnx.StringStringEntryProto(key=key, value=str(value)))
    whole = onnx.ModelProto.FromString(
        model([node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": np.ones(3, np.float32)})
    )
    whole.graph.initializer[0].CopyFrom(tensor)
    (folder / "m.onnx").write_bytes(whole.SerializeToString())
    return str(folder / "m.onnx")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    return inner


def test_external_data(folder):
    program = migraphx.parse_onnx(external(folder, "w.bin"))
    program.compile(migraphx.get_target("ref"))
    np.testing.assert_array_equal(np.array(program.run({"x": X})[0]), X + np.arange(3))


@pytest.mark.parametrize("location", ["../secret.bin", "sub/../../secret.bin", "", "link.bin"])
def test_external_data_outside_the_folder(folder, location):
    os.symlink(folder.parent / "secret.bin", folder / "link.bin")
    with pytest.raises(ValueError, match=r"tensor 'w'.*not inside the model's folder"):
        migraphx.parse_onnx(external(folder, location))


def test_external_data_by_absolute_path(folder):
    with pytest.raises(ValueError, match="not inside"):
        migraphx.parse_onnx(external(folder, str(folder.parent / "secret.bin")))


def test_external_data_elsewhere_on_purpose(folder):
    program = migraphx.parse_onnx(external(folder, "secret.bin"), external_data_path=str(folder.parent))
    assert "@literal" in str(program)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "none.bin"}, "does not exist"),
        ({"location": "w.bin", "offset": 4, "length": 12}, "bytes 4 to 16"),
        ({"location": "w.bin", "offset": -4}, "are not in"),
        ({"location": "w.bin", "offset": "many"}, "no number"),
        ({"location": "w.bin", "length": 8}, "8 bytes"),
    ],
)
def test_damaged_external_data(folder, entries, words):
    with pytest.raises(ValueError, match=words):
        migraphx.parse_onnx(external(folder, **entries))


def test_external_data_from_a_buffer(folder):
    data = Path(external(folder, "w.bin")).read_bytes()
    refused(data, "external_data_path")
    migraphx.parse_onnx_buffer(data, external_data_path=str(folder))


# ---- what a converter does not take, what would not end ----


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Concat", ["", "x"], ["y"], axis=0)], "its input 0 is missing"),
        ([node("Max", ["x", "", "x"], ["y"])], "its input 1 is missing"),
        ([node("QuickGelu", [""], ["y"], domain="com.microsoft")], "its input 0 is missing"),
        ([node("FusedMatMul", ["x"], ["y"], domain="com.microsoft")], "its input 1 is missing"),
        ([node("QuickGelu", ["x", "x"], ["y"], domain="com.microsoft")], "at most 1 inputs, got 2"),
        ([node("RotaryEmbedding", ["x"] * 4, ["y"], domain="com.microsoft", odd=1)], "'odd' is not supported"),
        ([node("MatMulNBits", ["x"] * 3, ["y"], domain="com.microsoft", K=1, N=1)], "'block_size' is missing"),
        ([node("SequenceConstruct", ["x"], ["s"]), node("Relu", ["s"], ["y"])], "is a sequence, must be a tensor"),
        ([node("SequenceAt", ["x", "x"], ["y"])], "is a tensor, must be a sequence"),
        ([node("Split", ["x"], ["y", "z"], num_outputs=2**40)], "the node has 2 outputs"),
        ([node("Tile", ["x", "huge"], ["y"])], "more than 2**63 elements"),
        ([node("Expand", ["one", "long"], ["e"]), node("SplitToSequence", ["e"], ["y"])], "at most 65536 pieces"),
    ],
)
def test_refused_by_name(nodes, words):
    sizes = {"huge": np.array([2**40, 2**40]), "long": np.array([2**40]), "one": np.ones(1, np.float32)}
    used = {n: v for n, v in sizes.items() if any(n in m.input for m in nodes)}
    message = onnx.ModelProto.FromString(model(nodes, {"x": np.ones((1, 3), np.float32)}, ["y"], used))
    message.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    last = nodes[-1]
    refused(message.SerializeToString(), f"({last.domain and 'com.microsoft.'}{last.op_type})", words)


def test_functions_that_multiply(monkeypatch):
    """Each calls the one before four times: 4 ** 12 nodes."""
    monkeypatch.setattr("migraphx.onnx.importer.MOST_EXPANDED", 2**12)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    made = [helper.make_function("mine", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], opsets)]
    for k in range(1, 13):
        calls = [node(f"F{k - 1}", [f"a{i}"], [f"a{i + 1}"], domain="mine") for i in range(4)]
        made.append(helper.make_function("mine", f"F{k}", ["a0"], ["a4"], calls, opsets))
    data = model([node("F12", ["x"], ["y"], domain="mine")], {"x": X}, ["y"], functions=made)
    refused(data, "functions and loops make more than")
