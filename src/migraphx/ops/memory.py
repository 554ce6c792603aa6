"""Operators about memory itself: buffers, other readings of them, what marks a place in a program."""

from __future__ import annotations

import numpy as np

from migraphx.ir.operation import Operation
from migraphx.ir.shape import UNBOUNDED, DynamicDimension, Shape, strided

NOTHING = Shape("float", (0,))


class Allocate(Operation, name="allocate"):
    """New memory of `shape`; or, without one, of type `buf_type` and as long as the input, int64 lens, says.

    Upstream leaves its contents open; here they are 0.
    """

    can_fail = True
    shape: Shape = NOTHING
    buf_type: str = "half"

    def infer(self, *inputs: Shape) -> Shape:
        if self.shape != NOTHING:
            self.require(not inputs, inputs, "takes a shape or lens, not both")
            return self.shape
        right = len(inputs) == 1 and inputs[0].ndim == 1 and inputs[0].type == "int64"
        self.require(right, inputs, "takes a shape, or one input of int64 lens in one dimension")
        return Shape(self.buf_type, dyn_dims=(DynamicDimension(0, UNBOUNDED),) * inputs[0].lens[0])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        if not args:
            return np.zeros(self.shape.lens, self.shape.numpy_dtype)
        return np.zeros(tuple(args[0].tolist()), Shape(self.buf_type).numpy_dtype)


class Outline(Operation, name="outline"):
    """A value of which only the shape is known: a place for what comes from elsewhere. Reads as 0."""

    arity = 0
    shape: Shape = NOTHING

    def infer(self, *inputs: Shape) -> Shape:
        return self.shape

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.zeros(self.shape.lens, self.shape.numpy_dtype)


class AsShape(Operation, name="as_shape"):
    """The elements of a row-major input, in memory order, as another shape of as many elements."""

    arity = 1
    view = True
    shape: Shape = NOTHING

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.standard, inputs, "the input must be row-major")
        same = (x.type, x.elements) == (self.shape.type, self.shape.elements)
        self.require(same and self.shape.element_space <= x.elements, inputs, f"{self.shape} does not fit its memory")
        return self.shape

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return strided(np.ascontiguousarray(args[0]).reshape(-1), self.shape)


class Load(Operation, name="load"):
    """`shape` read from the input's memory, `offset` bytes behind its start."""

    arity = 1
    view = True
    shape: Shape = NOTHING
    offset: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.standard, inputs, "the input must be row-major")
        aligned = self.offset >= 0 and self.offset % self.shape.numpy_dtype.itemsize == 0
        self.require(aligned, inputs, "offset must be a multiple of the element's size")
        self.require(self.offset + self.shape.bytes <= x.bytes, inputs, f"{self.shape} at {self.offset} reaches beyond")
        return self.shape

    def compute(self, *args: np.ndarray) -> np.ndarray:
        memory = np.ascontiguousarray(args[0]).reshape(-1).view(np.uint8)[self.offset :][: self.shape.bytes]
        return strided(memory.view(self.shape.numpy_dtype), self.shape)


class Capture(Operation, name="capture"):
    """The input as it is; marks a value that calibration looks at, by its number `ins_index`."""

    arity = 1
    view = True
    ins_index: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        return inputs[0]

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return args[0]


class FixedPad(Operation, name="fixed_pad"):
    """x at the start of `output_lens`, with zeros behind it in every dimension."""

    arity = 1
    output_lens: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        fits = x.ndim == len(self.output_lens) and all(n <= m for n, m in zip(x.lens, self.output_lens, strict=True))
        self.require(fits, inputs, "output_lens must have as many dimensions, none smaller")
        return Shape(x.type, self.output_lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        widths = [(0, m - n) for n, m in zip(args[0].shape, self.output_lens, strict=True)]
        return np.pad(args[0], widths)
