"""Dots and convolutions on 8-bit integers or fp8: inputs and weights are quantized, results stay floats."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.module import Instruction
from migraphx.ir.program import Program
from migraphx.passes.constants import broadcast_literal, is_constant, value_of
from migraphx.quantize.calibrate import Run, largest

PRODUCTS = ("dot", "convolution")
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
    it is. ValueError for other names, or where a value is not finite.
    """
    for name in names:
        if name not in PRODUCTS:
            raise ValueError(f"cannot quantize {name!r}: only {' and '.join(PRODUCTS)}")
    products = [i for i in program.main if i.name in names and _quantizable(i)]
    sources = list(dict.fromkeys(i.inputs[0] for i in products))
    tops = dict(zip(sources, largest(program, sources, inputs, run), strict=True))
    made: dict[Instruction, Instruction] = {}
    for ins in products:
        x, w = ins.inputs
        b = Builder(program.main, before=ins, origin=ins.origin)
        if x not in made:
            made[x] = through(b, x, np.full((1,) * x.shape.ndim, tops[x]), type)
        axis = 0 if ins.name == "convolution" else w.shape.ndim - 1
        weights = value_of(w).astype(np.float32)
        others = tuple(d for d in range(weights.ndim) if d != axis)
        top = np.abs(weights).max(others, keepdims=True, initial=0.0)
        program.main.replace_operation(ins, ins.op, [made[x], through(b, w, top, type)])


def _quantizable(product: Instruction) -> bool:
    """Floats, a constant on the right, and on the left elements that have a range."""
    x, w = product.inputs[:2]
    return product.shape.type in FLOATS and is_constant(w) and 0 not in x.shape.lens


def through(b: Builder, x: Instruction, top: np.ndarray, type: str) -> Instruction:
    """`x` quantized and dequantized; `top` is the largest magnitude, broadcast to x."""
    scale = np.where(top > 0, top, 1.0) / dtypes.limits(type)[1]
    scales = broadcast_literal(b, scale.astype(x.shape.numpy_dtype), x.shape.lens)
    return b.dequantizelinear(b.quantizelinear(x, scales, out_type=type), scales)
