"""Dots, convolutions and sums on 8-bit integers or fp8: inputs and weights are quantized, results stay floats."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.passes.constants import broadcast_literal, compact, is_constant
from migraphx.passes.fuse_dots import fuse_dots
from migraphx.passes.rewrite import remove_unused
from migraphx.quantize.calibrate import Run, largest

PRODUCTS = ("dot", "convolution")
SUM = "add"
FLOATS = ("float", "half", "bf16")


def quantize(
    program: Program,
    inputs: Sequence[Mapping[str, Any]],
    run: Run,
    names: Collection[str] = PRODUCTS,
    type: str = "int8",
) -> None:
    """Put quantizelinear and dequantizelinear before the operands of the named products of the main module.

    The first operand has one scale, from its range when `run` runs the program on the calibration `inputs`;
    constant weights have one an output channel.
    Symmetric: there are no zero points. A product of two values that are no constants stays as
    it is. Of "add", where both operands are computed, the one that waits for the other is quantized: what a product's
    input or a residual is then lies in memory as 8 bits alone. ValueError for other names, or where a value is not
    finite.
    """
    for name in names:
        if name not in (*PRODUCTS, SUM):
            raise ValueError(f"cannot quantize {name!r}: only {', '.join(PRODUCTS)} and {SUM}")
    if "dot" in names:
        fuse_dots(program.main)  # queries, keys and values are one product, as long as weights are numbers
    taken = [i for i in program.main if i.name in names and _quantizable(i)]
    order = {ins: n for n, ins in enumerate(program.main)}
    quantized = {i: i.inputs[0] if i.name != SUM else min(i.inputs, key=order.__getitem__) for i in taken}
    sources = list(dict.fromkeys(quantized.values()))
    tops = dict(zip(sources, largest(program, sources, inputs, run), strict=True))
    made: dict[Instruction, Instruction] = {}
    for ins, x in quantized.items():
        b = Builder(program.main, before=ins, origin=ins.origin)
        if x not in made:
            made[x] = through(b, x, np.full((1,) * x.shape.ndim, tops[x]), type)
        if ins.name == SUM:
            program.main.replace_operation(ins, ins.op, [made[x] if i is x else i for i in ins.inputs])
            continue
        w = ins.inputs[1]
        axis = 0 if ins.name == "convolution" else w.shape.ndim - 1
        weights = compact(w)
        others = tuple(d for d in range(weights.ndim) if d != axis)
        top = np.abs(weights.astype(np.float32)).max(others, keepdims=True, initial=0.0)
        repeats = weights.shape != w.shape.lens  # as those of a batch do: their codes must not
        once = broadcast_literal(b, weights, weights.shape) if repeats else w
        program.main.replace_operation(
            ins, ins.op, [made[x], b.broadcast_to(through(b, once, top, type), w.shape.lens)]
        )
        remove_unused(program.main, [w])


def _quantizable(ins: Instruction) -> bool:
    """Floats; of a product constant weights, and on the left elements that have a range; of a sum no constant."""
    x, y = ins.inputs[:2]
    if ins.shape.type not in FLOATS or 0 in x.shape.lens:
        return False
    if ins.name == SUM:
        return x is not y and not any(is_constant(i) or _repeats(i) for i in (x, y))
    return is_constant(y)


def _repeats(ins: Instruction) -> bool:
    """Whether elements lie in memory once that count several times, as those of a bias."""
    return any(s == 0 and n > 1 for n, s in zip(ins.shape.lens, ins.shape.strides, strict=True))


def through(b: Builder, x: Instruction, top: np.ndarray, type: str) -> Instruction:
    """`x` quantized and dequantized; `top` is the largest magnitude, broadcast to x."""
    scale = np.where(top > 0, top, 1.0) / dtypes.limits(type)[1]
    scales = broadcast_literal(b, scale.astype(x.shape.numpy_dtype), x.shape.lens)
    return b.dequantizelinear(b.quantizelinear(x, scales, out_type=type), scales)
