"""Weights of 4 bits that stay packed, and those that become floats."""

from __future__ import annotations

import numpy as np
import pytest

import migraphx
from migraphx.api.program import published
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.passes.fuse_int4 import fuse_int4
from migraphx.passes.pipeline import SIMPLIFY
from tests.passes.checking import checked, program_of
from tests.tolerances import assert_close

Value = Instruction
K, N, BLOCK = 96, 45, 32


def weights(b: Builder, rng: np.random.Generator, type: str, turned: bool, zeros: bool, along: str = "block") -> Value:
    """{K, N}, dequantized from packed codes; `along`: what a scale belongs to."""
    lens, blocks = ((N, K), (N, K // BLOCK, BLOCK)) if turned else ((K, N), (K // BLOCK, BLOCK, N))
    axis = 1 if turned else 0
    packed = rng.integers(0, 256, [n // 2 if d == axis else n for d, n in enumerate(lens)]).astype(np.uint8)
    codes = b.reshape(b.unpack_int4(b.literal(packed.view(type)), axis=axis), dims=blocks)
    one = 2 if turned else 1
    small = [1 if d == one and along == "block" else n for d, n in enumerate(blocks)]
    parts = [(rng.random(small) + 0.5).astype(np.float32)]
    if zeros:
        parts.append(rng.integers(*(-128, 128) if type == "int8" else (0, 136), small).astype(type))
    y = b.reshape(b.dequantizelinear(codes, *(b.broadcast_to(b.literal(p), blocks) for p in parts)), dims=lens)
    return b.transpose(y, permutation=(1, 0)) if turned else y


@pytest.mark.parametrize("type", ["int8", "uint8"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_packed_weights(type: str, turned: bool, zeros: bool) -> None:
    """A row, a few and many of them: three kernels."""
    rng = np.random.default_rng(0)

    def build(b: Builder, *inputs: Value) -> list[Value]:
        w = weights(b, rng, type, turned, zeros)
        return [b.relu(b.dot(x, b.broadcast_to(w, (*x.shape.lens[:-2], K, N)))) for x in inputs]

    lens = {"one": (1, K), "few": (2, 2, K), "many": (20, K)}
    program = program_of(build, **lens)
    values = {name: rng.standard_normal(n).astype(np.float32) for name, n in lens.items()}
    plain = program.clone()
    assert checked(program, [fuse_int4], values)["dot_int4"] == 3
    outputs = []
    for target in ("ref", "cpu"):
        p = published(plain.clone())
        p.compile(migraphx.get_target(target))
        outputs.append([np.array(o) for o in p.run(values)])
    for want, got in zip(*outputs, strict=True):
        assert_close(got, want)


def test_weights_used_both_ways() -> None:
    """One block is a row for one dot and a column for the other."""
    codes, scales = np.arange(32, dtype=np.int8).reshape(8, 4), np.arange(1, 9, dtype=np.float32).reshape(8, 1, 1)

    def build(b: Builder, x: Value) -> list[Value]:
        blocks = b.reshape(b.unpack_int4(b.literal(codes), axis=1), dims=(8, 1, 8))
        w = b.reshape(b.dequantizelinear(blocks, b.broadcast_to(b.literal(scales), (8, 1, 8))), dims=(8, 8))
        return [b.dot(x, w), b.dot(x, b.transpose(w, permutation=(1, 0)))]

    assert checked(program_of(build, x=(3, 8)), [fuse_int4])["dot_int4"] == 2


def test_a_zero_point_that_is_no_int8_stays() -> None:
    def build(b: Builder, x: Value) -> Value:
        parts = (np.array([0.5], np.float32), np.array([136], np.uint8))
        codes = b.reshape(b.unpack_int4(b.literal(np.arange(32, dtype=np.uint8).reshape(4, 8)), axis=0), dims=(2, 4, 8))
        y = b.dequantizelinear(codes, *(b.broadcast_to(b.literal(p), (2, 4, 8)) for p in parts))
        return b.dot(x, b.reshape(y, dims=(8, 8)))

    assert checked(program_of(build, x=(3, 8)), [fuse_int4])["dot"] == 1


def test_scales_along_the_depth_make_floats_once() -> None:
    def build(b: Builder, x: Value) -> Value:
        return b.dot(x, weights(b, np.random.default_rng(1), "uint8", False, True, along="number"))

    left = checked(program_of(build, x=(3, K)), SIMPLIFY)
    assert left == {"dot": 1}
