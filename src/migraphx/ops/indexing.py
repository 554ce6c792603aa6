"""Operators that pick and place elements by index. An index out of range is an IndexError that names it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape
from migraphx.ops.movement import axis_of, keep_layout

INDEX_TYPES = dtypes.INTEGERS - dtypes.NARROW_INTEGERS.keys()


def check_indices(op: Operation, inputs: Sequence[Shape], indices: Shape) -> None:
    """ShapeError unless they are integers of whole bytes."""
    op.require(indices.type in INDEX_TYPES, inputs, "indices must be integers of 8 bits or more")


def from_front(op: Operation, indices: np.ndarray, length: int) -> np.ndarray:
    """int64 indices counted from the front; IndexError names the first that is out of [-length, length)."""
    indices = indices.astype(np.int64)
    wrong = (indices < -length) | (indices >= length)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise IndexError(f"{op.name}: index {indices[at]} at {at} is out of range for a length of {length}")
    return np.where(indices < 0, indices + length, indices)


def tuples_from_front(op: Operation, indices: np.ndarray, lens: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The columns of index tuples (the last dimension), each checked against its length."""
    return tuple(from_front(op, indices[..., k], n) for k, n in enumerate(lens))


class Gather(Operation, name="gather"):
    """data's slices along `axis` at the indices, whose dimensions replace that one (ONNX Gather).

    Indices may be negative: they count from the end.
    """

    arity = 2
    can_fail = True
    data_movement = True
    gathers = True
    axis: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        data, indices = inputs
        check_indices(self, inputs, indices)
        axis = axis_of(self, self.axis, data.ndim, inputs)
        return Shape(data.type, data.lens[:axis] + indices.lens + data.lens[axis + 1 :])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices = args
        return np.take(data, from_front(self, indices, data.shape[self.axis]), self.axis)


class GatherNd(Operation, name="gathernd"):
    """data's slices at index tuples, the last dimension of the indices (ONNX GatherND).

    The first `batch_dims` dimensions are shared by data and indices.
    """

    arity = 2
    can_fail = True
    data_movement = True
    gathers = True
    batch_dims: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        data, indices = inputs
        b = self.batch_dims
        check_indices(self, inputs, indices)
        self.require(0 <= b < min(data.ndim, indices.ndim), inputs, "batch_dims is not below both ranks")
        self.require(data.lens[:b] == indices.lens[:b], inputs, "batch lens differ")
        depth = indices.lens[-1]
        self.require(1 <= depth <= data.ndim - b, inputs, f"index tuples of {depth} do not fit the rank")
        return Shape(data.type, indices.lens[:-1] + data.lens[b + depth :])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices = args
        b, depth = self.batch_dims, indices.shape[-1]
        picked = tuples_from_front(self, indices, data.shape[b : b + depth])
        batch = np.indices(indices.shape[:b], sparse=True) if b else ()
        free = indices.ndim - 1 - b
        return np.asarray(data[(*(i.reshape(i.shape + (1,) * free) for i in batch), *picked)])


class GatherElements(Operation, name="gather_elements"):
    """data at indices[...] along `axis`, else at the same place (ONNX GatherElements, aten::gather)."""

    arity = 2
    can_fail = True
    data_movement = True
    gathers = True
    axis: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        data, indices = inputs
        check_indices(self, inputs, indices)
        axis = axis_of(self, self.axis, data.ndim, inputs)
        fits = data.ndim == indices.ndim and all(
            i <= n for d, (i, n) in enumerate(zip(indices.lens, data.lens, strict=True)) if d != axis
        )
        self.require(fits, inputs, f"indices must fit data outside axis {axis}")
        return Shape(data.type, indices.lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices = args
        return data[element_places(self, indices, data.shape, self.axis)]


class EmbeddingBag(Operation, name="embedding_bag"):
    """Sums of rows of data {batch, rows, columns}, times weights (aten::embedding_bag with per_sample_weights).

    indices and weights are {batch, bags, rows of a bag}, the result is {batch, bags, columns}. Indices may be
    negative: they count from the end.
    """

    arity = 3
    can_fail = True

    def infer(self, *inputs: Shape) -> Shape:
        data, indices, weights = inputs
        check_indices(self, inputs, indices)
        self.require(data.ndim == indices.ndim == 3, inputs, "takes three dimensions")
        self.require(data.type == weights.type and data.type in dtypes.FLOATS, inputs, "data and weights are no floats")
        self.require(weights.lens == indices.lens, inputs, "needs a weight for each index")
        self.require(data.lens[0] == indices.lens[0], inputs, "batch lens differ")
        return Shape(data.type, (*indices.lens[:2], data.lens[2]))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return 2 * output.elements * inputs[1].lens[2]

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices, weights = args
        batch = np.arange(len(data)).reshape(-1, 1, 1)
        rows = dtypes.wide(data[batch, from_front(self, indices, data.shape[1])])
        return (dtypes.wide(weights)[..., None] * rows).sum(2).astype(data.dtype)


def element_places(op: Operation, indices: np.ndarray, lens: Sequence[int], axis: int) -> tuple[np.ndarray, ...]:
    """NumPy indices of every element of `indices`, its own place but for `axis`."""
    index_grids: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    index_grids[axis] = from_front(op, indices, lens[axis])
    return tuple(np.broadcast_arrays(*index_grids))


# ---- scatter ----


def combine(how: str, data: np.ndarray, index: Any, updates: np.ndarray) -> np.ndarray:
    """A copy of `data` with `updates` at `index`, one after another; floats are rounded once."""
    if how == "none":
        out = data.copy()
        out[index] = updates
        return out
    out = np.array(dtypes.wide(data))
    ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[how]
    ufunc.at(out, index, updates.astype(out.dtype))
    return out.astype(data.dtype)


class Scattering(Operation):
    """Combines updates with elements of data, in the way that its name ends with."""

    arity = 3
    can_fail = True

    @property
    def how(self) -> str:
        return self.name.rpartition("_")[2]


class Scatter(Scattering):
    """data with updates at indices[...] along `axis`, everywhere else at the same place."""

    axis: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        data, indices, updates = inputs
        check_indices(self, inputs, indices)
        self.require(data.type == updates.type, inputs, "data and updates differ in type")
        axis = axis_of(self, self.axis, data.ndim, inputs)
        fits = (
            indices.lens == updates.lens
            and indices.ndim == data.ndim
            and all(i <= n for d, (i, n) in enumerate(zip(indices.lens, data.lens, strict=True)) if d != axis)
        )
        self.require(fits, inputs, f"indices and updates must be alike and fit data outside axis {axis}")
        return keep_layout(data, data.lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices, updates = args
        return combine(self.how, data, element_places(self, indices, data.shape, self.axis), updates)


class ScatterNone(Scatter, name="scatter_none"):
    """data with elements replaced; the last of equal indices wins (ONNX ScatterElements, aten::scatter)."""


class ScatterAdd(Scatter, name="scatter_add"):
    """data with the updates added (ONNX ScatterElements, aten::scatter_add)."""


class ScatterMul(Scatter, name="scatter_mul"):
    """data multiplied by the updates (ONNX ScatterElements, aten::scatter_reduce)."""


class ScatterMin(Scatter, name="scatter_min"):
    """The smallest of data and the updates (ONNX ScatterElements, aten::scatter_reduce)."""


class ScatterMax(Scatter, name="scatter_max"):
    """The largest of data and the updates (ONNX ScatterElements, aten::scatter_reduce)."""


class ScatterNd(Scattering):
    """data with slices at index tuples, the last dimension of the indices, updated."""

    def infer(self, *inputs: Shape) -> Shape:
        data, indices, updates = inputs
        check_indices(self, inputs, indices)
        self.require(data.type == updates.type, inputs, "data and updates differ in type")
        depth = indices.lens[-1] if indices.ndim else 0
        self.require(1 <= depth <= data.ndim, inputs, f"index tuples of {depth} do not fit the rank")
        lens = indices.lens[:-1] + data.lens[depth:]
        self.require(updates.lens == lens, inputs, f"updates must have lens {lens}")
        return keep_layout(data, data.lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        data, indices, updates = args
        depth = indices.shape[-1]
        return combine(self.how, data, tuples_from_front(self, indices, data.shape[:depth]), updates)


class ScatterNdNone(ScatterNd, name="scatternd_none"):
    """data with slices replaced; the last of equal indices wins (ONNX ScatterND)."""


class ScatterNdAdd(ScatterNd, name="scatternd_add"):
    """data with the updates added (ONNX ScatterND)."""


class ScatterNdMul(ScatterNd, name="scatternd_mul"):
    """data multiplied by the updates (ONNX ScatterND)."""


class ScatterNdMin(ScatterNd, name="scatternd_min"):
    """The smallest of data and the updates (ONNX ScatterND)."""


class ScatterNdMax(ScatterNd, name="scatternd_max"):
    """The largest of data and the updates (ONNX ScatterND)."""


# ---- others ----


class OneHot(Operation, name="onehot"):
    """values[1] where the index is, values[0] elsewhere, along a new `axis` of length `depth` (ONNX OneHot).

    Inputs: indices, values {2}. An index out of [-depth, depth) gives values[0] throughout.
    """

    arity = 2
    axis: int = -1
    depth: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        indices, values = inputs
        check_indices(self, inputs, indices)
        self.require(values.lens == (2,), inputs, "values must be of lens {2}")
        self.require(self.depth >= 0, inputs, "depth must not be negative")
        axis = axis_of(self, self.axis, indices.ndim + 1, inputs)
        return Shape(values.type, (*indices.lens[:axis], self.depth, *indices.lens[axis:]))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        indices, values = args[0].astype(np.int64), args[1]
        axis = self.axis % (indices.ndim + 1)
        from_zero = np.where(indices < 0, indices + self.depth, indices)
        classes = np.arange(self.depth).reshape(-1, *(1,) * (indices.ndim - axis))
        off: np.ndarray = values[0]
        on: np.ndarray = values[1]
        return np.where(np.expand_dims(from_zero, axis) == classes, on, off).astype(values.dtype)


class NonZero(Operation, name="nonzero"):
    """Indices of the elements that are not 0, one column each, in row-major order (ONNX NonZero).

    The output {rank, elements} has room for all; the columns behind the last one found are 0.
    """

    arity = 1

    def infer(self, *inputs: Shape) -> Shape:
        return Shape("int64", (inputs[0].ndim, inputs[0].elements))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        out = np.zeros((x.ndim, math.prod(x.shape)), np.int64)
        if x.ndim:
            found = np.stack(np.nonzero(x))
            out[:, : found.shape[1]] = found
        return out
