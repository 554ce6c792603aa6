"""ONNX Runtime's own operators agree with ONNX Runtime, products of int8 with exact integers, on `ref` and on `cpu`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import migraphx
from tests.onnx.contrib_cases import Case, model_of
from tests.onnx.exact_integers import exact
from tests.onnx.one_node import ours, theirs
from tests.tiers import few
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)


def f(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def u8(*lens: int) -> np.ndarray:
    return RNG.integers(0, 256, lens, np.uint8)


def i8(*lens: int) -> np.ndarray:
    return RNG.integers(-128, 128, lens, np.int8)


def s(value: float) -> np.ndarray:
    return np.array(value, np.float32)


X, W = f(2, 5, 16), f(16)
IMAGE, KERNEL = f(1, 4, 7, 6), f(6, 4, 3, 3)

FLOAT = [
    Case("Gelu", [X]),
    Case("BiasGelu", [X, W]),
    Case("FastGelu", [X]),
    Case("FastGelu", [X, W]),
    Case("QuickGelu", [X]),
    Case("QuickGelu", [X], attributes={"alpha": 0.5}),
    Case("SimplifiedLayerNormalization", [X, W], (0, 1), domain=""),
    Case("SimplifiedLayerNormalization", [X, f(5, 16)], domain="", attributes={"axis": 1, "epsilon": 1e-2}),
    Case("SimplifiedLayerNormalization", [X.astype(np.float16), W], domain=""),
    Case("SkipLayerNormalization", [X, f(2, 5, 16), W, f(16), f(16)], (0, 1, 2, 3)),
    Case("SkipLayerNormalization", [X, f(5, 16), W], attributes={"epsilon": 0.1}),
    Case("SkipSimplifiedLayerNormalization", [X, f(2, 5, 16), W, f(16)], (0, 1, 2, 3)),
    Case("SkipSimplifiedLayerNormalization", [X, f(1, 5, 16), W], attributes={"epsilon": 0.1}),
    Case(
        "EmbedLayerNormalization",
        [
            np.array([[1, 2, 3]], np.int32),
            np.array([[0, 1, 1]], np.int32),
            f(9, 8),
            f(7, 8),
            f(2, 8),
            f(8),
            f(8),
            np.array([[1, 1, 0]], np.int32),
        ],
        (0, 1),
    ),
    Case("FusedConv", [IMAGE, KERNEL], constants=(1,), attributes={"activation": "Relu", "pads": [1, 1, 1, 1]}),
    Case(
        "FusedConv",
        [IMAGE, KERNEL, f(6), f(1, 6, 3, 2)],
        constants=(1, 2),
        attributes={"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 2]},
    ),
    Case("FusedConv", [IMAGE, f(6, 2, 1, 1), f(6)], attributes={"group": 2, "activation": "Tanh"}),
    Case("FusedConv", [IMAGE, f(6, 4, 1, 1)], attributes={"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    Case(
        "FusedConv", [IMAGE, f(6, 4, 1, 1)], attributes={"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}
    ),
    Case("FusedGemm", [f(3, 4), f(4, 5), f(5)], attributes={"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
    Case(
        "FusedGemm",
        [f(4, 3), f(5, 4)],
        attributes={"transA": 1, "transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.3},
    ),
    Case("FusedConv", [IMAGE, f(6, 4, 1, 1)], attributes={"activation": "HardSwish"}),
    *(
        Case("FusedGemm", [f(3, 4), f(4, 5), f(5)], attributes={"activation": n, "activation_alpha": 0.4})
        for n in ("Elu", "ThresholdedRelu")
    ),
    *(Case("FusedGemm", [f(3, 4), f(4, 5)], attributes={"activation": n}) for n in ("Softplus", "Softsign")),
    Case("FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], attributes={"alpha": 0.25, "transB": 1}),
    Case("FusedMatMul", [f(4, 3), f(4, 5)], attributes={"transA": 1}),
    Case("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], attributes={"transBatchA": 1}),
    Case("FusedMatMul", [f(3, 2, 4), f(5, 2, 4)], attributes={"transBatchA": 1, "transBatchB": 1, "transB": 1}),
]


def nbits(bits: int, k: int, n: int, block: int, zeros: bool, bias: bool = False) -> Case:
    blocks = -(-k // block)
    packed = u8(n, blocks, block * bits // 8)
    zero = u8(n * -(-blocks * bits // 8)) if zeros else None
    return Case(
        "MatMulNBits",
        [f(2, 3, k), packed, f(n * blocks), zero, *([None, f(n)] if bias else [])],
        constants=(1, 2, 3, 5),
        attributes={"K": k, "N": n, "block_size": block, "bits": bits},
    )


NBITS = [
    nbits(4, 64, 5, 32, zeros=False),
    nbits(4, 96, 5, 32, zeros=True, bias=True),
    nbits(4, 40, 6, 16, zeros=True),
    nbits(8, 64, 5, 32, zeros=True),
    nbits(8, 64, 5, 32, zeros=False, bias=True),
    nbits(2, 48, 5, 16, zeros=True),
    nbits(2, 64, 5, 32, zeros=False, bias=True),
]
for plain, blocks in ((nbits(4, 40, 6, 16, zeros=False), 3), (nbits(4, 64, 5, 32, zeros=False), 2)):
    columns = RNG.integers(0, blocks, plain.attributes["K"]).astype(np.int32)
    NBITS.append(replace(plain, inputs=[*plain.inputs, columns], constants=(1, 2, 4)))


def mask(*lens: int) -> np.ndarray:
    """Mostly ones, the first always."""
    found = (RNG.random(lens) < 0.7).astype(np.int32)
    found[..., 0] = 1
    return found


HEADS = {"num_heads": 4}
CAUSAL = HEADS | {"unidirectional": 1}
QKV = [f(2, 5, 16), f(16, 48), f(48)]
ATTENTION = [
    Case("Attention", QKV, attributes=HEADS),
    Case("Attention", QKV, attributes=CAUSAL | {"scale": 0.3}),
    Case("Attention", [*QKV, mask(2, 5)], attributes=HEADS | {"mask_filter_value": -5.0}),
    Case("Attention", [*QKV, mask(2, 5, 5)], attributes=CAUSAL),
    Case("Attention", [*QKV, np.array([3, 5], np.int32)], attributes=HEADS),
    Case("Attention", [*QKV, np.array([3, 5, 1, 0], np.int32)], attributes=HEADS),
    Case("Attention", [*QKV, mask(2, 8), f(2, 2, 4, 3, 4)], (0, 1), attributes=CAUSAL),
    Case(
        "Attention",
        [QKV[0], f(16, 40), f(40), None, None, f(1, 4, 5, 5)],
        attributes=HEADS | {"qkv_hidden_sizes": [16, 16, 8]},
    ),
]
Q, K, V = f(2, 5, 16), f(2, 7, 16), f(2, 7, 24)
MULTI = [
    Case("MultiHeadAttention", [Q, K, V], attributes=HEADS),
    Case("MultiHeadAttention", [Q, K, V, f(56), mask(2, 7)], (0, 1, 2), attributes=HEADS | {"scale": 0.4}),
    Case("MultiHeadAttention", [Q, K, V, None, mask(2, 5, 7), f(1, 4, 5, 7)], attributes=HEADS),
    Case("MultiHeadAttention", [Q, f(2, 5, 16), f(2, 5, 16)], attributes=CAUSAL),
    Case(
        "MultiHeadAttention",
        [Q, f(2, 5, 16), f(2, 5, 16), None, None, None, f(2, 4, 3, 4), f(2, 4, 3, 4)],
        (0, 1, 2),
        attributes=CAUSAL,
    ),
    Case("MultiHeadAttention", [Q, f(2, 4, 7, 4), f(2, 4, 7, 4), None, mask(2, 7)], attributes=HEADS),
    Case("MultiHeadAttention", [Q, f(2, 7, 16), f(2, 7, 16)], attributes=CAUSAL),
    Case(
        "MultiHeadAttention",
        [Q, f(2, 7, 16), f(2, 7, 16), None, mask(2, 10), None, f(2, 4, 3, 4), f(2, 4, 3, 4)],
        (0, 1, 2, 3),
        attributes=CAUSAL,
        floats=True,
    ),
    *(
        Case(
            "MultiHeadAttention",
            [
                f(2, 1, 16),
                f(2, 1, 16),
                f(2, 1, 16),
                None,
                None,
                None,
                f(2, 4, 8, 4),
                f(2, 4, 8, 4),
                np.array([3], np.int32),
            ],
            (0, 1, 2),
            attributes=a,
        )
        for a in (HEADS, CAUSAL)
    ),
    Case("MultiHeadAttention", [Q, K, V, *[None] * 5, np.array([3], np.int32)], attributes=HEADS),
]


def angles(rows: int, half: int) -> list[np.ndarray]:
    angle = RNG.random((rows, half)).astype(np.float32) * 6
    return [np.cos(angle), np.sin(angle)]


ROTARY = [
    Case("RotaryEmbedding", [f(2, 3, 16), np.array([2]), *angles(8, 2)]),
    Case("RotaryEmbedding", [f(2, 3, 16), RNG.integers(0, 8, (2, 3)), *angles(8, 4)], attributes={"interleaved": 1}),
    Case("RotaryEmbedding", [f(2, 4, 3, 8), RNG.integers(0, 8, (2, 3)), *angles(8, 4)]),
    Case(
        "RotaryEmbedding",
        [f(2, 3, 32), RNG.integers(0, 8, (2, 3)), *angles(8, 2)],
        attributes={"num_heads": 4, "rotary_embedding_dim": 4},
    ),
]


def gqa(length: int, past: int | None, seqlens: list[int], total: int, *more: np.ndarray | None, **attributes) -> Case:
    """4 heads on 2 of keys, 16 numbers each."""
    batch = len(seqlens)
    cache = [None, None] if past is None else [f(batch, 2, past, 16), f(batch, 2, past, 16)]
    inputs = [f(batch, length, 64), f(batch, length, 32), f(batch, length, 32), *cache]
    inputs += [np.array(seqlens, np.int32), np.array(total, np.int32), *more]
    return Case("GroupQueryAttention", inputs, (0, 1, 2), (6,), {"num_heads": 4, "kv_num_heads": 2} | attributes)


GROUPED = [
    gqa(5, 0, [4, 4], 5),
    gqa(5, 0, [4, 4], 5, *angles(16, 8), do_rotary=1),
    gqa(5, 0, [4, 4], 5, *angles(16, 8), do_rotary=1, rotary_interleaved=1, local_window_size=2),
    gqa(1, 6, [6, 6], 7),
    gqa(1, 6, [6, 4], 7, *angles(16, 8), do_rotary=1, scale=0.2),
    gqa(1, 6, [6, 6], 7, local_window_size=3),
    gqa(3, 6, [8], 9, *angles(16, 8), do_rotary=1),
    gqa(5, 0, [4, 4], 5, softcap=2.0),
    gqa(1, 6, [6, 5], 7, smooth_softmax=1),
    gqa(5, 0, [4, 4], 5, None, None, None, f(1, 4, 5, 5)),
    gqa(1, 6, [6, 5], 7, None, None, None, None, f(4)),
    Case(
        "GroupQueryAttention",
        [f(1, 5, 64), None, None, f(1, 2, 0, 8), f(1, 2, 0, 8), np.array([4], np.int32), np.array(5, np.int32)],
        (0, 1, 2),
        (6,),
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    gqa(5, 0, [4, 4], 5, causal=0),
    gqa(3, 0, [2, 2], 3, *angles(16, 8), np.array([[4, 0, 9], [1, 1, 1]]), do_rotary=1),
    gqa(1, 6, [6, 4], 7, *angles(16, 8), np.array([[9], [3]]), do_rotary=1),
    Case(
        "GroupQueryAttention",
        [
            f(2, 1, 64),
            f(2, 0, 32),
            f(2, 0, 32),
            f(2, 2, 7, 16),
            f(2, 2, 7, 16),
            np.array([6, 3], np.int32),
            np.array(7, np.int32),
            *angles(16, 8),
        ],
        (0,),
        (6,),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
    ),
    # of equal lengths: behind an item's own, ONNX Runtime leaves its fourth output as memory was
    *(
        replace(gqa(1, 8, [6, 6], 7, local_window_size=4, softcap=2.0, qk_output=o), outputs=(0, 1, 2, 3), floats=True)
        for o in (1, 2)
    ),
]


def in_integers(bits: int, *scale: int) -> Case:
    """A cache of `bits` bits with a scale of these lens."""
    how = "PER_CHANNEL" if scale[1:] else "PER_TENSOR"
    plain = gqa(1, 8, [6, 3], 7, kv_cache_bit_width=bits, k_quant_type=how, v_quant_type=how)
    caches = [i8(2, 2, 8, 16) if bits == 8 else u8(2, 2, 8, 8) for _ in range(2)]
    scales = [np.abs(f(*scale)) / 2**bits + 4 / 2**bits for _ in range(2)]
    return replace(plain, inputs=[*plain.inputs[:3], *caches, *plain.inputs[5:], *[None] * 5, *scales])


CACHES = [in_integers(bits, *lens) for bits in (8, 4) for lens in ((1,), (1, 2, 1, 16))]

A, Z = s(0.05), np.uint8(120)
QIMAGE = u8(1, 4, 7, 6)
QUANTIZED = [
    Case("QLinearAdd", [u8(3, 4), A, np.array(Z), u8(4), s(0.03), np.array(np.uint8(7)), s(0.07), np.array(Z)]),
    Case("QLinearAdd", [i8(3, 4), A, np.array(np.int8(3)), i8(3, 4), s(0.03), np.array(np.int8(-4)), s(0.07)]),
    Case(
        "QLinearMul",
        [i8(3, 4), A, np.array(np.int8(3)), i8(3, 1), s(0.03), np.array(np.int8(-4)), s(0.07), np.array(np.int8(5))],
    ),
    Case(
        "QLinearWhere",
        [
            RNG.random((3, 1)) > 0.5,
            u8(3, 4),
            A,
            np.array(Z),
            u8(4),
            s(0.03),
            np.array(np.uint8(9)),
            s(0.04),
            np.array(np.uint8(7)),
        ],
    ),
    Case("QLinearSigmoid", [u8(3, 40), A, np.array(Z), s(1 / 256), np.array(np.uint8(0))]),
    Case(
        "QLinearLeakyRelu",
        [i8(3, 40), A, np.array(np.int8(3)), s(0.04), np.array(np.int8(-9))],
        attributes={"alpha": 0.2},
    ),
    Case(
        "QLinearConcat",
        [s(0.06), np.array(Z), u8(2, 3), A, np.array(Z), u8(2, 4), s(0.03), np.array(np.uint8(9))],
        attributes={"axis": 1},
    ),
    Case(
        "QLinearAveragePool",
        [QIMAGE, A, np.array(Z), s(0.04), np.array(Z)],
        attributes={"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    ),
    Case(
        "QLinearAveragePool",
        [u8(1, 7, 6, 4), A, np.array(Z), s(0.04), np.array(Z)],
        attributes={"kernel_shape": [3, 3], "channels_last": 1, "count_include_pad": 1, "pads": [1, 1, 1, 1]},
    ),
    Case("QLinearGlobalAveragePool", [QIMAGE, A, np.array(Z), s(0.04), np.array(Z)], attributes={"channels_last": 0}),
    Case(
        "QLinearGlobalAveragePool",
        [u8(1, 7, 6, 4), A, np.array(Z), s(0.04), np.array(Z)],
        attributes={"channels_last": 1},
    ),
    Case(
        "QLinearConv",
        [u8(1, 7, 6, 4), A, np.array(Z), u8(6, 4, 3, 3), s(0.02), np.array(np.uint8(128)), s(2.0), np.array(Z)],
        constants=(3, 4, 5),
        attributes={"channels_last": 1},
    ),
    Case(
        "QLinearSoftmax",
        [u8(3, 10), A, np.array(Z), s(1 / 256), np.array(np.uint8(0))],
        constants=(1, 2, 3, 4),
        attributes={"opset": 13, "axis": -1},
    ),
    Case("QuantizeLinear", [f(3, 4), A, np.array(np.uint16(1000))]),
    Case("DequantizeLinear", [RNG.integers(-900, 900, (3, 4)).astype(np.int16), A, np.array(np.int16(10))]),
]
INTEGER_PRODUCTS = [
    Case("MatMulIntegerToFloat", [u8(3, 8), u8(8, 5), A, s(0.03), np.array(Z), np.array(np.uint8(3)), f(5)]),
    Case("MatMulIntegerToFloat", [u8(2, 3, 8), i8(8, 5), A, np.abs(f(5)), np.array(Z), i8(5)]),
    Case(
        "QGemm",
        [
            u8(3, 8),
            A,
            np.array(Z),
            i8(5, 8),
            s(0.03),
            np.array(np.int8(2)),
            RNG.integers(-900, 900, 5, np.int32),
            s(1.5),
            np.array(Z),
        ],
        constants=(1, 4),
        attributes={"transB": 1},
    ),
    Case("DynamicQuantizeMatMul", [f(3, 8), i8(8, 5), s(0.03), np.array(np.int8(2)), f(5)]),
]
FAMILIES = {
    "float": FLOAT, "nbits": NBITS, "attention": ATTENTION, "multi": MULTI, "rotary": ROTARY, "grouped": GROUPED,
    "caches": CACHES, "quantized": QUANTIZED, "integer products": INTEGER_PRODUCTS,
}  # fmt: skip


@pytest.fixture(scope="module")
def wanted() -> dict[str, list[np.ndarray]]:
    return {
        name: (exact if cases is INTEGER_PRODUCTS else theirs)(*model_of(cases)) for name, cases in FAMILIES.items()
    }


@pytest.mark.parametrize("target", few(["ref", "cpu"], "ref"))
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees(family, target, wanted):
    got = ours(*model_of(FAMILIES[family]), target)
    for index, (value, want) in enumerate(zip(got, wanted[family], strict=True)):
        if value.dtype.kind in "ui":  # a number that lies between two codes
            assert value.dtype == want.dtype and value.shape == want.shape
            assert np.abs(value.astype(int) - want.astype(int)).max() <= 1, index
        else:
            assert_close(value, want, scale=4.0)


# ---- what ONNX Runtime has on no CPU ----


def alone(*case: Case) -> list[np.ndarray]:
    return ours(*model_of(case))


def test_packed_queries_keys_and_values():
    packed = f(2, 5, 4, 3, 4)
    apart = [packed[:, :, :, n].reshape(2, 5, 16) for n in range(3)]
    pairs = np.stack([p.reshape(2, 5, 4, 4) for p in apart[1:]], axis=3)
    bias = f(48)
    whole, halves, plain = alone(
        Case("MultiHeadAttention", [packed, None, None, bias], attributes=HEADS),
        Case("MultiHeadAttention", [apart[0], pairs, None, bias], attributes=HEADS),
        Case("MultiHeadAttention", [*apart, bias], attributes=HEADS),
    )
    np.testing.assert_array_equal(whole, plain)
    np.testing.assert_array_equal(halves, plain)


def test_cache_that_is_longer_than_the_text():
    """New keys are written behind each item's own; what is behind these is 0."""
    case = gqa(2, 8, [4, 3], 5)
    y, keys, values = alone(case)
    assert y.shape == (2, 2, 64) and keys.shape == values.shape == (2, 2, 8, 16)
    new = np.asarray(case.inputs[1]).reshape(2, 2, 2, 16).transpose(0, 2, 1, 3)
    for item, start in enumerate((3, 2)):
        np.testing.assert_array_equal(keys[item, :, :start], np.asarray(case.inputs[3])[item, :, :start])
        np.testing.assert_array_equal(keys[item, :, start : start + 2], new[item])
        assert not keys[item, :, start + 2 :].any()


@pytest.mark.parametrize("last", [0, 1])
def test_group_norm(last):
    x, gamma, beta = f(2, 6, 3, 4), f(6), f(6)
    want = torch.nn.functional.group_norm(torch.tensor(x), 3, torch.tensor(gamma), torch.tensor(beta))
    want = torch.nn.functional.silu(want).numpy()
    given = x.transpose(0, 2, 3, 1) if last else x
    attributes = {"groups": 3, "activation": 1, "channels_last": last}
    (got,) = alone(Case("GroupNorm", [given, gamma, beta], attributes=attributes))
    assert_close(got, want.transpose(0, 2, 3, 1) if last else want, scale=4.0)

    bias, thin = f(6), f(2, 6)
    wide = thin[:, None, None] if last else thin[:, :, None, None]
    row = bias if last else bias[:, None, None]
    for skip, more, total in (
        (given * 2, (bias,), 3 * given + row),
        (thin, (), given + wide),
        (wide, (), given + wide),
    ):
        inputs = [given, gamma, beta, skip, *more]
        y, summed = alone(Case("SkipGroupNorm", inputs, (0, 1), attributes=attributes))
        assert_close(summed, total)
        (want,) = alone(Case("GroupNorm", [total, gamma, beta], attributes=attributes))
        assert_close(y, want, scale=10.0)


def test_nhwc_convolution():
    x, w, bias = f(2, 7, 6, 4), f(6, 3, 3, 2), f(6)
    image, kernel = (torch.tensor(v.transpose(0, 3, 1, 2)) for v in (x, w))
    want = torch.nn.functional.conv2d(image, kernel, torch.tensor(bias), padding=1, groups=2).numpy()
    (got,) = alone(Case("NhwcConv", [x, w, bias], attributes={"pads": [1, 1, 1, 1], "group": 2}))
    assert_close(got, want.transpose(0, 2, 3, 1), scale=4.0)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("FusedConv", [IMAGE, KERNEL], attributes={"activation": "Swish"}), "activation 'Swish'"),
        (Case("MatMulNBits", NBITS[0].inputs, attributes=NBITS[0].attributes | {"bits": 3}), "bits other than"),
        (Case("MultiHeadAttention", [Q], attributes=HEADS), "key and value are missing"),
        (Case("MultiHeadAttention", [Q, K, V], attributes={"num_heads": 3}), "3 heads do not divide"),
        (Case("MultiHeadAttention", [*[f(2, 1, 16)] * 3, *[None] * 4, f(2, 4, 8, 4), np.array([3], np.int32)],
              attributes=HEADS), "its past has no keys"),
        (Case("GroupQueryAttention", [f(1, 1, 64), f(1, 1, 32), f(1, 1, 32), f(1, 2, 8, 16), None,
              np.array([6], np.int32), np.array(7, np.int32)], (0,), (6,), {"num_heads": 4, "kv_num_heads": 2}),
         "its past has no values"),
        (Case("Attention", [*QKV, mask(7)], attributes=HEADS), "a mask of lens"),
        (Case("GroupNorm", [IMAGE, f(6), f(6)], attributes={"groups": 4, "activation": 0}), "4 groups"),
        (Case("QLinearConcat", [A, np.array(Z), u8(2)], attributes={"axis": 0}), "for each input"),
        (Case("QuickGelu", [X], attributes={"beta": 1.0}), "attribute 'beta' is not supported"),
    ],
)  # fmt: skip
def test_refused(case, words):
    with pytest.raises(ValueError, match=words) as error:
        migraphx.parse_onnx_buffer(model_of([case])[0])
    assert f"c0 ({case.domain}.{case.op})" in str(error.value)
