"""Operators about sizes: dimensions as values, shapes that values decide, results as long as the data makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.builder import Builder
from migraphx.ir.expansion import Expansion
from migraphx.ir.module import Instruction
from migraphx.ir.operation import ExpansionContext, ModuleArgument, Operation, RunModule, Value, operation
from migraphx.ir.program import Program
from migraphx.ir.shape import UNBOUNDED, UNKNOWN, DynamicDimension, Shape, broadcast_lens
from migraphx.ir.size import ones_matter

ANY_LENGTH = DynamicDimension(0, UNBOUNDED)


def builder(context: ExpansionContext) -> Builder:
    return Builder(context.module, origin=context.origin)


class Pack(Operation, name="pack"):
    """A sequence of values as one; or, with `empty`, an optional that is empty."""

    deferred: ClassVar[bool] = True
    takes_dynamic: ClassVar[bool] = True
    empty: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        return UNKNOWN

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Any:
        return None if self.empty else list(inputs)

    def compute(self, *args: np.ndarray) -> Value:
        return None if self.empty else list(args)


class Converted(Operation):
    """What somebody writes into the program when the lengths are known; no text and no file holds it."""

    name: ClassVar[str] = "converted"
    deferred: ClassVar[bool] = True
    takes_dynamic: ClassVar[bool] = True
    convert: Callable[[Any, Sequence[Any]], tuple[Any, ...]]
    shapes: tuple[Shape, ...]
    lasting: Callable[[], Sequence[np.ndarray]] = tuple  # memory that its constants are views of

    def infer(self, *inputs: Shape) -> Shape:
        return Shape.tuple_of(self.shapes)

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> tuple[Any, ...]:
        with ones_matter(False):  # who traced it has decided that
            return self.convert(context, inputs)

    def compute_with(self, args: Sequence[Value], modules: Sequence[ModuleArgument], run: RunModule) -> Value:
        program = Program()
        shapes = [Shape(dtypes.from_numpy(np.asarray(a).dtype), np.shape(a)) for a in args]
        inputs = [program.main.add_parameter(f"x{k}", s) for k, s in enumerate(shapes)]
        program.main.add_return(self.convert(Expansion(program, program.main), inputs))
        return tuple(run(program.main, args))


class DimensionsOf(Operation, name="dimensions_of"):
    """Lengths of the dimensions start <= d < end, as int64 (ONNX Shape)."""

    arity = 1
    start: int = 0
    end: int = 0
    deferred: ClassVar[bool] = True

    def infer(self, *inputs: Shape) -> Shape:
        right = 0 <= self.start < self.end <= inputs[0].ndim
        self.require(right, inputs, "needs 0 <= start < end <= rank")
        return Shape("int64", (self.end - self.start,))

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Instruction:
        return builder(context).literal(np.array(inputs[0].shape.lens[self.start : self.end], np.int64))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.array(args[0].shape[self.start : self.end], np.int64)


def dims_of(shape: Shape) -> int:
    """How many lengths a one-dimensional input holds."""
    return shape.lens[0] if shape.lens else 0


class BroadcastWithDims(Operation, name="broadcast_with_dims"):
    """x as the lens that the second input holds, by NumPy's rules (ONNX Expand)."""

    arity = 2
    can_fail = True
    data_movement = True

    def infer(self, *inputs: Shape) -> Shape:
        x, dims = inputs
        self.require(dims.type in dtypes.INTEGERS and dims.ndim == 1, inputs, "dims must be integers in one dimension")
        return Shape(x.type, dyn_dims=(ANY_LENGTH,) * max(x.ndim, dims_of(dims)))

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Instruction:
        dims = context.known(inputs[1], "dims").tolist()
        return builder(context).broadcast_to(inputs[0], broadcast_lens(inputs[0].shape.lens, tuple(dims)))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, dims = args
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, dims))))


class BroadcastForDot(Operation, name="broadcast_for_dot"):
    """The first input with the outer dimensions that both inputs share as batches of a dot; the last two stay."""

    arity = 2
    data_movement = True
    deferred: ClassVar[bool] = True

    def infer(self, *inputs: Shape) -> Shape:
        self.require(min(s.ndim for s in inputs) >= 2, inputs, "needs two dimensions")
        try:
            lens = broadcast_lens(*(s.lens[:-2] for s in inputs))
        except ValueError:
            self.refuse(inputs, "batch dimensions do not broadcast")
        return Shape(inputs[0].type, (*lens, *inputs[0].lens[-2:]))

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Instruction:
        return builder(context).broadcast_to(inputs[0], self.infer(*(i.shape for i in inputs)).lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        lens = np.broadcast_shapes(*(a.shape[:-2] for a in args))
        return np.broadcast_to(args[0], (*lens, *args[0].shape[-2:]))


class ReshapeLazy(Operation, name="reshape_lazy"):
    """As `reshape` (upstream: where it is a view)."""

    arity = 1
    data_movement = True
    deferred: ClassVar[bool] = True
    dims: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        return self._plain().infer(*inputs)

    def _plain(self) -> Operation:
        return operation("reshape", dims=self.dims)

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Instruction:
        return builder(context).reshape(inputs[0], dims=self.dims)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return self._plain().compute(*args)


class DynamicRange(Operation, name="dynamic_range"):
    """start, start + delta, ... up to limit, which is left out (ONNX Range). The three inputs have one element."""

    arity = 3
    can_fail = True

    def infer(self, *inputs: Shape) -> Shape:
        self.same_type(inputs)
        right = all(s.elements == 1 for s in inputs) and inputs[0].type != "bool"
        self.require(right, inputs, "inputs must be numbers, one element each")
        return Shape(inputs[0].type, dyn_dims=(ANY_LENGTH,))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        numbers: list[float] = [a.item() for a in args]
        start, limit, delta = numbers
        if delta == 0:
            raise ValueError("dynamic_range: delta is 0")
        return np.arange(start, limit, delta).astype(args[0].dtype)


class AsLength(Operation, name="as_length"):
    """{n, 0}, where the only element says n, at least 0: a number that lengths can be made of, and no memory."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.elements == 1 and x.type in dtypes.INTEGERS, inputs, "input must be one integer")
        return Shape("uint8", dyn_dims=(ANY_LENGTH, DynamicDimension(0, 0)))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.empty((max(args[0].item(), 0), 0), np.uint8)


class ExactNonZero(Operation, name="nonzero_exact"):
    """As `nonzero`, as many columns as there are elements that are not 0 (ONNX NonZero)."""

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        return Shape("int64", dyn_dims=(DynamicDimension(x.ndim, x.ndim), DynamicDimension(0, x.elements)))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        return np.array(np.nonzero(np.atleast_1d(x)), np.int64)[: x.ndim]


class Unique(Operation, name="unique"):
    """Each value once (ONNX Unique): values, where each is first, which one each element is, how often each is.

    Of slices along the one `axis`, or of all elements where none is given. Sorted, or by first occurrence.
    """

    arity = 1
    axis: tuple[int, ...] = ()
    sorted: bool = True

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        right = len(self.axis) <= 1 and all(-x.ndim <= a < x.ndim for a in self.axis)
        self.require(right, inputs, "axis must be one of the input's, or none")
        axis = self.axis[0] % x.ndim if self.axis else None
        length = x.elements if axis is None else x.lens[axis]
        found = DynamicDimension(min(1, length), length)  # a range, even of one length: NumPy runs it, not a kernel
        dims = tuple(found if d == axis else DynamicDimension(n, n) for d, n in enumerate(x.lens))
        values = Shape(x.type, dyn_dims=(found,) if axis is None else dims)
        found_shape = Shape("int64", dyn_dims=(found,))
        return Shape.tuple_of([values, found_shape, Shape("int64", (length,)), found_shape])

    def compute(self, *args: np.ndarray) -> Value:
        (x,) = args
        axis = self.axis[0] if self.axis else None
        values, first, which, counts = np.unique(x, True, True, True, axis=axis)
        which = which.reshape(-1)
        if not self.sorted:
            order = np.argsort(first)
            values = np.take(values, order, axis or 0)
            first, counts, which = first[order], counts[order], np.argsort(order)[which]
        return (values, *(np.asarray(a, np.int64) for a in (first, which, counts)))


class Fill(Operation, name="fill"):
    """One value, the first input, in every place of a value shaped like the second (upstream: written into it)."""

    arity = 2
    data_movement = True
    deferred: ClassVar[bool] = True

    def infer(self, *inputs: Shape) -> Shape:
        value, like = inputs
        self.require(value.elements == 1, inputs, "needs one value to fill with")
        self.require(value.type == like.type, inputs, "inputs differ in type")
        return like.as_standard()

    def expand(self, context: ExpansionContext, inputs: Sequence[Any]) -> Instruction:
        b, (value, like) = builder(context), inputs
        return b.contiguous(b.scalar(value, scalar_bcst_dims=like.shape.lens))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.full(args[1].shape, args[0].reshape(()))
