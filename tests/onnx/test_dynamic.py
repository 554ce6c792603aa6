"""Models whose lengths are known only in a run agree with onnxruntime at every length."""

import io
import warnings

import numpy as np
import onnx
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


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)

    def forward(self, ids):
        x = self.embed(ids) + torch.arange(ids.shape[1])[None, :, None] * 0.01
        return self.layer(x)


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
