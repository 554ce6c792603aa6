"""Random numbers. Equal seeds give equal numbers; without a seed each run has others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.module import Instruction
from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError, element_type
from migraphx.onnx.registry import converter

Value = Instruction


def uniform(b: OnnxBuilder, seed: float | None, type: str, lens: Sequence[int]) -> Value:
    """Numbers in [0, 1)."""
    start = b.random_seed() if seed is None else b.literal(np.array([int(seed)], np.int64))
    like = b.multibroadcast(b.literal(np.zeros(1), type), out_lens=lens) if lens else b.literal(np.zeros(()), type)
    return b.random_uniform(start, like)


def normal(b: OnnxBuilder, seed: float | None, type: str, lens: Sequence[int]) -> Value:
    """Numbers of mean 0 and deviation 1 (Box and Muller, 1958)."""
    both = uniform(b, seed, "double" if type == "double" else "float", (2, math.prod(lens)))
    first, second = (b.slice(both, axes=(0,), starts=(k,), ends=(k + 1,)) for k in (0, 1))
    radius = b.log(b.sub(b.full(1.0, first), first))
    radius = b.sqrt(b.mul(b.full(-2.0, radius), radius))
    made = b.mul(radius, b.cos(b.mul(b.full(2 * math.pi, second), second)))
    return b.cast(b.reshape(made, dims=tuple(lens)), type)


def float_type(x: Value | None, dtype: int | None) -> str:
    """The type of random numbers: that which the node says, or the input's."""
    type = x.shape.type if x is not None and dtype is None else element_type(dtype or 0)
    if type not in dtypes.FLOATS:
        raise OnnxError(f"random numbers are floats, dtype is {type}")
    return type


def placed(b: OnnxBuilder, x: Value, scale: float, shift: float) -> Value:
    return b.add(b.mul(x, b.full(scale, x)), b.full(shift, x))


@converter("RandomUniform")
def random_uniform(
    b: OnnxBuilder, *, shape: Sequence[int], dtype: int, low: float, high: float, seed: float | None = None
) -> Value:
    return placed(b, uniform(b, seed, float_type(None, dtype), shape), high - low, low)


@converter("RandomUniformLike")
def random_uniform_like(
    b: OnnxBuilder, x: Value, *, low: float, high: float, dtype: int | None = None, seed: float | None = None
) -> Value:
    type = float_type(x, dtype)
    return placed(b, uniform(b, seed, type, x.shape.lens), high - low, low)


@converter("RandomNormal")
def random_normal(
    b: OnnxBuilder, *, shape: Sequence[int], dtype: int, mean: float, scale: float, seed: float | None = None
) -> Value:
    return placed(b, normal(b, seed, float_type(None, dtype), shape), scale, mean)


@converter("RandomNormalLike")
def random_normal_like(
    b: OnnxBuilder, x: Value, *, mean: float, scale: float, dtype: int | None = None, seed: float | None = None
) -> Value:
    type = float_type(x, dtype)
    return placed(b, normal(b, seed, type, x.shape.lens), scale, mean)


@converter("Bernoulli")
def bernoulli(b: OnnxBuilder, x: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with probability x, else 0."""
    below = b.less(uniform(b, seed, x.shape.type, x.shape.lens), x)
    return b.cast(below, x.shape.type if dtype is None else element_type(dtype))


@converter("Multinomial")
def multinomial(b: OnnxBuilder, x: Value, *, dtype: int, sample_size: int, seed: float | None = None) -> Value:
    """Classes drawn with the probabilities of which x {N, classes} has the logarithms."""
    if x.shape.ndim != 2:
        raise OnnxError(f"takes {{N, classes}}, got {x.shape.lens}")
    if sample_size < 1:
        raise OnnxError(f"sample_size must be above 0, is {sample_size}")
    most = b.broadcast_to(b.reduce_max(x, axes=(1,)), x.shape.lens)
    sums = b.prefix_scan_sum(b.exp(b.sub(x, most)), axis=1)
    numbers = uniform(b, seed, "float", (x.shape.lens[0], sample_size))
    type = element_type(dtype)
    if type not in ("int32", "int64"):
        raise OnnxError(f"dtype must be int32 or int64, is {type}")
    return b.multinomial(sums, numbers, dtype=type)


@converter("Dropout")
def dropout(
    b: OnnxBuilder,
    x: Value,
    ratio: Any = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
    is_test: int = 0,
) -> tuple[Value, Value]:
    """x itself, unless in training; the mask says what is kept, of x's type before opset 10.

    The ratio is an attribute before opset 12.
    """
    if training_mode is None or not b.number(training_mode, "training_mode"):
        return b.identity(x), b.full(1, x if b.version < 10 else b.equal(x, x))
    share = ratio if isinstance(ratio, Instruction) else b.literal(np.array(0.5 if ratio is None else ratio), "float")
    wide = "double" if x.shape.type == "double" else "float"
    share = b.broadcast_to(b.cast(share, wide), x.shape.lens)
    kept = b.greater_or_equal(uniform(b, seed, wide, x.shape.lens), share)
    scaled = b.div(b.cast(x, wide), b.sub(b.full(1.0, share), share))
    return b.cast(b.where(kept, scaled, b.full(0.0, scaled)), x.shape.type), kept
