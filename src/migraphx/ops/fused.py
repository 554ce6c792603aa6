"""The forms that fusion passes make and targets lower: several operators as one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation, RunModule, Value
from migraphx.ir.shape import Shape, elementwise, permuted
from migraphx.ops.movement import axes_of, keep_layout


class FusedPointwise(Operation, name="pointwise"):
    """One pass over equal lens, computing the elementwise operators of its module.

    The module's parameters x0, x1, ... have shape (type, {1}, {0}), as have all its instructions; one output.
    """

    fused = True

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return output.elements * sum(i.flops for i in modules[0])

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 1, inputs, "takes one module")
        self.require(len(inputs) > 0, inputs, "takes at least one input")
        self.same_lens(inputs)
        types = [p.shape.type for p in modules[0].parameters.values()]
        self.require(types == [s.type for s in inputs], inputs, f"the module takes {', '.join(types)}")
        self.require(len(modules[0].outputs) == 1, inputs, "the module must have one output")
        return elementwise(modules[0].output_shapes[0].type, inputs)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        (result,) = run(modules[0], args)
        lens = args[0].shape
        return np.broadcast_to(result, lens) if lens else np.reshape(result, lens)  # its literals have one dimension


class FusedReduce(Operation, name="fused_reduce"):
    """Elementwise operators round reductions over `axes`, as its module says.

    The module's parameters have the inputs' shapes. Its body holds elementwise operators, reductions over
    exactly `axes` and multibroadcasts back to the full lens; one output, of full or of reduced lens.
    """

    fused = True
    axes: tuple[int, ...] = ()

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return sum(i.flops for i in modules[0])

    def infer_with(self, inputs: Sequence[Shape], modules: Sequence[ModuleArgument]) -> Shape:
        self.require(len(modules) == 1, inputs, "takes one module")
        self.require(len(inputs) > 0, inputs, "takes at least one input")
        axes_of(self, self.axes, inputs[0].ndim, inputs)
        takes = [(p.shape.type, p.shape.lens) for p in modules[0].parameters.values()]
        self.require(takes == [(s.type, s.lens) for s in inputs], inputs, f"the module takes {takes}")
        self.require(len(modules[0].outputs) == 1, inputs, "the module must have one output")
        out = modules[0].output_shapes[0]
        full = [s for s in inputs if not s.broadcasted and s.elements == max(i.elements for i in inputs)]
        if not full:
            return out.as_standard()
        if full[0].lens == out.lens:
            return elementwise(out.type, full)
        return keep_layout(full[0], out.lens, out.type)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        return run(modules[0], args)[0]


class Attention(Operation, name="attention"):
    """softmax(scale * q k^T + mask) v, without the matrix of weights in memory (FlashAttention, 2205.14135).

    q {B, H, Lq, D}, k {B, Hkv, Lk, D}, v {B, Hkv, Lk, Dv}; H is a multiple of Hkv. mask {B, H, Lq, Lk} is
    optional: a float is added, a bool that is true keeps. `causal`: query i sees keys 0 to i. A query whose
    scores are all -inf gets NaN, as from softmax, or 0 with `zero_rows`. The output {B, H, Lq, Dv} lies in
    memory as {B, Lq, H, Dv}.
    """

    contraction = True
    scale: float = 1.0
    causal: bool = False
    zero_rows: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        self.require(len(inputs) in (3, 4), inputs, "takes q, k, v and perhaps a mask")
        q, k, v = inputs[:3]
        self.same_type(inputs[:3])
        self.require(q.type in dtypes.FLOATS, inputs, f"does not take {q.type}")
        self.require(q.ndim == k.ndim == v.ndim == 4, inputs, "q, k and v must have rank 4")
        (b, h, lq, d), (_, hkv, lk, _), dv = q.lens, k.lens, v.lens[3]
        fits = k.lens == (b, hkv, lk, d) and v.lens == (b, hkv, lk, dv) and h % max(hkv, 1) == 0
        self.require(fits, inputs, "q, k and v do not fit one another")
        for mask in inputs[3:]:
            self.require(mask.lens == (b, h, lq, lk), inputs, f"the mask must be {{{b}, {h}, {lq}, {lk}}}")
            right = mask.type in dtypes.FLOATS | {"bool"}
            self.require(right, inputs, f"does not take a mask of {mask.type}")
        return permuted(q.type, (b, h, lq, dv), (0, 2, 1, 3))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        q, k, v = (s.lens for s in inputs[:3])
        return 2 * math.prod(q[:3]) * k[2] * (q[3] + v[3])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        q, k, v = (a.astype(np.float64) for a in args[:3])
        groups = q.shape[1] // max(k.shape[1], 1)
        k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
        with np.errstate(all="ignore"):
            scores = q @ k.swapaxes(2, 3) * self.scale
            for mask in args[3:]:
                keep = mask.dtype == np.bool_
                scores = np.where(mask, scores, -np.inf) if keep else scores + mask.astype(np.float64)
            if self.causal:
                seen = np.tri(*scores.shape[2:], dtype=np.bool_)
                scores = np.where(seen, scores, -np.inf)
            top = scores.max(3, keepdims=True, initial=-np.inf)
            weights = np.exp(scores - np.where(top == -np.inf, 0.0, top))
            total = weights.sum(3, keepdims=True)
            if self.zero_rows:
                total = np.where(total == 0, 1.0, total)
            return (weights / total @ v).astype(args[0].dtype)
