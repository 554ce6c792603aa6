"""Sums of convolutions of one input: one convolution, whose weights are the sum of theirs.

Networks are trained with branches side by side: windows of several sizes, a norm of the input (RepVGG, MobileOne,
FastViT; "structural re-parameterization"). Scaled channels are a depthwise convolution of one tap. The input itself
stays a term, which costs little behind a convolution: it is added exactly, where a convolution rounds its products.

Where an input is infinite and parts of other signs add up to NaN, the answer is infinite. Weights of narrow floats,
whose sums would be rounded, stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.dtype import NARROW_FLOATS
from migraphx.ir.module import Instruction
from migraphx.ir.refusal import Mismatch, Refuse
from migraphx.ops.convolution import Convolution
from migraphx.passes.constants import compact, is_constant, source_of, value_of
from migraphx.passes.rewrite import Rule, rewrites

Answer = Instruction | Refuse
NO_BRANCH = Mismatch("not another convolution of the same input")


@dataclass(frozen=True)
class Branch:
    """A convolution by `weights` {O, C / group, kernel...}; its input has `before` elements of padding ahead of it."""

    weights: np.ndarray
    group: int
    before: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]


def _branch(x: Instruction, term: Instruction) -> Branch | None:
    """What a term is of `x`; None where it is no convolution of it, and no scale of its channels."""
    rank = x.shape.ndim - 2
    if len(term.users) > 1 or x not in term.inputs:
        return None
    if isinstance(term.op, Convolution) and term.inputs[0] is x and is_constant(term.inputs[1]):
        op = term.op
        return Branch(value_of(term.inputs[1]), op.group, op.padding[:rank], op.stride, op.dilation)
    scales = [i for i in term.inputs if is_constant(i)]
    if term.name == "mul" and scales and (scale := compact(scales[0])).size == scale.shape[1]:
        return _of_channels(scale.reshape(-1), x)
    return None


def _of_channels(scale: np.ndarray, x: Instruction) -> Branch:
    channels, rank = x.shape.lens[1], x.shape.ndim - 2
    weights = np.broadcast_to(scale.reshape(-1, *(1,) * (rank + 1)), (channels, *(1,) * (rank + 1)))
    return Branch(weights, channels, (0,) * rank, (1,) * rank, (1,) * rank)


def _embedded(inner: Branch, outer: Branch) -> np.ndarray | None:
    """The weights of `inner` as `outer` has them, zero elsewhere; None where it reads what that does not."""
    if not inner.weights.size or inner.group % outer.group or inner.stride != outer.stride:
        return None
    lens: tuple[int, ...] = inner.weights.shape
    outputs, channels, *window = lens
    row = np.arange(outputs)[:, np.newaxis]
    group = row // (outputs // inner.group) % (inner.group // outer.group)  # within one of the outer's groups
    places: list[np.ndarray] = [row, group * channels + np.arange(channels)]
    windows = zip(window, inner.dilation, outer.weights.shape[2:], outer.dilation, strict=True)
    for axis, (count, step, most, spacing) in enumerate(windows):
        reads = outer.before[axis] - inner.before[axis] + step * np.arange(count)
        taps, off = np.divmod(reads, spacing)
        if off.any() or taps[0] < 0 or taps[-1] >= most:
            return None
        places = [i[..., np.newaxis] for i in places] + [taps]
    weights = np.zeros_like(outer.weights)
    weights[tuple(places)] = inner.weights
    return weights


def _merged(b: Builder, x: Instruction, terms: Sequence[Instruction], signs: tuple[int, int] = (1, 1)) -> Answer:
    """The sum of both terms, each times 1 or -1, as one convolution of `x`."""
    first, second = (_branch(x, term) for term in terms)
    if first is None or second is None:
        return NO_BRANCH
    if x.shape.type in NARROW_FLOATS:
        return Refuse("sums of narrow weights are rounded")
    weights = [term.inputs[1] for term in terms if isinstance(term.op, Convolution)]
    if any(len(i.users) > 1 for w in weights for i in (w, source_of(w))):
        return Refuse("the weights are shared")
    for outer, inner, term, sign in ((first, second, terms[0], signs), (second, first, terms[1], signs[::-1])):
        if isinstance(term.op, Convolution) and (within := _embedded(inner, outer)) is not None:
            with np.errstate(over="ignore"):
                total = sign[0] * outer.weights + sign[1] * within
            whole = bool(np.isfinite(total).all())
            attributes = term.op.attributes()
            return b.convolution(x, b.literal(total), **attributes) if whole else Refuse("the weights overflow")
    return Refuse("neither window lies within the other")


@rewrites(lambda b, x, v, y: b.add(b.once(b.convolution(x, b.constant("v"))), y))
def add_to_convolution(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """convolution(x, v) + y -> convolution(x, v + w), where y is convolution(x, w) or x * w"""
    return _merged(b, x, root.inputs)


@rewrites(lambda b, x, v, y: b.sub(b.once(b.convolution(x, b.constant("v"))), y))
def sub_from_convolution(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """convolution(x, v) - y -> convolution(x, v - w), where y is convolution(x, w) or x * w"""
    return _merged(b, x, root.inputs, (1, -1))


@rewrites(lambda b, x, v, y: b.sub(y, b.once(b.convolution(x, b.constant("v")))))
def sub_of_convolution(b: Builder, x: Instruction, root: Instruction) -> Answer:
    """y - convolution(x, v) -> convolution(x, w - v), where y is x * w"""
    return _merged(b, x, root.inputs, (1, -1))


@rewrites(lambda b, x, v, a, y: b.add(b.once(b.add(b.once(b.convolution(x, b.constant("v"))), b.constant("a"))), y))
def add_to_biased(b: Builder, x: Instruction, a: Instruction, y: Instruction, root: Instruction) -> Answer:
    """(convolution(x, v) + a) + y -> convolution(x, v + w) + a, where y is convolution(x, w) or x * w"""
    biased = next(i for i in root.inputs if i is not y)
    convolution = next(i for i in biased.inputs if i is not a)
    one = _merged(b, x, (convolution, y))
    return one if isinstance(one, Refuse) else b.add(one, a)


SUMS_OF_CONVOLUTIONS: list[Rule] = [add_to_convolution, sub_from_convolution, sub_of_convolution, add_to_biased]
