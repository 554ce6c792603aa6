"""What the importer does around the converters: shapes, constants, origins, functions, branches, loops."""

import inspect
import pickle

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import migraphx
from migraphx.onnx.registry import CONVERTERS, LEGACY, converter, find
from tests.onnx.one_node import model, one_node, ours, theirs
from tests.tolerances import assert_close

F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def node(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def lens(data, **options):
    shapes = migraphx.parse_onnx_buffer(data, **options).get_parameter_shapes()
    return {n: s.lens() for n, s in shapes.items()}


# ---- inputs ----


def test_dimensions():
    data = model([node("Relu", ["x"], ["y"])], {"x": (F, ["batch", 3, None])}, ["y"])
    assert lens(data) == {"x": [1, 3, 1]}
    assert lens(data, default_dim_value=4) == {"x": [4, 3, 4]}
    assert lens(data, dim_params={"batch": 7}) == {"x": [7, 3, 1]}
    assert lens(data, map_input_dims={"x": [5, 6, 7]}) == {"x": [5, 6, 7]}
    fixed = migraphx.shape.dynamic_dimension(2, 2)
    assert lens(data, dim_params={"batch": fixed}) == {"x": [2, 3, 1]}


def test_dimensions_of_one_name_have_the_length_that_another_input_is_given():
    names = {"a": (F, ["n", "t"]), "b": (F, ["t", "n"]), "c": (F, ["n", None])}
    data = model([node("Identity", [i], [f"{i}y"]) for i in names], names, [f"{i}y" for i in names])
    assert lens(data, map_input_dims={"a": [2, 7]}) == {"a": [2, 7], "b": [7, 2], "c": [2, 1]}
    told = {"map_input_dims": {"a": [2, 7]}, "dim_params": {"t": 5}, "default_dim_value": 9}
    assert lens(data, **told) == {"a": [2, 7], "b": [5, 2], "c": [2, 9]}
    assert lens(data, map_input_dims={"a": [2, 7], "b": [7, 3]}) == {"a": [2, 7], "b": [7, 3], "c": [1, 1]}
    rows = migraphx.shape.dynamic_dimension(1, 8)
    program = migraphx.parse_onnx_buffer(data, map_dyn_input_dims={"a": [rows, 7]})
    found = program.get_parameter_shapes()
    assert found["b"].dyn_dims()[1] == found["c"].dyn_dims()[0] == rows
    program.compile(migraphx.get_target("ref"))
    with pytest.raises(ValueError, match="both are 'n' and must be equal"):
        program.run(
            {"a": np.ones((2, 7), np.float32), "b": np.ones((7, 3), np.float32), "c": np.ones((2, 1), np.float32)}
        )


def test_an_error_says_which_open_lengths_were_chosen():
    pooled = [node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2])]
    data = model(pooled, {"x": (F, ["batch", 3, "height", None])}, ["y"])
    with pytest.raises(ValueError, match=r"node pool .* taken as 1: batch, height, a dimension of x$"):
        migraphx.parse_onnx_buffer(data)
    with pytest.raises(ValueError, match=r"node pool .*float\[1, 3, 1, 1\]\)$"):
        migraphx.parse_onnx_buffer(data, map_input_dims={"x": [1, 3, 1, 1]})


def test_initializers_that_are_inputs_are_constants():
    data = model([node("Add", ["x", "w"], ["y"])], {"x": X, "w": X}, ["y"], {"w": X})
    assert lens(data) == {"x": [2, 3]}


def test_files_and_buffers_agree(tmp_path):
    data = one_node("Relu", [X])
    (tmp_path / "m.onnx").write_bytes(data)
    assert migraphx.parse_onnx(str(tmp_path / "m.onnx")) == migraphx.parse_onnx_buffer(data)


def test_output_names_and_origins():
    data = model([node("Relu", ["x"], ["a"], "first"), node("Neg", ["a"], ["y"], "")], {"x": X}, ["y", "a"])
    program = migraphx.parse_onnx_buffer(data)
    origins = {i.name: i.origin for i in program.graph.main if i.name in ("relu", "neg")}
    assert origins == {"relu": "first (Relu)", "neg": "y (Neg)"}
    assert len(program.get_output_shapes()) == 2


def test_debug_symbols_add_the_source():
    made = node("Relu", ["x"], ["y"], "first")
    made.doc_string = "model.py:12"
    data = model([made], {"x": X}, ["y"])
    program = migraphx.parse_onnx_buffer(data, use_debug_symbols=True)
    assert [i.origin for i in program.graph.main if i.name == "relu"] == ["first (Relu) model.py:12"]


def test_print_program_on_error(capsys):
    data = model(
        [node("Relu", ["x"], ["a"]), node("Add", ["a", "b"], ["y"])],
        {"x": X, "b": np.ones((4, 4), np.float32)},
        ["y"],
    )
    with pytest.raises(ValueError):
        migraphx.parse_onnx_buffer(data, print_program_on_error=True)
    assert "relu" in capsys.readouterr().err


# ---- constants ----


def test_shapes_are_computed():
    """Shape, Gather, Concat, Range and ConstantOfShape leave nothing but constants behind."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Squeeze", ["n"], ["k"]),
        node("Range", ["zero", "k", "step"], ["r"]),
        node("Concat", ["n", "s"], ["wide"], axis=0),
        node("ConstantOfShape", ["wide"], ["c"]),
        node("Expand", ["x", "wide"], ["e"]),
        node("Add", ["e", "c"], ["f"]),
        node("Cast", ["r"], ["q"], to=F),
        node("Add", ["f", "q"], ["y"]),
    ]
    constants = {"one": np.array([1]), "zero": np.array(0), "step": np.array(1)}
    data = model(nodes, {"x": X}, ["y"], constants)
    (got,), (want,) = ours(data, {"x": X}), theirs(data, {"x": X})
    np.testing.assert_array_equal(got, want)
    names = {i.name() for i in migraphx.parse_onnx_buffer(data).get_main_module()}
    assert names <= {"@literal", "@param", "@return", "add", "multibroadcast"}


def test_large_constants_are_left_to_the_compiler():
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    data = model(
        [node("Transpose", ["w"], ["t"]), node("MatMul", ["x", "t"], ["y"])],
        {"x": np.ones((2, 64), np.float32)},
        ["y"],
        {"w": weight},
    )
    assert "transpose" in str(migraphx.parse_onnx_buffer(data))


def test_known_index_tuples_become_a_reshape():
    rows, columns = np.indices((2, 3))
    data = model([node("GatherND", ["x", "i"], ["y"])], {"x": X}, ["y"], {"i": np.stack([rows, columns - 3], -1)})
    names = [i.name() for i in migraphx.parse_onnx_buffer(data).get_main_module()]
    assert "gathernd" not in names and "gather" not in names
    np.testing.assert_array_equal(ours(data, {"x": X})[0], X)
    outside = model([node("GatherND", ["x", "i"], ["y"])], {"x": X}, ["y"], {"i": np.array([[0, 3]])})
    with pytest.raises(ValueError, match="out of range"):
        migraphx.parse_onnx_buffer(outside)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 50.0, -50.0], np.float32)
UNARY = (
    *("Sign", "Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid"),
    *("Mish", "ThresholdedRelu", "Shrink", "Softplus", "Softsign", "Sigmoid", "Tanh", "Erf", "Exp", "IsNaN"),
)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_special_values(target: str) -> None:
    """NaN, infinities and zeros through the functions of one value, all in one model."""
    data = model([node(op, ["x"], [op]) for op in UNARY], {"x": SPECIAL}, list(UNARY))
    for op, got, want in zip(UNARY, ours(data, {"x": SPECIAL}, target), theirs(data, {"x": SPECIAL}), strict=True):
        assert got.dtype == want.dtype, op
        assert_close(got, want)


# ---- graphs in attributes, functions ----


def branch(name, op):
    return helper.make_graph([node(op, ["x"], [f"{name}_y"])], name, [], [onnx.ValueInfoProto(name=f"{name}_y")])


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_if(condition, known):
    made = node("If", ["c"], ["y"], then_branch=branch("yes", "Relu"), else_branch=branch("no", "Neg"))
    given = {"x": X - 2, "c": np.array(condition)}
    constants = {"c": given.pop("c")} if known else {}
    data = model([made], given, ["y"], constants)
    np.testing.assert_array_equal(ours(data, given)[0], theirs(data, given)[0])
    assert (" = if(" in str(migraphx.parse_onnx_buffer(data))) == (not known)


def loop_model(trips: int | None, least: float) -> bytes:
    """y doubles until it is at least `least`; s gathers it."""
    body = helper.make_graph(
        [
            node("Add", ["v", "v"], ["w"]),
            node("Identity", ["w"], ["s"]),
            node("ReduceMax", ["s0"], ["m"], keepdims=0),
            node("Less", ["m", "least"], ["go"]),
            node("Add", ["s0", "one"], ["s1"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("k", I, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", F, [2, 3]),
            helper.make_tensor_value_info("s0", F, [1]),
        ],
        [onnx.ValueInfoProto(name=n) for n in ("go", "w", "s1", "s")],
    )
    constants = {
        "t": np.array(trips or 0),
        "c": np.array(True),
        "z": np.zeros(1, np.float32),
        "one": np.ones(1, np.float32),
        "least": np.float32(least),
    }
    made = node("Loop", ["t" if trips else "", "c", "x", "z"], ["y", "z1", "all"], body=body)
    return model([made], {"x": X}, ["y", "z1", "all"], constants)


@pytest.mark.parametrize(("trips", "least"), [(3, 100.0), (None, 4.0), (20, 4.0)])
def test_loop(trips, least):
    data = loop_model(trips, least)
    for got, want in zip(ours(data, {"x": X}), theirs(data, {"x": X}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_loop_without_end():
    with pytest.raises(ValueError, match="max_loop_iterations=10"):
        migraphx.parse_onnx_buffer(loop_model(None, 100.0))
    migraphx.parse_onnx_buffer(loop_model(None, 100.0), max_loop_iterations=200)


def test_functions_of_the_model():
    scale = onnx.AttributeProto(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT)
    constant = node("Constant", [], ["c"])
    constant.attribute.append(scale)
    body = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["b"],
        [constant, node("Mul", ["a", "c"], ["b"])],
        [helper.make_opsetid("", 21)],
        ["factor"],
    )
    calls = [
        node("Scaled", ["x"], ["a"], domain="mine", factor=2.0),
        node("Scaled", ["a"], ["y"], domain="mine", factor=3.0),
    ]
    data = onnx.ModelProto.FromString(model(calls, {"x": X}, ["y"], functions=[body]))
    data.opset_import.append(helper.make_opsetid("mine", 1))
    np.testing.assert_array_equal(ours(data.SerializeToString(), {"x": X})[0], X * 6)


# ---- opsets ----


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "opset"),
    [
        ("Softmax", [X.reshape(1, 2, 3)], {"axis": 1}, 11),
        ("Softmax", [X.reshape(1, 2, 3)], {"axis": 1}, 13),
        ("Squeeze", [X.reshape(1, 2, 1, 3)], {"axes": [0, 2]}, 11),
        ("Unsqueeze", [X], {"axes": [0, 3]}, 11),
        ("Clip", [X], {"min": 1.0, "max": 3.0}, 6),
        ("Pad", [X], {"pads": [1, 0, 0, 2], "value": 4.0}, 2),
        ("Slice", [X], {"starts": [0, 1], "ends": [1, 9]}, 1),
        ("Split", [X], {"axis": 1, "split": [1, 2]}, 2),
        ("ReduceSum", [X], {"axes": [1], "keepdims": 0}, 11),
        ("TopK", [X], {"k": 2, "axis": 1}, 1),
        ("Upsample", [X.reshape(1, 1, 2, 3)], {"scales": [1.0, 1.0, 2.0, 3.0]}, 7),
        ("BatchNormalization", [X.reshape(1, 2, 3), *[np.ones(2, np.float32)] * 4], {"epsilon": 0.1}, 9),
        ("Dropout", [X], {"ratio": 0.5}, 10),
    ],
)
def test_older_opsets(op, inputs, attributes, opset):
    outputs = 2 if op in ("Split", "TopK") else 1
    data = one_node(op, inputs, outputs, opset, **attributes)
    given = {f"x{k}": x for k, x in enumerate(inputs)}
    message = onnx.ModelProto.FromString(data)
    message.ir_version = 4
    for got, want in zip(ours(data, given), theirs(message.SerializeToString(), given), strict=True):
        assert_close(got, want)


def test_converters_take_every_attribute_of_their_schemas():
    """Of every opset that a converter serves; but for attributes whose operators it refuses."""
    odd = []
    for schema in onnx.defs.get_all_schemas_with_history():
        domain = "" if schema.domain == "ai.onnx" else schema.domain
        convert = find(domain, schema.name, schema.since_version)
        if convert is None:
            continue
        parameters = inspect.signature(convert).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            continue
        missing = set(schema.attributes) - {p.name for p in parameters} - LEGACY
        odd += [f"{schema.name}-{schema.since_version}: {', '.join(sorted(missing))}"] if missing else []
    assert not odd, odd


def test_a_buffer_takes_the_options_of_a_file():
    of_file, of_buffer = (
        [*inspect.signature(f).parameters.values()][1:] for f in (migraphx.parse_onnx, migraphx.parse_onnx_buffer)
    )
    assert of_file == of_buffer
    assert pickle.loads(pickle.dumps(migraphx.parse_onnx_buffer)) is migraphx.parse_onnx_buffer  # for process pools


def test_operator_names():
    names = migraphx.get_onnx_operators()
    assert names == sorted(names) and {"Add", "Conv", "LayerNormalization"} <= set(names)
    assert {f"{domain}.{op}" if domain else op for domain, op in CONVERTERS} == set(names)


def test_a_second_converter_is_refused():
    with pytest.raises(TypeError, match="converted twice"):
        converter("Add")(lambda b, x, y: x)


def test_output_names():
    nodes = [node("Relu", ["x"], ["r"]), node("Neg", ["r"], ["n"]), node("Exp", ["n"], ["y"])]
    data = model(nodes, {"x": X}, ["y"])
    first, second = ours(data, {"x": X - 3}, output_names=["n", "r"])
    np.testing.assert_array_equal(second, np.maximum(X - 3, 0))
    np.testing.assert_array_equal(first, -second)
    with pytest.raises(ValueError, match="output_names: the model has no 'yy'; did you mean 'y'"):
        migraphx.parse_onnx_buffer(data, output_names=["yy"])


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(1, 3, 4, 5), (1, 2, 3, 2, 5), (2, 1, 2, 3)])
def test_affine_grid(size, corners):
    rank = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((size[0], rank, rank + 1)).astype(np.float32)
    nodes = [node("AffineGrid", ["theta", "size"], ["y"], align_corners=corners)]
    (got,) = ours(model(nodes, {"theta": theta}, ["y"], {"size": np.array(size)}), {"theta": theta})
    want = torch.nn.functional.affine_grid(torch.tensor(theta), list(size), align_corners=bool(corners)).numpy()
    assert_close(got, want)
