"""Linear algebra on the last two dimensions."""

from __future__ import annotations

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape


class Det(Operation, name="det"):
    """The determinant of each matrix of {..., n, n} (ONNX Det, aten::linalg_det)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.ndim >= 2 and x.lens[-1] == x.lens[-2], inputs, "takes square matrices")
        self.require(x.type in dtypes.FLOATS, inputs, "takes floats")
        return Shape(x.type, x.lens[:-2])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)
