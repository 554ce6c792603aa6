"""Mixtures of experts, inverses and 4-bit products of ONNX Runtime agree with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.contrib_cases import Case, model_of
from tests.onnx.one_node import ours, theirs
from tests.tolerances import assert_close

RNG = np.random.default_rng(11)


def f(*lens: int) -> np.ndarray:
    return RNG.standard_normal(lens).astype(np.float32)


def u8(*lens: int) -> np.ndarray:
    return RNG.integers(0, 256, lens, np.uint8)


def steps(*lens: int) -> np.ndarray:
    return np.abs(f(*lens)) * np.float32(0.01)


def moe(tokens: tuple[int, ...], activation: str, gates: int = 1, **more: Any) -> Case:
    experts, width, inner, result = 4, 8, 6, 8
    rows = int(np.prod(tokens))
    inputs = [f(*tokens, width), f(rows, experts), f(experts, gates * inner, width), f(experts, gates * inner),
              f(experts, result, inner), f(experts, result)]  # fmt: skip
    return Case("MoE", inputs, attributes={"activation_type": activation, "k": 2, **more})


def qmoe(bits: int, block: int, zeros: bool) -> Case:
    width, inner, experts, packed = 32, 64, 3, 8 // bits

    def blocks(n: int) -> tuple[int, ...]:
        return (n // block,) if block else ()

    def layer(rows: int, n: int) -> list[np.ndarray]:
        return [u8(experts, rows, n // packed), steps(experts, rows, *blocks(n)), f(experts, rows)]

    inputs: list[np.ndarray | None] = [f(5, width), f(5, experts), *layer(inner, width), *layer(width, inner)]
    more: dict[str, Any] = {"block_size": block} if block else {}

    def points(rows: int, n: int) -> np.ndarray:
        return u8(experts, rows, n // block // packed) if block else u8(experts, rows // packed)

    if zeros:
        inputs += [None, None, None, points(inner, width), points(width, inner)]
    more |= {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1, "expert_weight_bits": bits}
    return Case("QMoE", inputs, attributes=more)


SWIGLU = {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.0}
CASES = [
    moe((1, 1), "relu"),
    moe((1, 6), "gelu", normalize_routing_weights=1),
    moe((5,), "silu", normalize_routing_weights=1),
    moe((1, 6), "swiglu", 2, **SWIGLU),
    *(qmoe(bits, block, zeros) for bits in (4, 8) for block in (0, 16) for zeros in (False, True)),
    Case("Inverse", [f(2, 3, 5, 5)]),
    Case("Inverse", [np.array([[0, 1], [2, 0]], np.float32)]),  # it has to exchange rows
    Case("Inverse", [np.array([[-4]], np.float32)]),
    Case("Trilu", [f(2, 3, 4), np.array([1])], attributes={"upper": 0}),
    Case("MatMulBnb4", [f(2, 8), u8(16), steps(2)], attributes={"N": 4, "K": 8, "block_size": 16, "quant_type": 0}),
    Case("MatMulBnb4", [f(2, 7), u8(18), steps(3)], attributes={"N": 5, "K": 7, "block_size": 16, "quant_type": 1}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c.op}" for k, c in enumerate(CASES)])
def test_as_onnxruntime(case: Case) -> None:
    data, feeds = model_of([case])
    assert_close(ours(data, feeds)[0], theirs(data, feeds)[0], scale=8)


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASES[2], CASES[12]], ids=["MoE", "Inverse"])
def test_compiled(case: Case) -> None:
    data, feeds = model_of([case])
    assert_close(ours(data, feeds, "cpu")[0], theirs(data, feeds)[0], scale=8)
