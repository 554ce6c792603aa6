"""Between real numbers and the narrow types that stand for them: x = (y - zero_point) * scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape, elementwise, permuted
from migraphx.ops.matmul import Product

QUANTIZED = frozenset(
    {"fp8e4m3fn", "fp8e4m3fnuz", "fp8e5m2", "fp8e5m2fnuz", "fp4e2m1fn"}
    | {"int8", "uint8", "int16", "uint16", "int32", *dtypes.NARROW_INTEGERS}
)


class QuantizeLinear(Operation, name="quantizelinear"):
    """saturate(nearbyint(x / scale) + zero_point) (ONNX QuantizeLinear); fp8 keeps fractions.

    x, scale and the optional zero_point have the same lens. The result has zero_point's type, or `out_type`
    where there is none: integers of 2 to 16 bits, int32, fp8 or fp4. NaN gives 0 in integers.
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
        type = self.type_of([dtypes.from_numpy(a.dtype) for a in args])
        x, scale, *zero = (a.astype(np.float32 if a.dtype.itemsize <= 4 else np.float64) for a in args)
        low, high = dtypes.limits(type)
        with np.errstate(all="ignore"):
            y = x / scale
            if type in dtypes.INTEGERS:
                y = np.where(np.isnan(y), y.dtype.type(0), np.rint(y))
            y = y.astype(np.float64) + (zero[0] if zero else 0)
            return np.asarray(np.clip(y, low, high)).astype(dtypes.to_numpy(type))


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
        y, scale, *zero = args
        exact = dtypes.from_numpy(y.dtype) in ("int8", "uint8") and scale.dtype != np.float64  # y - zero has 9 bits
        wide = np.float32 if exact else np.float64
        real = y.astype(wide)
        if zero:
            real -= zero[0].astype(wide, copy=False)
        with np.errstate(all="ignore"):  # a scale may be infinite: that of a mask of -inf
            real *= scale.astype(wide, copy=False)
            return real.astype(scale.dtype, copy=False)


class BitCast(Operation, name="bit_cast"):
    """The same bits as another type of the same width (ONNX BitCast)."""

    arity = 1
    view = True
    target_type: str

    def __post_init__(self) -> None:
        dtypes.to_numpy(self.target_type)  # refuses an unknown name
        object.__setattr__(self, "target_type", self.target_type.removesuffix("_type"))

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        target = x.with_type(self.target_type)
        self.require(x.type != "tuple" and bits(x.type) == bits(target.type), inputs, "types differ in width")
        return target

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return args[0].view(dtypes.to_numpy(self.target_type))


def bits(type: str) -> int:
    """The width of a type: what is narrower than a byte has less than it takes in memory."""
    narrow = {"int4": 4, "uint4": 4, "fp4e2m1fn": 4, "int2": 2, "uint2": 2}
    return narrow.get(type) or 8 * dtypes.to_numpy(type).itemsize


# ---- two numbers a byte -------------------------------------------------------------------------


class Packing(Operation):
    """What packing and unpacking along an axis share; the even element is in the lower half of the byte."""

    arity = 1
    axis: int = -1

    def place(self, inputs: Sequence[Shape]) -> int:
        (x,) = inputs
        self.require(-x.ndim <= self.axis < x.ndim, inputs, "axis is out of range")
        return self.axis % x.ndim

    def halved(self, inputs: Sequence[Shape], type: str) -> Shape:
        (x,), axis = inputs, self.place(inputs)
        self.require(x.lens[axis] % 2 == 0, inputs, "the axis is of odd length")
        lens = (*x.lens[:axis], x.lens[axis] // 2, *x.lens[axis + 1 :])
        return permuted(type, lens, x.permutation)

    def doubled(self, inputs: Sequence[Shape], type: str) -> Shape:
        (x,), axis = inputs, self.place(inputs)
        return permuted(type, (*x.lens[:axis], 2 * x.lens[axis], *x.lens[axis + 1 :]), x.permutation)

    def joined(self, codes: np.ndarray) -> np.ndarray:
        """Pairs of 4-bit codes as bytes."""
        pairs = np.moveaxis(codes.astype(np.uint8) & 15, self.axis, -1)
        return np.moveaxis(pairs[..., ::2] | pairs[..., 1::2] << 4, -1, self.axis)

    def parted(self, bytes: np.ndarray) -> np.ndarray:
        """The 4-bit codes of bytes."""
        packed = np.moveaxis(bytes.view(np.uint8), self.axis, -1)
        pairs = np.stack([packed & 15, packed >> 4], -1)
        return np.moveaxis(pairs.reshape(*packed.shape[:-1], -1), -1, self.axis)


class PackInt4(Packing, name="pack_int4"):
    """int8 or uint8, saturated to 4 bits, two a byte along `axis`, which halves."""

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].type in ("int8", "uint8"), inputs, "takes int8 or uint8")
        return self.halved(inputs, inputs[0].type)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        low, high = (-8, 7) if x.dtype == np.int8 else (0, 15)
        return self.joined(np.clip(x, low, high)).view(x.dtype)


class UnpackInt4(Packing, name="unpack_int4"):
    """The 4-bit integers of bytes along `axis`, which doubles; signed ones of int8."""

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].type in ("int8", "uint8"), inputs, "takes int8 or uint8")
        return self.doubled(inputs, inputs[0].type)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        codes = self.parted(x)
        return (codes ^ 8).astype(np.int8) - np.int8(8) if x.dtype == np.int8 else codes


class PackFp4(Packing, name="pack_fp4"):
    """Floats rounded to fp4 (e2m1, saturating; OCP Microscaling), two an fp4x2 along `axis`, which halves."""

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].type in dtypes.FLOATS, inputs, "takes floats")
        return self.halved(inputs, "fp4x2")

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        narrow = x.astype(np.float32).astype(dtypes.to_numpy("fp4e2m1fn"))
        return self.joined(narrow.view(np.uint8)).view(dtypes.to_numpy("fp4x2"))


class UnpackFp4(Packing, name="unpack_fp4"):
    """The fp4 numbers of bytes as fp8e4m3fn, which holds them exactly, along `axis`, which doubles."""

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].type in ("fp4x2", "uint8"), inputs, "takes fp4x2 or its bytes, uint8")
        return self.doubled(inputs, "fp8e4m3fn")

    def compute(self, *args: np.ndarray) -> np.ndarray:
        narrow = self.parted(args[0]).view(dtypes.to_numpy("fp4e2m1fn"))
        return narrow.astype(np.float32).astype(dtypes.to_numpy("fp8e4m3fn"))


class DotInt4(Product, name="dot_int4"):
    """x {.., K} times weights of 4 bits {K, N}: codes of pack_int4 along K {K / 2, N}, scales {blocks, N}.

    A column's K / blocks codes of a block share a scale, and a zero point where there are zeros, int8 {blocks, N}
    (ONNX Runtime's MatMulNBits).
    """

    def infer(self, *inputs: Shape) -> Shape:
        self.require(len(inputs) in (3, 4), inputs, "takes x, codes, scales and perhaps zeros")
        x, codes, scales, *zeros = inputs
        types = (x.type, scales.type, codes.type, *(z.type for z in zeros))
        right = ("float", "float", "int8", "int8")[: len(types)]
        self.require(types == right, inputs, "takes float x, int8 codes, float scales, int8 zeros")
        self.require(x.ndim >= 2 and codes.ndim == scales.ndim == 2, inputs, "needs x {.., M, K} and two matrices")
        k, blocks = x.lens[-1], scales.lens[0]
        right = codes.lens[0] * 2 == k and blocks > 0 and k % blocks == 0 and codes.lens[1] == scales.lens[1]
        self.require(right, inputs, "codes must be {K / 2, N} and scales {blocks, N}, blocks dividing K")
        self.require(all(z.lens == scales.lens for z in zeros), inputs, "zeros must be as scales are")
        return Shape("float", (*x.lens[:-1], codes.lens[1]))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, codes, scales, *zeros = args
        weights = UnpackInt4(axis=0).compute(codes).astype(np.float64)
        block = len(weights) // len(scales)
        if zeros:
            weights -= np.repeat(zeros[0], block, 0)
        return np.matmul(dtypes.wide(x), weights * np.repeat(scales, block, 0)).astype(x.dtype)
