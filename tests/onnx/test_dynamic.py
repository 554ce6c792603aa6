"""Models whose lengths are known only in a run agree with onnxruntime at every length."""

import io
import warnings
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper

import migraphx
from migraphx.ir.text import parse_program, program_text
from tests.onnx.one_node import model, theirs
from tests.tolerances import MODEL_ERROR, relative_error

node = helper.make_node
F, INT64 = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)
ANY = migraphx.shape.dynamic_dimension(1, 16)


def agree(data: bytes, feeds: list[dict[str, np.ndarray]], targets=("ref", "cpu"), **options) -> migraphx.program:
    """Each target, compiled once, gives onnxruntime's answers for all the inputs; returns the program."""
    made = migraphx.parse_onnx_buffer(data, **options)
    assert program_text(parse_program(made_text := str(made))) == made_text
    for target in targets:
        program = made.clone()
        program.compile(migraphx.get_target(target))
        for inputs in feeds:
            for got, want in zip(program.run(inputs), theirs(data, inputs), strict=True):
                got = np.array(got)
                assert got.dtype == want.dtype and got.shape == want.shape, f"{got.shape}, want {want.shape}"
                assert relative_error(got, want) < MODEL_ERROR
    return made


def normal(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def test_shapes_computed_from_shapes():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["batch"]),
        node("Concat", ["batch", "rest"], ["dims"], axis=0),
        node("Reshape", ["x", "dims"], ["y"]),
        node("Relu", ["y"], ["z"]),
    ]
    known = {"zero": np.array([0]), "rest": np.array([-1])}
    data = model(nodes, {"x": (F, ["n", "k", 4])}, ["z"], known)
    made = agree(data, [{"x": normal(2, 3, 4)}, {"x": normal(5, 1, 4)}], default_dyn_dim_value=ANY)
    assert str(made.get_output_shapes()[0]) == "dynamic, float_type, {[1, 16, {}], [4, 64, {}]}"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (["n", 3, None, None], "float_type, {[1, 16, {}], [3, 3, {}], [0, 15, {}], [0, 15, {}]}"),
        (["n", 5, 4, "h"], "float_type, {[1, 16, {}], [0, 3, {}], [0, 15, {}], [1, 16, {}]}"),  # 5 and 4 are not so
        (["n", 3], "float_type, {[0, 16, {}], [0, 3, {}], [0, 15, {}], [0, 15, {}]}"),
    ],
)
def test_outputs_are_as_declared_where_the_least_lengths_are_too_small(declared, expected):
    message = onnx.ModelProto.FromString(
        model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], {"x": (F, ["n", 3, "h", "w"])}, ["y"])
    )
    message.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", F, declared))
    feeds = [{"x": normal(2, 3, 4, 5)}, {"x": normal(1, 3, 2, 9)}]
    made = migraphx.parse_onnx_buffer(message.SerializeToString(), default_dyn_dim_value=ANY)
    assert str(made.get_output_shapes()[0]) == f"dynamic, {expected}"
    made.compile(migraphx.get_target("cpu"))
    for feed in feeds:
        np.testing.assert_array_equal(np.array(made.run(feed)[0]), torch.max_pool2d(torch.tensor(feed["x"]), 2, 1))


def test_sizes_that_depend_on_data():
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Transpose", ["places"], ["t"]),
        node("GatherND", ["x", "t"], ["v"]),
        node("Exp", ["v"], ["e"]),
        node("Compress", ["r", "keep"], ["c"], axis=1),
    ]
    keep = (TensorProto.BOOL, [4])
    data = model(nodes, {"x": (F, ["n", 4]), "keep": keep}, ["e", "places", "c"])
    feeds = [{"x": normal(n, 4), "keep": RNG.random(4) < 0.5} for n in (2, 5, 5)]
    agree(data, feeds, dim_params={"n": ANY})


def test_boxes_and_unique_values():
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["found"]),
        node("Unique", ["found"], ["u", "first", "which", "counts"], axis=0, sorted=0),
        node("Neg", ["u"], ["n"]),
    ]
    inputs = {"boxes": (F, [1, 6, 4]), "scores": (F, [1, 2, 6])}
    known = {"most": np.array([4]), "overlap": np.array([0.4], np.float32)}
    data = model(nodes, inputs, ["found", "u", "first", "which", "counts", "n"], known)
    corner = RNG.random((3, 1, 6, 2)).astype(np.float32)
    feeds = [{"boxes": np.concatenate([c, c + 0.5], -1), "scores": RNG.random((1, 2, 6)).astype("f")} for c in corner]
    agree(data, feeds)


@pytest.mark.slow
def test_shapes_given_as_inputs():
    nodes = [
        node("Reshape", ["x", "dims"], ["y"]),
        node("Expand", ["y", "wide"], ["z"]),
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Cast", ["top"], ["limit"], to=INT64),
        node("Range", ["zero", "limit", "one"], ["r"]),
    ]
    inputs = {"x": (F, [2, 6]), "dims": (INT64, [2]), "wide": (INT64, [3])}
    data = model(nodes, inputs, ["z", "r"], {"zero": np.array(0), "one": np.array(1)})
    feeds = [
        {"x": normal(2, 6) + 4, "dims": np.array(d), "wide": np.array(w)}
        for d, w in (([3, 4], [2, 3, 4]), ([12, 1], [1, 12, 2]), ([3, 4], [2, 3, 4]))
    ]
    agree(data, feeds)


def test_a_branch_and_a_loop_over_dynamic_lengths():
    branches = [
        helper.make_graph([node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, F, ["n", 3])])
        for op in ("Exp", "Neg")
    ]
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    data = model(nodes, {"x": (F, ["n", 3])}, ["y"], {"zero": np.array(0, np.float32)})
    agree(data, [{"x": normal(2, 3) + 1}, {"x": normal(4, 3) - 1}], default_dyn_dim_value=ANY)


HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
BRANCHES = """
net (float[n,3] x, float limit) => (float[a,b] z) {
  s = ReduceSum <keepdims = 0> (x)
  p = Greater (s, limit)
  y = If (p) <
    then_branch = yes () => (float[c,3] v) { axes = Constant <value = int64[1] {0}> () v = ReduceSum (x, axes) },
    else_branch = no () => (float[d,6] w) { w = Concat <axis = 1> (x, x) }>
  z = Tanh (y)
}
"""
NESTED = """
net (float[n,4] x, bool p, float[4] w) => (float[n,4] y, float[m,4] rows) {
  always = Constant <value = bool {1}> ()
  axis = Constant <value = int64[1] {0}> ()
  e = Exp (w)
  length = Shape <start = 0, end = 1> (x)
  n0 = Squeeze (length, axis)
  y, rows = If (p) <
    then_branch = yes () => (float[n,4] v, float[m,4] r) {
      v, r = Loop (n0, always, x) <body = trip (int64 i, bool c, float[n,4] a) => (bool d, float[n,4] a2, float[4] g) {
        d = Identity (c)
        g = Gather <axis = 0> (x, i)
        first = Mul (w, e)
        last, a2 = Scan <num_scan_inputs = 1, body = row (float[4] s, float[4] q) => (float[4] s2, float[4] o) {
          t = Mul (s, e)
          u = Add (t, q)
          s2 = Tanh (u)
          o = Add (s2, g)
        }> (first, a)
      }>
    },
    else_branch = no () => (float[n,4] b, float[m,4] h) { b = Mul (x, e) h = Identity (x) }>
}
"""
GROWING = """
net (float[n,3] x, int64 m) => (float[k,3] y, float[j,n,3] g) {
  always = Constant <value = bool {1}> ()
  y = Loop (m, always, x) <body = b (int64 i, bool c, s) => (bool d, s2) {
    d = Identity (c)
    t = Exp (x)
    s2 = Concat <axis = 0> (s, t)
  }>
  z, g = Loop (m, always, x) <body = b2 (int64 i, bool c, float[n,3] s) => (bool d, float[n,3] s2, float[n,3] r) {
    d = Identity (c)
    s2 = Tanh (s)
    r = Neg (s2)
  }>
}
"""


def test_a_length_that_inputs_share(tmp_path):
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Neg", ["y"], ["m"])]
    data = model(nodes, {"x": (F, ["n", "k"]), "y": (F, ["k", "n"])}, ["t", "m"])
    dim = migraphx.shape.dynamic_dimension
    program = migraphx.parse_onnx_buffer(data, dim_params={"n": dim(1, 8, {2, 3}), "k": dim(1, 8, {4, 5})})
    program.compile(migraphx.get_target("cpu"))
    executable: Any = program.executable
    assert executable.specialisations == 4
    for n, k in ((2, 5), (3, 4), (1, 1)):
        x, y = normal(n, k), normal(k, n)
        for got, want in zip(program.run({"x": x, "y": y}), (x.T, -y), strict=True):
            np.testing.assert_array_equal(np.array(got), want)
    assert executable.specialisations == 5  # optimal lengths were there
    migraphx.save(program, tmp_path / "p.mxr")
    for made in (program, migraphx.load(tmp_path / "p.mxr")):
        with pytest.raises(ValueError, match=r"'x' has 2 in dimension 0, input 'y' has 3 in dimension 1: both are 'n'"):
            made.run({"x": normal(2, 4), "y": normal(4, 3)})


@pytest.mark.slow
def test_branches_of_other_lens():
    data = onnx.parser.parse_model(HEAD + BRANCHES).SerializeToString()
    feeds = [{"x": normal(n, 3), "limit": np.array(limit, np.float32)} for n in (2, 4) for limit in (-1e3, 1e3)]
    agree(data, feeds, default_dyn_dim_value=ANY)
    fixed = onnx.parser.parse_model(HEAD + BRANCHES.replace("float[n,3] x", "float[2,3] x")).SerializeToString()
    agree(fixed, feeds[:2])


def test_a_scan_in_a_loop_in_a_branch():
    data = onnx.parser.parse_model(HEAD + NESTED).SerializeToString()
    feeds = [{"x": normal(n, 4), "w": normal(4), "p": np.array(p)} for n, p in ((3, True), (2, False), (1, True))]
    agree(data, feeds, default_dyn_dim_value=ANY)


@pytest.mark.slow
def test_no_trip_and_a_state_that_grows():
    """For no trip onnxruntime gives {0, 0, 3} where the model says that rows have n x 3 elements: not asked here."""
    data = onnx.parser.parse_model(HEAD + GROWING).SerializeToString()
    agree(data, [{"x": normal(n, 3), "m": np.array(m)} for n, m in ((2, 3), (1, 1))], default_dyn_dim_value=ANY)
    program = migraphx.parse_onnx_buffer(data, default_dyn_dim_value=ANY)
    program.compile(migraphx.get_target("cpu"))
    x = normal(2, 3)
    same, rows = (np.array(v) for v in program.run({"x": x, "m": np.array(0)}))
    assert np.array_equal(same, x) and rows.shape == (0, 2, 3)


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)

    def forward(self, ids):
        x = self.embed(ids) + torch.arange(ids.shape[1])[None, :, None] * 0.01
        return self.layer(x)


@pytest.mark.slow
def test_an_exported_transformer_with_dynamic_batch_and_sequence():
    torch.manual_seed(0)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(
            Encoder().train(False).requires_grad_(False),
            (torch.zeros(2, 7, dtype=torch.int64),),
            input_names=["ids"],
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: torch.export.Dim("batch", max=16), 1: torch.export.Dim("seq", max=16)},),
        )
    assert exported is not None
    buffer.write(exported.model_proto.SerializeToString())
    data = onnx.ModelProto.FromString(buffer.getvalue()).SerializeToString()
    feeds = [{"ids": RNG.integers(0, 50, lens)} for lens in ((2, 7), (1, 12), (3, 5))]
    made = agree(data, feeds, default_dyn_dim_value=ANY)
    assert "dynamic" in str(made.get_parameter_shapes()["ids"])
    with pytest.raises(ValueError, match=r"'ids': dimension 1 must be in \[1, 16\], is 17"):
        made.compile(migraphx.get_target("ref"))
        made.run({"ids": np.zeros((1, 17), np.int64)})


def test_a_branch_that_waits_calls_functions():
    """The node that is left carries the model's functions that its graphs call, and what these call."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    inner = helper.make_function("mine", "Inner", ["a"], ["b"], [node("LeakyRelu", ["a"], ["b"])], opsets, ["alpha"])
    inner.node[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type="FLOAT"))
    outer = helper.make_function("mine", "Outer", ["a"], ["b"],
                                 [node("Inner", ["a"], ["b"], domain="mine", alpha=0.25)], opsets)  # fmt: skip
    out = [onnx.ValueInfoProto(name="r")]
    branches = [helper.make_graph([n], "g", [], out) for n in
                (node("Outer", ["x"], ["r"], domain="mine"), node("Neg", ["x"], ["r"]))]  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["s"], end=1), node("Greater", ["s", "two"], ["long"]), node("Squeeze", ["long"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]  # fmt: skip
    data = model(nodes, {"x": (F, ["n", 3])}, ["y"], {"two": np.array([2])}, functions=[inner, outer])
    message = onnx.ModelProto.FromString(data)
    message.opset_import.append(helper.make_opsetid("mine", 1))
    feeds = [{"x": normal(2, 3)}, {"x": normal(5, 3)}]
    agree(message.SerializeToString(), feeds, targets=("ref",), default_dyn_dim_value=ANY)
