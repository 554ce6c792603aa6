"""Constants made from numbers alone: torch itself computes them, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_migraphx.fx.builder import Builder, Value, dtype_of, lens
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.errors import UnsupportedError
from torch_migraphx.fx.tracer.acc_tracer import acc_ops

aten = torch.ops.aten
prims = torch.ops.prims


def number(value: Any) -> Any:
    if isinstance(value, Value):
        raise UnsupportedError("a constant whose value is data")
    return value


@converter(acc_ops.full, aten.full.default, named(prims.full.default, shape="size"))
def full(b: Builder, size: list[int], fill_value: Any, dtype: torch.dtype | None = None) -> Value:
    known = torch.full((), number(fill_value), dtype=dtype)
    return b.full(known.item(), known.dtype, size)


@converter(aten.zeros.default, aten.new_zeros.default, aten.empty.memory_format, aten.new_empty.default)
def zeros(b: Builder, size: list[int], dtype: torch.dtype | None = None, input: Value | None = None) -> Value:
    own = torch.get_default_dtype() if input is None else dtype_of(input)
    return b.full(0, dtype or own, size)


@converter(aten.empty_strided.default, aten.new_empty_strided.default, aten.empty_permuted.default)
def empty_strided(
    b: Builder,
    size: list[int],
    stride: Sequence[int] = (),
    physical_layout: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    input: Value | None = None,
) -> Value:
    """Zeros: where they lie in memory is the engine's own affair."""
    return zeros(b, size, dtype, input)


@converter(aten.ones.default, aten.new_ones.default)
def ones(b: Builder, size: list[int], dtype: torch.dtype | None = None, input: Value | None = None) -> Value:
    own = torch.get_default_dtype() if input is None else dtype_of(input)
    return b.full(1, dtype or own, size)


@converter(aten.new_full.default)
def new_full(b: Builder, input: Value, size: list[int], fill_value: Any, dtype: torch.dtype | None = None) -> Value:
    return b.full(number(fill_value), dtype or dtype_of(input), size)


@converter(aten.full_like.default, named(prims.full_like.default, a="input"))
def full_like(b: Builder, input: Value, fill_value: Any, dtype: torch.dtype | None = None) -> Value:
    return b.full(number(fill_value), dtype or dtype_of(input), lens(input))


@converter(aten.zeros_like.default, aten.empty_like.default)
def zeros_like(b: Builder, input: Value, dtype: torch.dtype | None = None) -> Value:
    return b.full(0, dtype or dtype_of(input), lens(input))


@converter(aten.ones_like.default)
def ones_like(b: Builder, input: Value, dtype: torch.dtype | None = None) -> Value:
    return b.full(1, dtype or dtype_of(input), lens(input))


@converter(aten.scalar_tensor.default)
def scalar_tensor(b: Builder, s: Any, dtype: torch.dtype | None = None) -> Value:
    return b.full(number(s), dtype or torch.get_default_dtype())


@converter(aten.fill.Scalar)
def fill(b: Builder, input: Value, value: Any) -> Value:
    return b.full(number(value), dtype_of(input), lens(input))


@converter(acc_ops.arange, aten.arange.default, aten.arange.start, aten.arange.start_step)
def arange(b: Builder, end: Any, start: Any = 0, step: Any = 1, dtype: torch.dtype | None = None) -> Value:
    if isinstance(number(end), bool | int | float):
        return b.literal(torch.arange(number(start), end, number(step), dtype=dtype))
    if (start, step) != (0, 1) or (dtype or torch.int64).is_floating_point:
        raise UnsupportedError("a range of unknown length that does not count from 0")
    return b.cast(b.counted(end), dtype or torch.int64)


@converter(prims.iota.default)
def iota(b: Builder, length: int, start: int, step: int, dtype: torch.dtype) -> Value:
    return b.literal(torch.arange(length, dtype=dtype) * step + start)


@converter(aten.linspace.default)
def linspace(b: Builder, start: Any, end: Any, steps: int, dtype: torch.dtype | None = None) -> Value:
    return b.literal(torch.linspace(number(start), number(end), steps, dtype=dtype))


@converter(aten.eye.default, aten.eye.m)
def eye(b: Builder, n: int, m: int | None = None, dtype: torch.dtype | None = None) -> Value:
    return b.literal(torch.eye(n, n if m is None else m, dtype=dtype))


@converter(aten.copy.default)
def copy(b: Builder, input: Value, src: Value) -> Value:
    """`src` as the type and the size of `input`."""
    return b.expand(b.cast(src, dtype_of(input)), lens(input))


@converter(aten.zero.default)
def zero(b: Builder, input: Value) -> Value:
    return b.full(0, dtype_of(input), lens(input))
