"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape

QUANTIZED = ("int8", "uint8")
MULTIPLIED = dtypes.FLOATS | dtypes.INTEGERS - dtypes.NARROW_INTEGERS.keys()


def product_type(op: Operation, inputs: Sequence[Shape]) -> str:
    """The type of both inputs; ShapeError where it is none of which products are summed."""
    op.same_type(inputs)
    op.require(inputs[0].type in MULTIPLIED, inputs, f"does not take {inputs[0].type}")
    return inputs[0].type


def product_lens(op: Operation, inputs: Sequence[Shape]) -> tuple[int, ...]:
    """(..., M, N) of (..., M, K) by (..., K, N); ShapeError where batch lens or K differ."""
    a, b = inputs
    op.require(a.ndim == b.ndim >= 2, inputs, "needs two inputs of one rank, at least 2")
    op.require(a.lens[:-2] == b.lens[:-2], inputs, "batch lens differ")
    op.require(a.lens[-1] == b.lens[-2], inputs, f"the inner lens {a.lens[-1]} and {b.lens[-2]} differ")
    return (*a.lens[:-1], b.lens[-1])


class Product(Operation):
    """Base of the matrix products: they sum over the first input's last dimension."""

    contraction = True
    takes_epilogue = True

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return 2 * output.elements * inputs[0].lens[-1]


class Dot(Product, name="dot"):
    """Matrix product of the last two dimensions; batch dimensions are equal (ONNX MatMul, aten::bmm)."""

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        return Shape(product_type(self, inputs), product_lens(self, inputs))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        a, b = args
        wide = dtypes.accumulator(dtypes.from_numpy(a.dtype))
        return np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False)).astype(a.dtype, copy=False)


class QuantDot(Product, name="quant_dot"):
    """Matrix product of 8-bit integers, summed in int32 (ONNX MatMulInteger without zero points)."""

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        self.require(all(s.type in QUANTIZED for s in inputs), inputs, "takes int8 or uint8")
        return Shape("int32", product_lens(self, inputs))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        a, b = (x.astype(np.float64) for x in args)  # exact: products below 2^16, sums below 2^53
        return np.matmul(a, b).astype(np.int64).astype(np.int32)
