"""Quantized models in exact integers: onnx's reference evaluator, and ONNX Runtime's own products by their definition.

ONNX Runtime is no oracle for products with int8 weights: on processors without VNNI it adds pairs of them in 16 bits,
which saturate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


def product(a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | None, b_zero: np.ndarray | None) -> np.ndarray:
    """(a - a_zero) times (b - b_zero) in int64."""
    wide = (x.astype(np.int64) - (0 if z is None else z.astype(np.int64)) for x, z in ((a, a_zero), (b, b_zero)))
    return np.matmul(*wide)


class MatMulIntegerToFloat(OpRun):
    op_domain = "com.microsoft"

    def _run(self, a, b, a_scale, b_scale, a_zero=None, b_zero=None, bias=None):
        y = product(a, b, a_zero, b_zero) * (a_scale.astype(np.float64) * b_scale)
        return ((y if bias is None else y + bias).astype(np.float32),)


class DynamicQuantizeMatMul(OpRun):
    op_domain = "com.microsoft"

    def _run(self, a, b, b_scale, b_zero=None, bias=None):
        """`a` is quantized as DynamicQuantizeLinear says."""
        low, high = min(a.min(), np.float32(0)), max(a.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
        zero = np.rint(np.clip(-low / scale, 0, 255))
        codes = np.clip(np.rint(a / scale) + zero, 0, 255)
        y = product(codes, b, zero, b_zero) * (np.float64(scale) * b_scale)
        return ((y if bias is None else y + bias).astype(np.float32),)


class QGemm(OpRun):
    op_domain = "com.microsoft"

    def _run(
        self, a, a_scale, a_zero, b, b_scale, b_zero, c=None, y_scale=None, y_zero=None, alpha=1.0, transA=0, transB=0
    ):
        """`c` is int32, of scale alpha * a_scale * b_scale."""
        y = product(a.T if transA else a, b.T if transB else b, a_zero, b_zero) + (0 if c is None else c)
        y = y * (alpha * a_scale.astype(np.float64) * b_scale)
        if y_scale is None or y_zero is None:
            return (y.astype(np.float32),)
        info = np.iinfo(y_zero.dtype)
        return (np.clip(np.rint(y / y_scale) + y_zero, info.min, info.max).astype(y_zero.dtype),)


def exact(model: bytes | str, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a serialized model, or of one in a file."""
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    evaluator = ReferenceEvaluator(proto, new_ops=[MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm])
    return [np.asarray(value) for value in evaluator.run(None, dict(inputs))]
