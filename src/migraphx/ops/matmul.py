"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape

QUANTIZED = ("int8", "uint8")
EIGHTS = frozenset(t for t in dtypes.FLOATS if t.startswith("fp8"))
WIDE = 1 << 20  # elements of a second factor that are widened at a time
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


def product(a: np.ndarray, b: np.ndarray, type: np.typing.DTypeLike) -> np.ndarray:
    """a {..., M, K} times b {..., K, N}, summed in the wide type of `a` and rounded once to `type`."""
    a = dtypes.wide(a)
    out = np.empty((*a.shape[:-1], b.shape[-1]), type)
    columns = max(WIDE // max(math.prod(b.shape[:-1]), 1), 64)
    with np.errstate(all="ignore"):
        for n in range(0, b.shape[-1], columns):
            out[..., n : n + columns] = np.matmul(a, b[..., n : n + columns].astype(a.dtype, copy=False))
    return out


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
        return product(a, b, a.dtype)


class QuantDot(Product, name="quant_dot"):
    """Product of 8-bit integers, summed in int32 (ONNX MatMulInteger without zero points), or of fp8, in float."""

    arity = 2

    def infer(self, *inputs: Shape) -> Shape:
        a, b = inputs
        eights = a.type == b.type and a.type in EIGHTS
        whole = all(s.type in QUANTIZED for s in inputs)
        self.require(whole or eights, inputs, "takes int8 or uint8, or two of one type of fp8")
        return Shape("float" if eights else "int32", product_lens(self, inputs))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        a, b = args
        if a.dtype.kind not in "iu":
            return product(a, b, np.float32)
        return product(a.astype(np.float64), b, np.int64).astype(np.int32)  # exact: sums are below 2^53
