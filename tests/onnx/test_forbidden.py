"""What the standard forbids is refused: types that an operator does not take, inputs of wrong ranks and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper

import migraphx
from migraphx.onnx.registry import CONVERTERS
from tests.onnx.contrib_cases import MICROSOFT
from tests.onnx.one_node import model

OPSET = 26
AttrType = defs.OpSchema.AttrType
TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL, "double": TensorProto.DOUBLE,
         "uint16": TensorProto.UINT16, "complex64": TensorProto.COMPLEX64}  # fmt: skip
SCHEMAS = {
    s.name: s for s in defs.get_all_schemas() if not s.domain and ("", s.name) in CONVERTERS and not s.deprecated
}


def graph_of(op: str, infos: Sequence[tuple[int, Any]], outputs: int = 1, opset: int = OPSET, **given: Any) -> bytes:
    names = [f"x{k}" for k in range(len(infos))]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], name="it", **given)
    return model([node], dict(zip(names, infos, strict=True)), ["y0"], opset=opset)


def taken(schema: defs.OpSchema, k: int) -> set[str]:
    """The types that any opset's operator takes for an input, as the schemas name them."""
    found: set[str] = set()
    for version in range(1, OPSET + 1):
        try:
            at = defs.get_schema(schema.name, version)
        except defs.SchemaError:
            continue
        if k < len(at.inputs):
            found |= at.inputs[k].types
    return found


def mistyped() -> list[tuple[str, int, str]]:
    """For each tensor input of each operator a type that no version of it takes."""
    found = []
    for name, schema in sorted(SCHEMAS.items()):
        for k, formal in enumerate(schema.inputs):
            allowed = taken(schema, k)
            wrong = [t for t in TYPES if f"tensor({t})" not in allowed and not t.startswith("complex")]
            if wrong and all(t.startswith("tensor") for t in formal.types):
                found.append((name, k, wrong[-1]))
    return found


def attributes_of(schema: defs.OpSchema) -> dict[str, Any]:
    """Some value for each attribute that it must have."""
    values: dict[Any, Any] = {
        AttrType.INT: 1, AttrType.FLOAT: 1.0, AttrType.STRING: "x",
        AttrType.INTS: [1], AttrType.FLOATS: [1.0], AttrType.STRINGS: ["x"],
    }  # fmt: skip
    return {n: values[a.type] for n, a in schema.attributes.items() if a.required and a.type in values}


def test_types_that_an_operator_does_not_take() -> None:
    cases, accepted = mistyped(), []
    for name, k, wrong in cases:
        schema = SCHEMAS[name]
        right = [next((t for t in TYPES if f"tensor({t})" in i.types), "float") for i in schema.inputs]
        right[k] = wrong
        infos = [(TYPES[t], [2, 2]) for t in right]
        data = graph_of(name, infos[: max(k + 1, schema.min_input)], max(schema.min_output, 1), **attributes_of(schema))
        with pytest.raises(onnx.shape_inference.InferenceError):
            onnx.shape_inference.infer_shapes(onnx.load_from_string(data), check_type=True, strict_mode=True)
        with pytest.raises(ValueError, match=name):
            migraphx.parse_onnx_buffer(data, strict=True)
        with suppress(ValueError):
            migraphx.parse_onnx_buffer(data)
            accepted.append((name, k, wrong))
    assert len(cases) > 200
    assert accepted == [("Mean", 0, "uint16"), ("Not", 0, "uint16")]  # whose meaning is plain all the same


F, H, I32, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64
U8, I8 = TensorProto.UINT8, TensorProto.INT8
Infos = list[tuple[int, tuple[int, ...]]]
IMAGE = (2, 4, 5, 6)

# operator, its attributes, types and lens that it takes, and (which input, lens) that it does not
LENGTHS: list[tuple[str, dict[str, Any], Infos, Infos]] = [
    ("BatchNormalization", {}, [(F, IMAGE), *[(F, (4,))] * 4], [(1, (5,)), (2, (1, 4)), (3, (3,)), (4, ()), (1, (1,))]),
    ("InstanceNormalization", {}, [(F, IMAGE), *[(F, (4,))] * 2], [(1, (2,)), (2, (4, 1)), (1, ())]),
    ("GroupNormalization", {"num_groups": 2}, [(F, IMAGE), *[(F, (4,))] * 2], [(1, (3,)), (2, (4, 1)), (1, (1,))]),
    ("LayerNormalization", {"axis": 2}, [(F, IMAGE), *[(F, (5, 6))] * 2],
     [(1, (7,)), (2, (2, 4, 1, 5, 6)), (1, (5, 7))]),
    ("RMSNormalization", {"axis": -1}, [(F, IMAGE), (F, (6,))], [(1, (5,)), (1, (1, 2, 4, 5, 6))]),
    ("Conv", {}, [(F, IMAGE), (F, (3, 4, 2, 2)), (F, (3,))],
     [(0, (4, 5, 6)), (1, (3, 3, 2, 2)), (2, (4,)), (2, (3, 1))]),
    ("ConvTranspose", {}, [(F, IMAGE), (F, (4, 3, 2, 2)), (F, (3,))], [(1, (3, 3, 2, 2)), (2, (4,)), (2, ())]),
    ("Gemm", {}, [(F, (2, 3)), (F, (3, 4)), (F, (4,))], [(0, (2, 3, 1)), (1, (4, 4)), (2, (3,)), (2, (1, 2, 4))]),
    ("PRelu", {}, [(F, IMAGE), (F, (4, 1, 1))], [(1, (4,)), (1, (2, 4, 5))]),
    ("Attention", {}, [(F, (2, 3, 4, 8)), (F, (2, 3, 5, 8)), (F, (2, 3, 5, 8)), (F, (4, 5))],
     [(0, (3, 4, 8)), (1, (2, 3, 5, 7)), (2, (2, 3, 6, 8)), (1, (3, 3, 5, 8)), (3, (4, 6))]),
    ("RotaryEmbedding", {}, [(F, (2, 3, 4, 8)), (F, (9, 4)), (F, (9, 4)), (I64, (2, 4))],
     [(0, (4, 8)), (1, (9, 5)), (2, (9, 3)), (1, (2, 9, 4)), (3, (2, 5)), (3, (4, 2))]),
    ("NegativeLogLikelihoodLoss", {}, [(F, (2, 4, 5)), (I64, (2, 5)), (F, (4,))],
     [(1, (2, 4)), (1, (3, 5)), (2, (5,)), (2, (1, 4))]),
    ("SoftmaxCrossEntropyLoss", {}, [(F, (2, 4, 5)), (I64, (2, 5)), (F, (4,))], [(1, (2,)), (1, (2, 4)), (2, (3,))]),
    ("Einsum", {"equation": "...ij,jk->...ik"}, [(F, (2, 3, 4)), (F, (4, 5))],
     [(0, (3,)), (1, (5, 4)), (1, (1, 4, 5))]),
    ("RoiAlign", {}, [(F, IMAGE), (F, (3, 4)), (I64, (3,))], [(0, (4, 5, 6)), (1, (3, 5)), (2, (2,)), (1, (4,))]),
    ("GridSample", {}, [(F, IMAGE), (F, (2, 3, 3, 2))], [(1, (2, 3, 3, 3)), (1, (1, 3, 3, 2)), (1, (2, 3, 2))]),
    ("QuantizeLinear", {"axis": 1}, [(F, (2, 4)), (F, (4,)), (U8, (4,))], [(1, (3,)), (2, (2,)), (1, (2, 2, 4))]),
    ("DequantizeLinear", {"axis": 1}, [(I8, (2, 4)), (F, (4,)), (I8, (4,))], [(1, (3,)), (2, (3,)), (1, (1, 2, 4))]),
    ("MatMulInteger", {}, [(U8, (2, 3)), (I8, (3, 4)), (U8, ()), (I8, (4,))], [(1, (4, 4)), (3, (3,)), (2, (3,))]),
    ("LSTM", {"hidden_size": 3}, [(F, (5, 2, 4)), (F, (1, 12, 4)), (F, (1, 12, 3)), (F, (1, 24))],
     [(0, (5, 4)), (1, (1, 9, 4)), (1, (2, 12, 4)), (2, (1, 12, 4)), (3, (1, 12)), (3, (24,))]),
    ("GRU", {"hidden_size": 3}, [(F, (5, 2, 4)), (F, (1, 9, 4)), (F, (1, 9, 3))], [(1, (1, 12, 4)), (2, (9, 3))]),
    ("ScatterElements", {}, [(F, (3, 4)), (I64, (2, 4)), (F, (2, 4))], [(1, (2,)), (2, (2, 3)), (0, (3,))]),
    ("GatherND", {}, [(F, (3, 4)), (I64, (2, 2))], [(1, (2, 3)), (1, ()), (0, ())]),
    ("DepthToSpace", {"blocksize": 2}, [(F, (1, 4, 2, 3))], [(0, (4, 2, 3)), (0, (1, 3, 2, 3))]),
    ("TensorScatter", {}, [(F, (2, 8, 4)), (F, (2, 3, 4)), (I64, (2,))], [(1, (2, 3, 5)), (2, (3,)), (1, (2, 9, 4))]),
    ("NonMaxSuppression", {}, [(F, (1, 5, 4)), (F, (1, 2, 5))],
     [(0, (1, 5, 3)), (1, (1, 5)), (1, (2, 2, 5)), (1, (1, 2, 6))]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "right", "wrong"), LENGTHS, ids=[c[0] for c in LENGTHS])
def test_ranks_and_lengths(op: str, attributes: dict[str, Any], right: list, wrong: list) -> None:
    migraphx.parse_onnx_buffer(graph_of(op, right, **attributes))
    for k, lens in wrong:
        infos = list(right)
        infos[k] = (right[k][0], lens)
        with pytest.raises(ValueError, match=op):
            migraphx.parse_onnx_buffer(graph_of(op, infos, **attributes))


CONTRIB: list[tuple[str, dict[str, Any], Infos, list[tuple[int, int, tuple[int, ...]]]]] = [
    ("BiasGelu", {}, [(F, (2, 5, 16)), (F, (16,))], [(1, F, (15,)), (1, H, (16,)), (1, F, (1,)), (0, I64, (2, 5, 16))]),
    ("SkipLayerNormalization", {}, [(F, (2, 5, 16)), (F, (2, 5, 16)), (F, (16,)), (F, (16,))],
     [(1, F, (2, 5, 8)), (2, F, (5,)), (3, F, (1, 16)), (0, F, (16,)), (0, I32, (2, 5, 16))]),
    ("MultiHeadAttention", {"num_heads": 2}, [(F, (2, 3, 8)), (F, (2, 5, 8)), (F, (2, 5, 8)), (F, (24,))],
     [(0, F, (2, 3, 7)), (1, F, (3, 5, 8)), (2, F, (2, 6, 8)), (3, F, (16,)), (2, H, (2, 5, 8))]),
    ("QLinearAdd", {}, [(U8, (2, 3)), (F, ()), (U8, ()), (U8, (2, 3)), (F, ()), (U8, ()), (F, ()), (U8, ())],
     [(1, F, (3,)), (2, I8, ()), (3, I8, (2, 3)), (0, F, (2, 3)), (7, I8, ())]),
    ("MatMulNBits", {"N": 4, "K": 32, "bits": 4, "block_size": 16}, [(F, (2, 32)), (U8, (4, 2, 8)), (F, (8,))],
     [(0, F, (2, 31)), (1, U8, (4, 2, 7)), (1, F, (4, 2, 8)), (2, F, (7,)), (0, I64, (2, 32))]),
    ("GroupNorm", {"groups": 2, "activation": 0}, [(F, (2, 5, 6, 4)), (F, (4,)), (F, (4,))],
     [(1, F, (5,)), (2, F, (4, 1)), (0, I32, (2, 5, 6, 4))]),
    ("SkipGroupNorm", {"groups": 2, "activation": 0}, [(F, (2, 5, 6, 4)), (F, (4,)), (F, (4,)), (F, (2, 5, 6, 4))],
     [(1, F, (5,)), (3, F, (2, 5, 6, 3)), (3, F, (3, 4)), (3, I32, (2, 5, 6, 4))]),
    ("RotaryEmbedding", {"num_heads": 2, "rotary_embedding_dim": 4},
     [(F, (2, 3, 16)), (I64, (2, 3)), (F, (9, 2)), (F, (9, 2))], [(2, F, (9, 3)), (1, I64, (2, 4)), (0, F, (3, 16))]),
    ("Inverse", {}, [(F, (2, 3, 3))], [(0, F, (2, 3, 4)), (0, F, (3,)), (0, I64, (3, 3))]),
    ("BiasAdd", {}, [(F, (2, 3, 4)), (F, (4,)), (F, (2, 3, 4))], [(1, F, (3,)), (2, F, (2, 3, 1)), (0, F, (3, 4))]),
    ("MoE", {"k": 1}, [(F, (3, 8)), (F, (3, 2)), (F, (2, 6, 8)), (F, (2, 6)), (F, (2, 8, 6))],
     [(1, F, (3, 3)), (1, F, (2, 2)), (2, F, (2, 8, 6)), (3, F, (2, 8)), (4, F, (2, 6, 8)), (0, I64, (3, 8))]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "right", "wrong"), CONTRIB, ids=[c[0] for c in CONTRIB])
def test_contrib_operators(op: str, attributes: dict[str, Any], right: list, wrong: list) -> None:
    migraphx.parse_onnx_buffer(graph_of(op, right, domain=MICROSOFT, **attributes))
    for k, kind, lens in wrong:
        infos = list(right)
        infos[k] = (kind, lens)
        with pytest.raises(ValueError, match=op):
            migraphx.parse_onnx_buffer(graph_of(op, infos, domain=MICROSOFT, **attributes))


def test_labels_and_einsum_are_checked_before_a_run() -> None:
    for equation, right, wrong in [
        ("...ii->...i", [(F, (2, 3, 3))], [(F, (2, 3, 4))]),
        ("i...,i...->...", [(F, (3, 4)), (F, (3, 1))], [(F, (3, 4)), (F, (3, 5))]),
        ("ij,jk", [(F, (2, 3)), (F, (3, 4))], [(F, (2, 3))]),
    ]:
        migraphx.parse_onnx_buffer(graph_of("Einsum", right, equation=equation))
        with pytest.raises(ValueError, match="Einsum"):
            migraphx.parse_onnx_buffer(graph_of("Einsum", wrong, equation=equation))
    for equation in ("...i,...j->...ij...", "ij->ik", "i.j->i", "ij->->i"):
        with pytest.raises(ValueError, match="Einsum"):
            migraphx.parse_onnx_buffer(graph_of("Einsum", [(F, (2, 3))] * (1 + equation.count(",")), equation=equation))


def test_numbers_that_a_node_cannot_have() -> None:
    np.testing.assert_equal(len({case[0] for case in LENGTHS}), len(LENGTHS))
    for op, infos, attributes in [
        ("LpNormalization", [(F, (2, 3))], {"p": 3}),
        ("Split", [(F, (7, 2))], {"num_outputs": 0}),
        ("DFT", [(F, (2, 8, 1))], {"onesided": 1, "inverse": 1}),
        ("Celu", [(F, (2,))], {"alpha": 0.0}),
        ("DepthToSpace", [(F, (1, 4, 2, 2))], {"blocksize": 0}),
        ("GroupNormalization", [(F, (2, 4, 3)), (F, (4,)), (F, (4,))], {"num_groups": 3}),
        ("DepthToSpace", [(F, (1, 4, 2, 2))], {"blocksize": 2, "mode": "ROW"}),
        ("MeanVarianceNormalization", [(F, (2, 3, 4, 5))], {"axes": [4]}),
        ("Multinomial", [(F, (2, 5))], {"dtype": F}),
        ("NonMaxSuppression", [(F, (1, 5, 4)), (F, (1, 2, 5))], {"center_point_box": 2}),
        ("RNN", [(F, (3, 2, 4)), (F, (1, 3, 4)), (F, (1, 3, 3))], {"layout": 2}),
        ("Conv", [(F, IMAGE), (F, (3, 4, 2, 2))], {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]}),
        ("MaxPool", [(F, IMAGE)], {"kernel_shape": [2, 2], "auto_pad": "VALID", "pads": [0, 1, 0, 0]}),
        ("ConvTranspose", [(F, IMAGE), (F, (4, 3, 2, 2))], {"output_shape": [7]}),
        ("ConvTranspose", [(F, IMAGE), (F, (4, 3, 2, 2))], {"output_padding": [0]}),
        ("Split", [(F, (2, 3))], {"num_outputs": 1, "axis": 2}),
        ("GroupNormalization", [(F, (2, 4)), (F, (4,)), (F, (4,))], {"num_groups": 2}),
        ("Mod", [(I32, (2,)), (I32, (2,))], {"fmod": 2}),
        ("TensorScatter", [(F, (2, 8, 4)), (F, (2, 3, 4)), (I64, (2,))], {"mode": "x"}),
        ("Attention", [(F, (2, 3, 4, 8)), (F, (2, 3, 5, 8)), (F, (2, 3, 5, 8))], {"q_num_heads": 7}),
        ("Multinomial", [(F, (2, 5))], {"sample_size": 0}),
        ("RNN", [(F, (3, 2, 4)), (F, (1, 3, 4)), (F, (1, 3, 3))], {"activations": ["Tanh"] * 3}),
        (
            "QLinearConv",
            [(U8, IMAGE), (F, ()), (U8, ()), (U8, (3, 4, 2, 2)), (F, ()), (U8, ()), (F, (3,)), (U8, (3,))],
            {},
        ),
    ]:
        with pytest.raises(ValueError, match=op):
            migraphx.parse_onnx_buffer(graph_of(op, infos, **attributes))


def test_celu_takes_float_alone_before_opset_28() -> None:
    for kind in (H, TensorProto.DOUBLE):
        with pytest.raises(ValueError, match="Celu"):
            migraphx.parse_onnx_buffer(graph_of("Celu", [(kind, (3,))], opset=12))


@pytest.mark.parametrize(
    ("op", "constants", "attributes", "outputs"),
    [
        ("Split", [np.array([-1, 4])], {"axis": 1}, 2),
        ("Split", [np.array([1, 2])], {"axis": 1, "num_outputs": 2}, 2),
        ("Split", [np.array([1, 1, 1])], {"axis": 1}, 2),
        ("Slice", [np.array([0, 0]), np.array([1, 1]), np.array([1, -1])], {}, 1),
        ("Pad", [np.array([1, 1, 1, 1]), None, np.array([0, -2])], {}, 1),
        ("Unsqueeze", [np.array([0, -4])], {}, 1),
        ("Resize", [None, None, np.array([4, 5])], {"axes": [0, 1], "keep_aspect_ratio_policy": "x"}, 1),
        ("ReverseSequence", [np.array([2, 3, 1])], {}, 1),
        ("Tile", [np.ones(2, np.float32)], {}, 1),
        ("Split", [], {"axis": 0, "num_outputs": 4}, 4),  # 2 elements
        ("Pad", [np.array([-3, 0, 0, 0])], {}, 1),
        ("Resize", [None, np.ones(2, np.float32), np.array([2, 3])], {}, 1),
    ],
)
def test_constants_that_a_node_cannot_have(
    op: str, constants: list[np.ndarray | None], attributes: dict[str, Any], outputs: int
) -> None:
    names = ["" if c is None else f"c{k}" for k, c in enumerate(constants)]
    node = helper.make_node(op, ["x", *names], [f"y{k}" for k in range(outputs)], name="it", **attributes)
    known = {n: c for n, c in zip(names, constants, strict=True) if c is not None}
    with pytest.raises(ValueError, match=op):
        migraphx.parse_onnx_buffer(model([node], {"x": (F, (2, 3))}, ["y0"], known))


def test_inputs_that_an_operator_must_have() -> None:
    for op, infos in (("RotaryEmbedding", [(F, (2, 3, 4, 8)), None, (F, (9, 4))]), ("Add", [None, (F, (2,))])):
        names = [f"x{k}" if i else "" for k, i in enumerate(infos)]
        given = {n: i for n, i in zip(names, infos, strict=True) if i}
        with pytest.raises(ValueError, match=f"{op}.* is missing"):
            migraphx.parse_onnx_buffer(model([helper.make_node(op, names, ["y"])], given, ["y"], opset=OPSET))


def test_contrib_operators_need_what_they_say() -> None:
    for op, infos, attributes in [
        ("BiasGelu", [(F, (2, 5))], {}),
        ("RotaryEmbedding", [(F, (2, 3, 8)), (I64, (2, 3)), (F, (9, 2)), (F, (9, 2))], {"rotary_embedding_dim": 4}),
        ("RotaryEmbedding", [(F, (2, 3, 8)), (I64, (2, 3)), (F, (2, 4)), (F, (2, 4))], {}),
        ("MultiHeadAttention", [*[(F, (2, 3, 8))] * 3, (F, (24,)), (I32, (1, 3))], {"num_heads": 2}),
        ("MultiHeadAttention", [*[(F, (2, 3, 8))] * 3, (F, (24,)), (I32, (2, 2))], {"num_heads": 2}),
        ("Attention", [(F, (2, 3, 8)), (F, (8, 24)), (F, (24,)), (I32, (2, 2, 3))], {"num_heads": 2}),
        ("MultiHeadAttention", [(F, (1, 2, 2, 3, 2)), (F, (1, 2, 4)), (F, (1, 2, 4))], {"num_heads": 2}),
        ("QLinearSigmoid", [(U8, (2, 3)), (F, (3,)), (U8, (3,)), (F, ()), (U8, ())], {}),
        ("QLinearGlobalAveragePool", [(U8, (2, 3)), (F, ()), (U8, ()), (F, ()), (U8, ())], {}),
        ("EmbedLayerNormalization", [(I32, (2, 5)), (I32, (2, 5)), (F, (8, 4)), (F, (4, 4)), (F, (2, 4)), (F, (4,)),
                                     (F, (4,))], {}),
        ("GroupQueryAttention", [(F, (1, 1, 16)), (F, (1, 1, 8)), (F, (1, 1, 8)), (F, (1, 1, 4, 8)), (F, (1, 1, 4, 8)),
                                 (I32, (1,)), (I32, ())], {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=op):
            migraphx.parse_onnx_buffer(graph_of(op, infos, domain=MICROSOFT, **attributes))
