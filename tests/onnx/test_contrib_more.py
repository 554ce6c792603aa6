"""ONNX Runtime's operators beside attention and products: what they move, pick and hash, gates, weights in few bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import migraphx
from tests.onnx.contrib_cases import MICROSOFT, Case, model_of
from tests.onnx.one_node import ours, theirs
from tests.tolerances import assert_close

RNG = np.random.default_rng(11)


def f(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def u8(*lens: int) -> np.ndarray:
    return RNG.integers(0, 256, lens, np.uint8)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def one(kind: type, value: float) -> np.ndarray:
    return np.array(value, kind)


X, IMAGE = f(2, 5, 16), f(2, 3, 5, 6)
ROIS = np.array([[0.1, 0.2, 0.9, 0.8], [0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 1.3, 1.2], [0.7, 0.9, 0.2, 0.1]], np.float32)
TOKENS = RNG.integers(0, 4, (3, 12))
Z = np.uint8(120)

TENSORS = [
    Case("ExpandDims", [X, one(np.int32, -2)], constants=(1,)),
    Case("ExpandDims", [X, one(np.int32, 0)], constants=(1,)),
    Case("GatherND", [IMAGE, np.array([[0, 1], [1, 2]])]),
    Case("GridSample", [IMAGE, f(2, 4, 3, 2)], attributes={"mode": "bicubic", "padding_mode": "border"}),
    Case("GridSample", [IMAGE, f(2, 4, 3, 2)], attributes={"align_corners": 1}),
    Case("Pad", [X[0], np.array([[1, 0, 2, 3]]), one(np.float32, 0.5)], constants=(1,)),
    Case("Pad", [X[0], np.array([1, 2, 0, 1])], constants=(1,), attributes={"mode": "reflect"}),
    Case("Range", [one(np.int64, 2), one(np.int64, 9)], constants=(0, 1)),
    Case("Range", [one(np.float32, 2), one(np.float32, -1), one(np.float32, -0.5)], constants=(0, 1, 2)),
    Case("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], (0, 1, 2), (0,)),
    Case("UnfoldTensor", [IMAGE], attributes={"size": 2, "dim": 2, "step": 3}),
    Case("UnfoldTensor", [IMAGE], attributes={"size": 6}),
    *(
        Case(
            "CropAndResize",
            [IMAGE, ROIS, i32(0, 1, 1, 0), i32(*size)],
            constants=(3,),
            attributes={"extrapolation_value": 7.0, "mode": mode},
        )
        for mode, size in (("bilinear", (4, 3)), ("bilinear", (1, 5)), ("nearest", (3, 2)))
    ),
    Case("CDist", [f(4, 6), f(3, 6)], attributes={"metric": "euclidean"}),
    Case("CDist", [f(4, 6).astype(np.float64), f(3, 6).astype(np.float64)]),
    *(Case("NGramRepeatBlock", [TOKENS, f(3, 4)], attributes={"ngram_size": n}) for n in (1, 2, 3, 12, 13)),
    Case("ConvTransposeWithDynamicPads", [IMAGE, f(3, 2, 3, 3), np.array([1, 0, 0, 1])], constants=(2,),
         attributes={"strides": [2, 1]}),
    Case("NhwcMaxPool", [u8(1, 5, 6, 3)], attributes={"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 0]}),
    Case("MatMulInteger16", [*(RNG.integers(-999, 999, s, np.int16) for s in ((2, 3, 4), (4, 5)))]),
]  # fmt: skip
HASHED = [
    np.array([0, 1, -7, 2**31 - 1], np.int32),
    np.array([0, 1, 2**32 - 1], np.uint32),
    np.array([-1, 2**40], np.int64),
    np.array([2**63 + 5], np.uint64),
    f(3),
    f(3).astype(np.float64),
]
HASHES = [Case("MurmurHash3", [v], attributes={"positive": k % 2, "seed": 42 * k}) for k, v in enumerate(HASHED)]
GATES = [
    Case("ScaledSiLU", [X], attributes={"alpha": 0.7}),
    Case("ScaledSiLU", [X, one(np.float32, 0.3)]),
    Case("GatedAdd", [X, f(2, 5, 16), f(2, 5, 1)]),
    Case("GatedRMSNorm", [X, f(4), f(2, 5, 16)], attributes={"epsilon": 0.1}),
    Case("GatedRMSNorm", [X, f(16), f(2, 5, 16)], attributes={"activation": "sigmoid"}),
    Case("BranchwiseRMSNorm", [X, f(16)], attributes={"num_branches": 4}),
    Case("BranchwiseRMSNorm", [X, f(5, 16)], attributes={"epsilon": 0.1}),
    Case("BranchwiseRMSNorm", [X]),
    Case("LinearAttentionGate", [X, f(16), f(16), f(2, 5, 16)], (0, 1)),
    Case("LinearAttentionGate", [X, f(16), f(16)]),
    Case("CausalConvWithState", [f(2, 3, 6), f(3, 1, 4), f(3), f(2, 3, 3)], (0, 1), attributes={"activation": "silu"}),
    Case("CausalConvWithState", [f(2, 6, 3), f(3, 1, 4)], (0, 1), attributes={"channels_last": 1}),
    *(
        Case(
            "LinearAttention",
            [f(2, 3, 8), f(2, 3, 8), f(2, 3, 6), f(2, 2, 4, 3), *more],
            (0, 1),
            attributes={"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule},
        )
        for rule, more in (("linear", []), ("gated_delta", [-np.abs(f(2, 3, 2)), np.abs(f(2, 3, 2)) / 4]))
    ),
]
ANGLE = RNG.random((9, 6)).astype(np.float32) * 6
TABLES = [np.cos(ANGLE), np.sin(ANGLE)]
SECTIONS = {"mrope_section": [2, 2, 2]}
ATTENTION = [
    *(
        Case("MRotaryEmbedding", [x, RNG.integers(0, 9, (3, 2, 4)), *TABLES], attributes=SECTIONS | more)
        for x, more in (
            (f(2, 4, 36), {"num_heads": 3}),
            (f(2, 3, 4, 12), {"mrope_layout": 1}),
            (f(2, 4, 48), {"num_heads": 3, "rotary_embedding_dim": 12, "interleaved": 1, "mrope_layout": 1}),
        )
    ),
]
QATTENTION = [u8(2, 5, 16), u8(16, 48), f(48), one(np.float32, 0.02), one(np.float32, 0.01)]
QUANTIZED = [
    Case("QAttention", [*QATTENTION, None, one(np.uint8, 128), one(np.uint8, 100)], (0,), (1, 2, 3, 4, 6, 7),
         {"num_heads": 4}),
    Case("QAttention", [*QATTENTION, i32(3, 5), one(np.uint8, 128), one(np.uint8, 100), f(2, 2, 4, 3, 4)], (0, 1),
         (1, 2, 3, 4, 6, 7), {"num_heads": 4, "unidirectional": 1}),
    Case("QEmbedLayerNormalization",
         [i32([1, 2, 3]), i32([0, 1, 1]), u8(9, 8), u8(7, 8), u8(2, 8), u8(8), u8(8), i32([1, 1, 0]),
          *(one(np.float32, 0.01 * k) for k in range(1, 6)), *[np.array(Z)] * 5], (0, 1), tuple(range(2, 7))),
]  # fmt: skip


def blocks(bits: int, zeros: bool, indices: np.ndarray, axis: int = 1) -> Case:
    data = u8(7, 48 * bits // 8) if axis == 1 else u8(7, 3, 32 * bits // 8)
    counts = (7, 3) if axis == 1 else (7, 3, 2)
    zero = u8(*counts[:-1], -(-counts[-1] * bits // 8)) if zeros else None
    return Case("GatherBlockQuantized", [data, indices, np.abs(f(*counts)), zero], constants=(0, 2, 3),
                attributes={"bits": bits, "block_size": 16, "quantize_axis": axis})  # fmt: skip


GATHERED = [
    blocks(8, False, np.array([3, -1, 0])),
    blocks(8, True, np.array([[3, 6]])),
    blocks(4, True, np.array([[1, 2], [0, 5]])),
    blocks(4, False, one(np.int64, 4)),
    blocks(2, False, np.array([1, 2])),
    blocks(4, True, np.array([[2, 0, 1]]), axis=2),
]
FAMILIES = {
    "tensors": TENSORS, "hashes": HASHES, "gates": GATES, "attention": ATTENTION, "quantized": QUANTIZED,
    "gathered": GATHERED,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_agrees(family: str) -> None:
    data, feeds = model_of(FAMILIES[family])
    for got, want in zip(ours(data, feeds), theirs(data, feeds), strict=True):
        assert got.dtype == want.dtype
        assert_close(got, want, scale=4.0)


def alone(*case: Case) -> list[np.ndarray]:
    return ours(*model_of(case))


def test_numbers_of_four_bits() -> None:
    """A type of ONNX: no NumPy array of it enters ONNX Runtime by Python."""
    for kind, low in (("int4", -8), ("uint4", 0)):
        codes = RNG.integers(low, low + 16, (5, 32))
        scales, at = np.abs(f(5, 2)), np.array([4, 0, 7])
        table = numpy_helper.from_array(codes.astype(getattr(ml_dtypes, kind)), "table")
        node = helper.make_node(
            "GatherBlockQuantized", ["table", "at", "scales"], ["y"], domain=MICROSOFT, block_size=16
        )
        infos = [helper.make_tensor_value_info("at", TensorProto.INT64, [3])]
        out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 32])]
        graph = helper.make_graph([node], "g", infos, out, [table, numpy_helper.from_array(scales, "scales")])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        (got,) = ours(data, {"at": at})
        assert_close(got[:2], (codes * np.repeat(scales, 16, 1))[[4, 0]].astype(np.float32))
        assert not got[2].any()  # out of range


def test_what_runs_on_no_cpu_there() -> None:
    x, bias = f(2, 3, 5, 5), f(2, 1, 1, 5)
    a, c = f(3, 4, 2), f(4, 2)
    pairs = [v[..., 0] + 1j * v[..., 1] for v in (a, c)]
    angles, q, k = f(2, 4, 8), [f(2, 3, 4, 8) for _ in range(2)], [f(2, 3, 4, 8) for _ in range(2)]
    odd = np.array([1, np.inf], np.float32)
    soft, square, product, conj, fine, not_nan, embedded, dropped, integers, summed, fused = alone(
        Case("BiasSoftmax", [x, bias], attributes={"axis": 3, "is_inner_broadcast": 1}),
        Case("BiasSoftmax", [x, x[:1, :1]], attributes={"axis": 2, "is_inner_broadcast": 0}),
        Case("ComplexMul", [a, c]),
        Case("ComplexMulConj", [a, c]),
        Case("IsAllFinite", [x, odd]),
        Case("IsAllFinite", [x, odd], attributes={"isnan_only": 1}),
        Case("TorchEmbedding", [f(4, 2) * 0 + 3, np.array([[1, 0]])]),
        Case("BiasDropout", [x, x[0, 0, 0], x]),
        Case("MulInteger", [(b := u8(3, 4)), one(np.uint8, 7), b, one(np.uint8, 250)]),
        Case("ReduceSumInteger", [b], attributes={"axes": [1], "keepdims": 0}),
        Case("FusedMatMulActivation", [x, x], attributes={"activation": "Relu", "alpha": 0.5, "transB": 1}),
    )
    assert_close(soft, torch.softmax(torch.tensor(x + bias), 3).numpy())
    flat = torch.softmax(torch.tensor(x + x[:1, :1]).reshape(6, 25), 1)
    assert_close(square, flat.reshape(x.shape).numpy())
    for got, want in ((product, pairs[0] * pairs[1]), (conj, pairs[0] * pairs[1].conj())):
        assert_close(got, np.stack([want.real, want.imag], -1), scale=4.0)
    assert not fine and not_nan
    assert (embedded == 3).all() and embedded.shape == (1, 2, 2)
    assert_close(dropped, x + x[0, 0, 0] + x)
    np.testing.assert_array_equal(integers, (b.astype(np.int32) - 7) * (b.astype(np.int32) - 250))
    np.testing.assert_array_equal(summed, b.sum(1, dtype=np.uint32))
    assert_close(fused, np.maximum(0.5 * x @ x.swapaxes(2, 3), 0), scale=4.0)
    rows = (f(3, 4), f(4, 5), f(5))
    gelu, *turned = alone(
        Case("GemmFastGelu", rows),
        Case("GemmaRotaryEmbedding", [angles, *q, *k], (0, 1)),
    )
    want = torch.nn.functional.gelu(torch.tensor(rows[0] @ rows[1] + rows[2]), approximate="tanh")
    assert_close(gelu, want.numpy(), scale=4.0)
    for got, (v, other) in zip(turned, (q, k), strict=True):
        assert_close(got, v * np.cos(angles)[:, None] + other * np.sin(angles)[:, None])


def test_one_token() -> None:
    """As the operator of many, which ONNX Runtime agrees with; its own crashes where beams are left out."""
    new, past = [f(2, 1, 16) for _ in range(3)], [f(2, 4, 8, 4), f(2, 4, 8, 4), i32(3)]
    one_token, many = alone(
        Case("DecoderMaskedMultiHeadAttention", [*new, None, None, *past],
             attributes={"num_heads": 4, "past_present_share_buffer": 1}),
        Case("MultiHeadAttention", [*new, None, None, None, *past], attributes={"num_heads": 4}),
    )  # fmt: skip
    np.testing.assert_array_equal(one_token, many)


def test_distances_in_buckets() -> None:
    """T5's own, transformers' text of it (modeling_t5.py) in torch."""
    table = f(32, 4)
    for both in (0, 1):
        (got,) = alone(Case("RelativePositionBias", [table, one(np.int64, 40), one(np.int64, 40)], constants=(1, 2),
                            attributes={"max_distance": 20, "is_bidirectional": both}))  # fmt: skip
        position = torch.arange(40)[None] - torch.arange(40)[:, None]
        count, found = 32, torch.zeros_like(position)
        if both:
            count //= 2
            found = found + (position > 0) * count
            position = position.abs()
        else:
            position = -torch.minimum(position, torch.zeros_like(position))
        exact = count // 2
        far = exact + (torch.log(position.float() / exact) / np.log(20 / exact) * (count - exact)).to(torch.long)
        found = found + torch.where(position < exact, position, torch.minimum(far, torch.full_like(far, count - 1)))
        np.testing.assert_array_equal(got, table[found].transpose(2, 0, 1)[None])


@pytest.mark.parametrize("most", [128, 64])
@pytest.mark.parametrize("columns", [False, True])
def test_recurrent_weights_of_eight_bits(columns: bool, most: int) -> None:
    """As the standard's layer with the real weights, to which ONNX Runtime only comes near.

    Without VNNI it adds pairs of products in 16 bits, which weights of more than 7 bits overflow.
    """
    w, r = (RNG.integers(-most, most, (1, 4, 12), np.int8), RNG.integers(-most, most, (1, 3, 12), np.int8))
    lens = (1, 12) if columns else (1,)
    scales = [np.abs(f(*lens)) / 100 for _ in range(2)]
    zeros = [np.zeros(lens, np.int8)] * 2
    x, bias, h = f(5, 2, 4), f(1, 24), f(1, 2, 3)
    real = [
        (v * s.reshape(1, 1, -1)).astype(np.float32).transpose(0, 2, 1) for v, s in zip((w, r), scales, strict=True)
    ]
    given = {"hidden_size": 3}
    want = theirs(*model_of([Case("LSTM", [x, *real, bias, None, h], (0, 1, 2), attributes=given, domain="")]))
    inputs = [x, w, r, bias, None, h, None, None, scales[0], zeros[0], scales[1], zeros[1]]
    case = Case("DynamicQuantizeLSTM", inputs, (0, 1, 2), (1, 2), given)
    for got, value in zip(alone(case), want, strict=True):
        assert_close(got, value, scale=4.0)
    if most <= 64:
        for near, value in zip(theirs(*model_of([case])), want, strict=True):
            np.testing.assert_allclose(near, value, atol=0.05)


def test_hash_of_strings() -> None:
    words = np.array(["", "a", "abcd", "hello, world", "grüße"], object)
    tensor = helper.make_tensor("w", TensorProto.STRING, words.shape, [w.encode() for w in words])
    node = helper.make_node("MurmurHash3", ["w"], ["y"], domain=MICROSOFT, seed=3)
    out = helper.make_tensor_value_info("y", TensorProto.UINT32, words.shape)
    graph = helper.make_graph([node], "g", [], [out], [tensor])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    np.testing.assert_array_equal(ours(data, {})[0], theirs(data, {})[0])


OLD = [
    ("Affine", [X], {"alpha": 0.5, "beta": 2.0}, 1),
    ("ParametricSoftplus", [X], {"alpha": 0.5, "beta": 2.0}, 1),
    ("ScaledTanh", [X], {"alpha": 0.5, "beta": 2.0}, 1),
    ("Scale", [X], {"scale": 0.5}, 1),
    ("Crop", [IMAGE], {"border": [1, 0, 2, 1]}, 1),
    ("Crop", [IMAGE], {"border": [1, 2, 0, 0], "scale": [2, 3]}, 1),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "opset"), OLD)
def test_operators_of_the_first_opset(op: str, inputs: list, attributes: dict, opset: int) -> None:
    """They are no longer the standard's; ONNX Runtime knows them."""
    info = helper.make_tensor_value_info("x0", TensorProto.FLOAT, inputs[0].shape)
    out = helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op, ["x0"], ["y0"], **attributes)], "g", [info], [out])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4).SerializeToString()
    assert opset and migraphx.parse_onnx_buffer(data)
    assert_close(ours(data, {"x0": inputs[0]})[0], theirs(data, {"x0": inputs[0]})[0])


WRONG = [
    Case("ExpandDims", [X, one(np.int32, 4)], constants=(1,)),
    Case("Pad", [X, np.array([[1, 0, 2, 3]])], constants=(1,)),
    Case("UnfoldTensor", [X], attributes={"size": 17}),
    Case("CropAndResize", [IMAGE, ROIS, i32(0, 1, 1), i32(2, 2)], constants=(3,)),
    Case("CropAndResize", [IMAGE, ROIS, i32(0, 1, 1, 0), i32(0, 2)], constants=(3,)),
    Case("CDist", [f(4, 6), f(3, 5)]),
    Case("CDist", [f(4, 6), f(3, 6)], attributes={"metric": "cosine"}),
    Case("BiasSoftmax", [X, f(3)], attributes={"is_inner_broadcast": 1}),
    Case("BiasSoftmax", [X, f(16)]),
    Case("ComplexMul", [f(3, 4), f(3, 4)]),
    Case("NGramRepeatBlock", [TOKENS, f(2, 4)], attributes={"ngram_size": 2}),
    Case("Unique", [X]),
    Case("GatedAdd", [X, f(2, 5, 16), f(2, 5, 16)]),
    Case("GatedRMSNorm", [X, f(5), X]),
    Case("LinearAttention", [f(2, 3, 8), f(2, 3, 8), f(2, 3, 6)],
         attributes={"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear", "state_window": 2}),
    Case("MRotaryEmbedding", [f(2, 4, 36), RNG.integers(0, 9, (3, 2, 4)), *TABLES],
         attributes={"mrope_section": [1, 2, 2], "num_heads": 3}),
    Case("QAttention", [u8(2, 5, 16), u8(15, 48), f(48), *[one(np.float32, 0.02)] * 2], attributes={"num_heads": 4}),
    Case("GatherBlockQuantized", [u8(7, 24), np.array([1]), f(7, 3)], attributes={"block_size": 24}),
    Case("GatherBlockQuantized", [u8(7, 24), np.array([1]), f(7, 2)], attributes={"block_size": 16}),
    Case("GatherBlockQuantized", [u8(7, 24), np.array([1]), f(7, 3)], attributes={"block_size": 16, "gather_axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=[f"{k}-{c.op}" for k, c in enumerate(WRONG)])
def test_refused(case: Case) -> None:
    with pytest.raises(ValueError, match=case.op):
        migraphx.parse_onnx_buffer(model_of([case])[0])
