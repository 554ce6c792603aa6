"""Between real numbers and the narrow types that stand for them: x = (y - zero_point) * scale."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape, elementwise

FP8 = frozenset(t for t in dtypes.FLOATS if t.startswith("fp8"))
QUANTIZED = FP8 | {"int8", "uint8", "int16", "uint16", "int32"}


def limits(dtype: np.dtype) -> tuple[float, float]:
    """The lowest and the largest number of a type."""
    info = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)
    return float(info.min), float(info.max)


class QuantizeLinear(Operation, name="quantizelinear"):
    """saturate(nearbyint(x / scale) + zero_point) (ONNX QuantizeLinear); fp8 keeps fractions.

    x, scale and the optional zero_point have the same lens. The result has zero_point's type, or `out_type`
    where there is none: int8, uint8, int16, uint16, int32 or fp8. NaN gives 0 in integers.
    """

    out_type: str = "uint8"

    def infer(self, *inputs: Shape) -> Shape:
        self.require(len(inputs) in (2, 3), inputs, "takes x, scale and perhaps zero_point")
        self.same_lens(inputs)
        self.require({s.type for s in inputs[:2]} <= dtypes.FLOATS, inputs, "x and scale must be floats")
        type = self.type_of([s.type for s in inputs])
        self.require(type in QUANTIZED, inputs, f"does not quantize to {type}")
        return elementwise(type, inputs)

    def type_of(self, types: Sequence[str]) -> str:
        return types[2] if len(types) == 3 else self.out_type.removesuffix("_type")

    def compute(self, *args: np.ndarray) -> np.ndarray:
        dtype = dtypes.to_numpy(self.type_of([dtypes.from_numpy(a.dtype) for a in args]))
        x, scale, *zero = (a.astype(np.float32 if a.dtype.itemsize <= 4 else np.float64) for a in args)
        low, high = limits(dtype)
        with np.errstate(all="ignore"):
            y = x / scale
            if dtype.kind in "iu":
                y = np.where(np.isnan(y), y.dtype.type(0), np.rint(y))
            y = y.astype(np.float64) + (zero[0] if zero else 0)
            return np.asarray(np.clip(y, low, high), dtype)


class DequantizeLinear(Operation, name="dequantizelinear"):
    """(y - zero_point) * scale, of scale's type (ONNX DequantizeLinear).

    y, scale and the optional zero_point have the same lens; zero_point has y's type.
    """

    def infer(self, *inputs: Shape) -> Shape:
        self.require(len(inputs) in (2, 3), inputs, "takes y, scale and perhaps zero_point")
        self.same_lens(inputs)
        self.same_type([inputs[0], *inputs[2:]])
        self.require(inputs[0].type in QUANTIZED, inputs, f"does not take {inputs[0].type}")
        self.require(inputs[1].type in dtypes.FLOATS, inputs, "scale must be a float")
        return elementwise(inputs[1].type, inputs)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        y, scale, *zero = (a.astype(np.float64) for a in args)
        return np.asarray((y - (zero[0] if zero else 0)) * scale, args[1].dtype)
