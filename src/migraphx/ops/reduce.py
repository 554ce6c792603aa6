"""Reductions along axes, and what is made of them: softmax, argmax, prefix sums, topk.

Sums and products of floats are accumulated in double and rounded once; integers wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.dtype import wide
from migraphx.ir.operation import ModuleArgument, Operation, Value
from migraphx.ir.shape import Shape, elementwise
from migraphx.ir.size import most_of
from migraphx.ops.movement import axes_of, axis_of, keep_layout

ANY = dtypes.COMPUTED
NUMBERS = ANY - {"bool"}
BOOL = frozenset({"bool"})


class Reduction(Operation):
    """Base of the reductions: axes get length 1; no axes means all of them."""

    arity = 1
    accepts: ClassVar[frozenset[str]] = NUMBERS
    of_nothing: ClassVar[bool] = True  # whether it has a value for no elements
    axes: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.type in self.accepts, inputs, f"does not take {x.type}")
        axes = axes_of(self, self.axes, x.ndim, inputs) or tuple(range(x.ndim))
        empty = any(x.lens[a] == 0 for a in axes)
        self.require(self.of_nothing or not empty, inputs, "no elements to choose from")
        lens = [1 if d in axes else n for d, n in enumerate(x.lens)]
        return keep_layout(x, lens)

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return inputs[0].elements

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        axes = tuple(a % x.ndim for a in self.axes) or tuple(range(x.ndim))
        with np.errstate(all="ignore"):
            return np.asarray(self.reduce(wide(x), axes)).astype(x.dtype, copy=False)

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """`x` reduced over `axes`, which stay with length 1."""
        raise NotImplementedError


class ReduceSum(Reduction, name="reduce_sum"):
    """Sum over `axes` (ONNX ReduceSum, aten::sum)."""

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


class ReduceProd(Reduction, name="reduce_prod"):
    """Product over `axes` (ONNX ReduceProd, aten::prod)."""

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)


class ReduceMean(Reduction, name="reduce_mean"):
    """Mean over `axes`; of integers truncated, of no floats NaN (ONNX ReduceMean, aten::mean)."""

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        total = np.sum(x, axis=axes, keepdims=True, dtype=x.dtype if x.dtype.kind == "f" else np.int64)
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        if x.dtype.kind == "f":
            return total / np.float64(count)
        return np.where(total < 0, -(-total // max(count, 1)), total // max(count, 1))


class ReduceMax(Reduction, name="reduce_max"):
    """Largest over `axes`; NaN if any is (ONNX ReduceMax, aten::amax)."""

    accepts = ANY
    of_nothing = False

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.max(x, axis=axes, keepdims=True)


class ReduceMin(Reduction, name="reduce_min"):
    """Smallest over `axes`; NaN if any is (ONNX ReduceMin, aten::amin)."""

    accepts = ANY
    of_nothing = False

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.min(x, axis=axes, keepdims=True)


class ReduceAll(Reduction, name="reduce_all"):
    """Whether all bools over `axes` are true (aten::all)."""

    accepts = BOOL

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.all(x, axis=axes, keepdims=True)


class ReduceAny(Reduction, name="reduce_any"):
    """Whether any bool over `axes` is true (aten::any)."""

    accepts = BOOL

    @staticmethod
    def reduce(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.any(x, axis=axes, keepdims=True)


# ---- along one axis, same lens ----


class AlongAxis(Operation):
    """Base of float operators that keep the lens and work along `axis`."""

    arity = 1
    axis: int = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.type in dtypes.FLOATS, inputs, f"does not take {x.type}")
        axis_of(self, self.axis, x.ndim, inputs)
        return elementwise(x.type, [x])

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return output.elements

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        if not x.size:
            return x.copy()
        with np.errstate(all="ignore"):
            return self.along(wide(x), self.axis).astype(x.dtype)

    @staticmethod
    def along(x: np.ndarray, axis: int) -> np.ndarray:
        """The answer for doubles, at least one element."""
        raise NotImplementedError


class Softmax(AlongAxis, name="softmax"):
    """exp(x - max(x)) / sum(exp(x - max(x))) along `axis`; a row of -inf gives NaN (ONNX Softmax)."""

    @staticmethod
    def along(x: np.ndarray, axis: int) -> np.ndarray:
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


class LogSoftmax(AlongAxis, name="logsoftmax"):
    """log(softmax(x)) along `axis` (ONNX LogSoftmax, aten::log_softmax)."""

    @staticmethod
    def along(x: np.ndarray, axis: int) -> np.ndarray:
        d = x - x.max(axis, keepdims=True)
        return d - np.log(np.exp(d).sum(axis, keepdims=True))


class PrefixScanSum(Operation, name="prefix_scan_sum"):
    """Sums of all elements up to each one along `axis` (ONNX CumSum, aten::cumsum).

    `exclusive` leaves the element itself out, `reverse` sums from the end.
    """

    arity = 1
    axis: int = 0
    exclusive: bool = False
    reverse: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.type in NUMBERS, inputs, f"does not take {x.type}")
        axis_of(self, self.axis, x.ndim, inputs)
        return elementwise(x.type, [x])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x = np.flip(args[0], self.axis) if self.reverse else args[0]
        sums = wide(x)
        if self.exclusive and x.shape[self.axis]:
            moved = np.moveaxis(sums, self.axis, 0)
            moved = np.concatenate([np.zeros_like(moved[:1]), moved[:-1]])
            sums = np.moveaxis(moved, 0, self.axis)
        sums = np.cumsum(sums, axis=self.axis, dtype=sums.dtype).astype(x.dtype)
        return np.flip(sums, self.axis) if self.reverse else sums


class Lrn(Operation, name="lrn"):
    """x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta (ONNX LRN).

    x {N, C, ...}. Channel c's neighbours are c - (size-1)/2, rounded down, to c + (size-1)/2, rounded up.
    """

    arity = 1
    alpha: float = 0.0001
    beta: float = 0.75
    bias: float = 1.0
    size: int = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(x.ndim >= 2 and x.type in dtypes.FLOATS, inputs, "needs floats {N, C, ...}")
        self.require(self.size >= 1, inputs, "size must be positive")
        return elementwise(x.type, [x])

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        """A sum of squares, and the power of it."""
        return output.elements * (2 * self.size + 3)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        below = (self.size - 1) // 2
        padding = [(0, 0), (below, self.size - 1 - below)] + [(0, 0)] * (x.ndim - 2)
        squares = np.pad(wide(x) ** 2, padding)
        total = sum(squares[:, k : k + x.shape[1]] for k in range(self.size))
        return (wide(x) / (self.bias + self.alpha / self.size * total) ** self.beta).astype(x.dtype)


# ---- choosing along one axis ----


class ArgExtreme(Operation):
    """Base of argmax and argmin. `select_last_index` takes the last of equal elements, and of several NaN."""

    arity = 1
    axis: int = 0
    select_last_index: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        axis = axis_of(self, self.axis, x.ndim, inputs)
        self.require(x.lens[axis] > 0, inputs, "no elements to choose from")
        return keep_layout(x, [1 if d == axis else n for d, n in enumerate(x.lens)], "int64")

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x = wide(args[0])
        if not self.select_last_index:
            return np.asarray(self.index(x, self.axis), np.int64)
        return np.asarray(x.shape[self.axis] - 1 - self.index(np.flip(x, self.axis), self.axis), np.int64)

    @staticmethod
    def index(x: np.ndarray, axis: int) -> np.ndarray:
        """The first index of the extreme along `axis`, which stays with length 1."""
        raise NotImplementedError


class ArgMax(ArgExtreme, name="argmax"):
    """Index of the largest along `axis`, the first NaN if there is one (ONNX ArgMax, aten::argmax)."""

    @staticmethod
    def index(x: np.ndarray, axis: int) -> np.ndarray:
        return np.argmax(x, axis, keepdims=True)


class ArgMin(ArgExtreme, name="argmin"):
    """Index of the smallest along `axis`, the first NaN if there is one (ONNX ArgMin, aten::argmin)."""

    @staticmethod
    def index(x: np.ndarray, axis: int) -> np.ndarray:
        return np.argmin(x, axis, keepdims=True)


class TopK(Operation, name="topk"):
    """The k largest (or smallest) along `axis` in order, and their int64 indices (ONNX TopK, aten::topk).

    Equal elements keep their order; NaN is larger than everything.
    """

    arity = 1
    k: int = 1
    axis: int = 0
    largest: bool = True

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        axis = axis_of(self, self.axis, x.ndim, inputs)
        self.require(0 <= self.k <= x.lens[axis], inputs, f"k must be at most {x.lens[axis]}")
        lens = [self.k if d == axis else n for d, n in enumerate(x.lens)]
        return Shape.tuple_of([Shape(x.type, tuple(lens)), Shape("int64", tuple(lens))])

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        """Comparisons, of a heap of k elements."""
        return inputs[0].elements * 2 * most_of(1, self.k.bit_length())

    def compute(self, *args: np.ndarray) -> Value:
        (x,) = args
        keys = wide(x)
        if self.largest:  # sorted backwards from the end, so that equal elements keep their order
            backwards = np.argsort(np.flip(keys, self.axis), self.axis, kind="stable")
            order = keys.shape[self.axis] - 1 - np.flip(backwards, self.axis)
        else:
            order = np.argsort(keys, self.axis, kind="stable")
        chosen = np.take(order, np.arange(self.k), self.axis).astype(np.int64)
        return np.take_along_axis(x, chosen, self.axis), chosen
