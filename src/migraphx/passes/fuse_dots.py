"""Dots that share an input become one wider dot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction, Module
from migraphx.ir.origin import joined
from migraphx.ir.refusal import Refusal, Refuse
from migraphx.ops.fused import Attention
from migraphx.ops.movement import Reshaping
from migraphx.passes.constants import compact, is_constant
from migraphx.passes.interface import Refusals
from migraphx.passes.rewrite import remove_unused, substitute


@dataclass(frozen=True)
class Linear:
    """dot(x, weights {K, N}) with an optional bias {N}; `result` is the add, or the dot itself."""

    dot: Instruction
    result: Instruction
    weights: np.ndarray
    bias: np.ndarray | None


def read_linear(dot: Instruction) -> Linear | Refuse:
    """Read a dot as a linear layer of constant weights that are its own."""
    w = dot.inputs[1]
    if not is_constant(w):
        return Refuse("the weights are not constant")
    if len(w.users) > 1:
        return Refuse("the weights are shared")
    weights = compact(w)
    if weights.size != weights.shape[-1] * weights.shape[-2] or weights.shape[-2:] != w.shape.lens[-2:]:
        return Refuse("the weights are no single matrix without repetition")
    weights = weights.reshape(weights.shape[-2:]) if weights.ndim == 2 else weights[(0,) * (weights.ndim - 2)]
    user = next(iter(dot.users))
    if len(dot.users) == 1 and user.name == "add":
        other = user.inputs[1] if user.inputs[0] is dot else user.inputs[0]
        if is_constant(other):
            bias = compact(other)
            if bias.size == bias.shape[-1] == dot.shape.lens[-1]:
                return Linear(dot, user, weights, bias.reshape(-1))
    return Linear(dot, dot, weights, None)


def fuse_dots(module: Module) -> Refusals:
    """dot(x, w1), dot(x, w2), ... of constant weights become slices of dot(x, {w1, w2, ...}).

    Their biases likewise, -0 where one has none: queries, keys and values of an attention are one product.
    Refuses weights that are shared with others, and results that something other than views and attention
    uses: there an epilogue in each dot saves more than the wider dot does.

    before:
        x = @param:x -> float_type, {1, 3, 2}, {6, 2, 1}
        @1 = @literal{1, 2, 3, 4} -> float_type, {2, 2}, {2, 1}
        @2 = @literal{5, 6} -> float_type, {2, 1}, {1, 1}
        @3 = multibroadcast[out_lens={1, 2, 2},out_dyn_dims={}](@1)
        @4 = dot(x,@3)
        @5 = multibroadcast[out_lens={1, 2, 1},out_dyn_dims={}](@2)
        @6 = dot(x,@5)
        @7 = transpose[permutation={0, 2, 1}](@4)
        @8 = transpose[permutation={0, 2, 1}](@6)
        @9 = @return(@7,@8)

    after:
        @0 = @literal{1, 2, 5, 3, 4, 6} -> float_type, {2, 3}, {3, 1}
        x = @param:x -> float_type, {1, 3, 2}, {6, 2, 1}
        @2 = multibroadcast[out_lens={1, 2, 3},out_dyn_dims={}](@0) -> float_type, {1, 2, 3}, {0, 3, 1}
        @3 = dot(x,@2) -> float_type, {1, 3, 3}, {9, 3, 1}
        @4 = slice[axes={2},starts={0},ends={2}](@3) -> float_type, {1, 3, 2}, {9, 3, 1}
        @5 = slice[axes={2},starts={2},ends={3}](@3) -> float_type, {1, 3, 1}, {9, 3, 1}
        @6 = transpose[permutation={0, 2, 1}](@4)
        @7 = transpose[permutation={0, 2, 1}](@5)
        @8 = layout[permutation={0, 2, 1}](@6) -> float_type, {1, 2, 3}, {6, 1, 2}
        @9 = layout[permutation={0, 2, 1}](@7)
        @10 = @return(@8,@9)
    """
    sharing: dict[Instruction, list[Instruction]] = {}
    refusals: list[Refusal[Instruction]] = []
    for ins in module:
        if ins.name == "dot" and ins.users:
            sharing.setdefault(ins.inputs[0], []).append(ins)
    for x, dots in sharing.items():
        if len(dots) > 1:
            found = [(dot, _read(dot)) for dot in dots]
            refusals += [Refusal(dot, "fuse_dots", why) for dot, why in found if isinstance(why, Refuse)]
            linears = [linear for _, linear in found if isinstance(linear, Linear)]
            if len(linears) > 1:
                _fuse(module, x, linears)
    return refusals


def _read(dot: Instruction) -> Linear | Refuse:
    linear = read_linear(dot)
    if isinstance(linear, Linear) and not all(map(_takes_strides, linear.result.users)):
        return Refuse("its result is read by more than views and attention")
    return linear


def _takes_strides(ins: Instruction) -> bool:
    """Whether it reads a part of a wider product as well as a product of its own."""
    return ins.op.view or isinstance(ins.op, (Reshaping, Attention))


def _fuse(module: Module, x: Instruction, linears: list[Linear]) -> None:
    first = linears[0].dot
    b = Builder(module, before=first, origin=joined(each.dot.origin for each in linears))
    weights = _side_by_side([each.weights for each in linears])
    wide = b.dot(x, b.broadcast_to(b.literal(weights), (*x.shape.lens[:-2], *weights.shape)))
    if any(each.bias is not None for each in linears):
        wide = b.add(wide, b.broadcast_to(b.literal(np.concatenate(list(map(_bias, linears)))), wide.shape.lens))
    ends = np.cumsum([each.weights.shape[1] for each in linears])
    starts = [0, *ends[:-1]]
    last = wide.shape.ndim - 1
    parts = [b.slice(wide, axes=[last], starts=[s], ends=[e]) for s, e in zip(starts, ends, strict=True)]
    for each, part in zip(linears, parts, strict=True):
        substitute(each.result, part)
        remove_unused(module, [each.result])


def _bias(linear: Linear) -> np.ndarray:
    """The bias, or what changes no number that it is added to."""
    if linear.bias is not None:
        return linear.bias
    return np.broadcast_to(np.array(-0.0, linear.weights.dtype), linear.weights.shape[1:])


def _side_by_side(weights: list[np.ndarray]) -> np.ndarray:
    """{K, N1 + N2 + ...}, in memory as the parts are: those of torch lie as {N, K}."""
    if all(w.T.flags.c_contiguous for w in weights):
        return np.concatenate([w.T for w in weights]).T
    return np.concatenate(weights, 1)
