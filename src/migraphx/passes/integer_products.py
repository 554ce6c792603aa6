"""Products of 8-bit integers with zero points, split into a product without them and correction terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.operation import operation
from migraphx.passes.constants import broadcast_literal, scalar_of

Attributes = dict[str, Any]


def integer_product(
    b: Builder, name: str, x: Instruction, point: Instruction | int, weights: np.ndarray, zeros: np.ndarray,
    lens: Sequence[int], **attributes: Any,
) -> Instruction:  # fmt: skip
    """(x - point) times (weights - zeros) in int32, exactly; `name` is quant_dot or quant_convolution.

    x: 8-bit integers. point: a number, or one computed in a run, for a dot also one a row {.., M, 1}.
    weights: 8-bit constants, broadcast to `lens`. zeros: one number, or one an output channel, broadcast to weights; a
    grouped convolution takes zeros only where weights - zeros fit in int8. With padding, what is padded counts as
    `point`.
    """
    free = len(lens) - 2 if name == "quant_dot" else 0  # dimensions of a batch, which may share the weights
    weights, zeros = (a.reshape((1,) * (len(lens) - a.ndim) + a.shape) for a in (weights, zeros))
    weights = np.broadcast_to(weights, (*weights.shape[:free], *lens[free:]))
    codes, rest = _signed(weights, zeros)
    if rest.any() and attributes.get("group", 1) > 1:
        raise ValueError(f"{name}: weights of 9 bits in {attributes['group']} groups")
    if isinstance(point, Instruction) and scalar_of(point) is not None:
        point = int(scalar_of(point) or 0)
    if isinstance(point, int) and point and any(attributes.get("padding", ())):
        x, attributes = _padded(b, x, point, attributes)
    sums = b.instruction(name, [x, broadcast_literal(b, codes, lens)], **attributes)
    out = sums.shape.lens
    channel = len(out) - 1 if name == "quant_dot" else 1
    if rest.any():
        ones = np.ones((*codes.shape[:-1], 1) if name == "quant_dot" else (1, *codes.shape[1:]), np.int8)
        wide = (*lens[:-1], 1) if name == "quant_dot" else ones.shape
        of_x = b.instruction(name, [x, broadcast_literal(b, ones, wide)], **attributes)
        sums = b.sub(sums, b.mul(b.broadcast_to(of_x, out), along(b, rest.reshape(-1), out, channel)))
    if isinstance(point, int) and not point:
        return sums
    totals = _totals(name, codes.astype(np.int32) - rest, x.shape.lens, attributes)
    if isinstance(point, int):
        return b.sub(sums, broadcast_literal(b, totals * np.int32(point), out))
    one = point.shape.elements == 1
    at_run_time = b.reshape(b.cast(point, "int32"), dims=(1,) * len(out) if one else (*out[:-1], 1))
    at_run_time = b.broadcast_to(at_run_time, out)
    return b.sub(sums, b.mul(at_run_time, broadcast_literal(b, totals, out)))


def fits(weights: np.ndarray, zeros: np.ndarray) -> bool:
    """Whether weights less their zeros are int8."""
    return not _signed(weights, zeros)[1].any()


def along(b: Builder, values: np.ndarray, lens: Sequence[int], axis: int) -> Instruction:
    """A constant of one number, or of one for each index of `axis`, as `lens`."""
    if values.size > 1:
        values = values.reshape(-1, *(1,) * (len(lens) - 1 - axis))
    return b.broadcast_to(b.literal(values), lens)


def _signed(weights: np.ndarray, zeros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 codes and the zeros to be subtracted from them, int32; 0 where weights - zeros fit in int8."""
    real = weights.astype(np.int16) - zeros.astype(np.int16)
    if real.size == 0 or (real.min() >= -128 and real.max() <= 127):
        return real.astype(np.int8), np.zeros((1,) * weights.ndim, np.int32)
    shift = 128 if weights.dtype == np.uint8 else 0
    return (weights.astype(np.int16) - shift).astype(np.int8), zeros.astype(np.int32) - shift


def _padded(b: Builder, x: Instruction, point: int, attributes: Attributes) -> tuple[Instruction, Attributes]:
    """x with its padding as `point`, and the attributes without."""
    padding, rank = attributes["padding"], x.shape.ndim - 2
    before, behind = padding[:rank], padding[-rank:]
    x = b.pad(x, pads=(0, 0, *before, 0, 0, *behind), value=float(point))
    return x, attributes | {"padding": (0,) * rank}


def _totals(name: str, real: np.ndarray, x_lens: Sequence[int], attributes: Attributes) -> np.ndarray:
    """What the product of ones gives, broadcast to the product's lens: one number a channel where nothing is padded."""
    if name == "quant_dot":
        return real.sum(-2, keepdims=True, dtype=np.int32)
    if not any(attributes["padding"]):
        return real.sum(tuple(range(1, real.ndim)), dtype=np.int32).reshape(-1, *(1,) * (real.ndim - 2))
    ones = np.ones((1, *x_lens[1:]))
    return operation("convolution", **attributes).compute(ones, real.astype(np.float64)).astype(np.int32)
