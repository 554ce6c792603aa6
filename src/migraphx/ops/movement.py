"""Operators that move elements and change none: views, copies, joins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from migraphx.ir.operation import Operation
from migraphx.ir.shape import Shape, permuted, standard_strides
from migraphx.ir.size import ones_matter


def axis_of(op: Operation, axis: int, ndim: int, inputs: Sequence[Shape]) -> int:
    """`axis` counted from the front; ShapeError where it is none of the `ndim` dimensions."""
    op.require(-ndim <= axis < ndim, inputs, f"axis {axis} is not in a rank of {ndim}")
    return axis % ndim


def axes_of(op: Operation, axes: Sequence[int], ndim: int, inputs: Sequence[Shape]) -> tuple[int, ...]:
    """Several axes counted from the front; ShapeError where one is out of range or named twice."""
    found = tuple(axis_of(op, a, ndim, inputs) for a in axes)
    op.require(len(set(found)) == len(found), inputs, f"an axis is named twice in {tuple(axes)}")
    return found


def keep_layout(x: Shape, lens: Sequence[int], type: str | None = None) -> Shape:
    """The packed shape of `lens` in `x`'s order of dimensions; row-major where `x` is broadcast.

    Strides of dimensions of length 1 say where these lie: an image of one channel may be channels-last.
    """
    plain = x.broadcasted or x.strides == standard_strides(x.lens)
    order = range(len(lens)) if plain else x.permutation
    return permuted(type or x.type, lens, order)


def shared_layout(inputs: Sequence[Shape], lens: Sequence[int]) -> Shape:
    """The packed shape of `lens` in the order of dimensions that all inputs share, else row-major."""
    first = inputs[0]
    shared = all(not s.broadcasted and s.permutation == first.permutation for s in inputs)
    return permuted(first.type, lens, first.permutation if shared else range(len(lens)))


class Broadcasting(Operation):
    """Base of what repeats elements, without a copy: strides of 0."""

    arity = 1
    view = True
    data_movement = True


class Reshaping(Operation):
    """Base of what gives the elements, in row-major order, other lens."""

    arity = 1
    data_movement = True

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return args[0].reshape(self.infer(Shape("float", args[0].shape)).lens)


# ---- views ----


class Transpose(Operation, name="transpose"):
    """Dimension d of the output is dimension permutation[d] of the input (ONNX Transpose, aten::permute)."""

    arity = 1
    view = True
    data_movement = True
    permutation: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        right = sorted(self.permutation) == list(range(x.ndim))
        self.require(right, inputs, f"permutation must name each of {x.ndim} dimensions once")
        lens, strides = (tuple(v[d] for d in self.permutation) for v in (x.lens, x.strides))
        return Shape(x.type, lens, strides)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return args[0].transpose(self.permutation)


class Multibroadcast(Broadcasting, name="multibroadcast"):
    """The input as `out_lens` by NumPy's rules, with strides of 0 (ONNX Expand, aten::expand)."""

    out_lens: tuple[int, ...] = ()
    out_dyn_dims: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(not self.out_dyn_dims, inputs, "dynamic output dimensions are not supported")
        added = len(self.out_lens) - x.ndim
        fits = added >= 0 and all(n in (1, m) for n, m in zip(x.lens, self.out_lens[added:], strict=True))
        self.require(fits, inputs, "lens do not broadcast to out_lens")
        pairs = zip(x.lens, x.strides, self.out_lens[added:], strict=True)
        return Shape(x.type, self.out_lens, (0,) * added + tuple(s if n == m else 0 for n, s, m in pairs))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.broadcast_to(args[0], self.out_lens)


class Broadcast(Broadcasting, name="broadcast"):
    """The input's dimensions become out_lens[axis:axis + rank], all others are broadcast."""

    axis: int = 0
    out_lens: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        axis = axis_of(self, self.axis, len(self.out_lens), inputs) if self.out_lens else 0
        self.require(self.out_lens[axis : axis + x.ndim] == x.lens, inputs, "lens are not those at `axis`")
        behind = len(self.out_lens) - axis - x.ndim
        return Shape(x.type, self.out_lens, (0,) * axis + x.strides + (0,) * behind)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        axis = self.axis % max(len(self.out_lens), 1)
        behind = len(self.out_lens) - axis - args[0].ndim
        return np.broadcast_to(args[0].reshape(args[0].shape + (1,) * behind), self.out_lens)


class Scalar(Broadcasting, name="scalar"):
    """One element as every element of `scalar_bcst_dims`; all strides are 0."""

    scalar_bcst_dims: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        self.require(inputs[0].elements == 1, inputs, "needs an input of one element")
        return Shape(inputs[0].type, self.scalar_bcst_dims, (0,) * len(self.scalar_bcst_dims))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.broadcast_to(args[0].reshape(()), self.scalar_bcst_dims)


class Squeeze(Reshaping, name="squeeze"):
    """Drop dimensions of length 1: those in `axes`, or all if it is empty (ONNX Squeeze, aten::squeeze)."""

    view = True
    axes: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        axes = axes_of(self, self.axes, x.ndim, inputs)
        self.require(all(x.lens[d] == 1 for d in axes), inputs, "a dimension to drop is not of length 1")
        with ones_matter(not axes):
            kept = [d for d in range(x.ndim) if (d not in axes if axes else x.lens[d] != 1)]
        return Shape(x.type, tuple(x.lens[d] for d in kept), tuple(x.strides[d] for d in kept))


class Unsqueeze(Reshaping, name="unsqueeze"):
    """Add dimensions at `axes` of the output (ONNX Unsqueeze, aten::unsqueeze).

    Where `steps` is given, the new dimension has that length and is split off the one behind it.
    """

    view = True
    axes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        lens, strides = self._split(x.lens, x.strides, inputs)
        return Shape(x.type, tuple(lens), tuple(strides))

    def _split(
        self, lens: tuple[int, ...], strides: tuple[int, ...], inputs: Sequence[Shape]
    ) -> tuple[list[int], list[int]]:
        self.require(not self.steps or len(self.steps) == len(self.axes), inputs, "needs one step an axis")
        ndim = len(lens) + len(self.axes)
        axes = axes_of(self, self.axes, ndim, inputs)
        steps = dict(zip(axes, self.steps or (1,) * len(axes), strict=True))
        old = list(zip(lens, strides, strict=True))
        new: list[tuple[int, int]] = []
        for d in range(ndim):
            if d not in steps:
                new.append(old.pop(0))
                continue
            step, (length, stride) = steps[d], old[0] if old else (1, 1)
            self.require(step > 0 and length % step == 0, inputs, f"cannot split {length} by {step}")
            rest = length // step
            new.append((step, stride * rest))
            if old:
                old[0] = (rest, stride)
        return [n for n, _ in new], [s for _, s in new]


class Span(NamedTuple):
    """The indices start <= i < stop of an axis; start <= stop."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def cut(self, start: int, stop: int) -> Span:
        """What start:stop picks of the indices, as Python's slices count."""
        ends = [n + self.length if n < 0 else n for n in (start, stop)]
        first, last = (min(max(n, 0), self.length) for n in ends)
        return Span(self.start + first, self.start + max(first, last))


class Slice(Operation, name="slice"):
    """Elements starts[k] <= i < ends[k] along axes[k]; negative bounds count from the end (ONNX Slice)."""

    arity = 1
    view = True
    data_movement = True
    axes: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def spans(self, lens: Sequence[int]) -> dict[int, Span]:
        """What each sliced axis keeps; bounds beyond the ends are cut to them."""
        bounds = zip(self.axes, self.starts, self.ends, strict=True)
        return {a % len(lens): Span(0, lens[a]).cut(start, end) for a, start, end in bounds}

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        same = len(self.axes) == len(self.starts) == len(self.ends)
        self.require(same, inputs, "needs one start and one end an axis")
        axes_of(self, self.axes, x.ndim, inputs)
        kept = self.spans(x.lens)
        return Shape(x.type, tuple(kept[d].length if d in kept else n for d, n in enumerate(x.lens)), x.strides)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        kept = self.spans(args[0].shape)
        return args[0][tuple(slice(*kept[d]) if d in kept else slice(None) for d in range(args[0].ndim))]


class Step(Operation, name="step"):
    """Every steps[k]-th element along axes[k], the first included (the steps of ONNX Slice)."""

    arity = 1
    view = True
    data_movement = True
    axes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        right = len(self.axes) == len(self.steps) and all(s > 0 for s in self.steps)
        self.require(right, inputs, "needs one positive step an axis")
        steps = dict(zip(axes_of(self, self.axes, x.ndim, inputs), self.steps, strict=True))
        lens = tuple(-(-n // steps.get(d, 1)) for d, n in enumerate(x.lens))
        return Shape(x.type, lens, tuple(s * steps.get(d, 1) for d, s in enumerate(x.strides)))

    def compute(self, *args: np.ndarray) -> np.ndarray:
        index = [slice(None)] * args[0].ndim
        for a, s in zip(self.axes, self.steps, strict=True):
            index[a] = slice(None, None, s)
        return args[0][tuple(index)]


# ---- copies ----


class Reshape(Reshaping, name="reshape"):
    """The elements in row-major order as `dims`; 0 copies a length, one -1 is inferred (ONNX Reshape).

    Where the input is empty and copying lengths does not fit, 0 means 0. The output is row-major.
    """

    dims: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        right = self.dims.count(-1) <= 1 and all(n >= -1 for n in self.dims)
        self.require(right, inputs, "dims must be lengths and at most one -1")
        copied = tuple(x.lens[d] if n == 0 and d < x.ndim else n for d, n in enumerate(self.dims))
        for dims in (copied, self.dims):
            known = math.prod(n for n in dims if n >= 0)
            free = x.elements // known if known else 0
            lens = tuple(free if n == -1 else n for n in dims)
            if math.prod(lens) == x.elements:
                return Shape(x.type, lens)
        return self.refuse(inputs, f"{x.elements} elements do not fit dims")


class Flatten(Reshaping, name="flatten"):
    """Two dimensions: the product of those before `axis`, the product of the others (ONNX Flatten)."""

    axis: int = 1

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(-x.ndim <= self.axis <= x.ndim, inputs, f"axis {self.axis} is not in a rank of {x.ndim}")
        axis = self.axis + x.ndim if self.axis < 0 else self.axis
        return Shape(x.type, (math.prod(x.lens[:axis]), math.prod(x.lens[axis:])))


class Contiguous(Operation, name="contiguous"):
    """The same values in row-major order (aten::contiguous)."""

    arity = 1
    data_movement = True

    def infer(self, *inputs: Shape) -> Shape:
        return Shape(inputs[0].type, inputs[0].lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.array(args[0], order="C")


class Layout(Operation, name="layout"):
    """The same values; `permutation` lists the dimensions from the outermost in memory to the innermost."""

    arity = 1
    data_movement = True
    permutation: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        right = sorted(self.permutation) == list(range(x.ndim))
        self.require(right, inputs, f"permutation must name each of {x.ndim} dimensions once")
        return permuted(x.type, x.lens, self.permutation)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        inverse = np.argsort(np.array(self.permutation, int))
        return np.array(args[0].transpose(self.permutation), order="C").transpose(inverse)


class Reverse(Operation, name="reverse"):
    """The elements in opposite order along `axes` (aten::flip)."""

    arity = 1
    data_movement = True
    axes: tuple[int, ...] = ()

    def infer(self, *inputs: Shape) -> Shape:
        axes_of(self, self.axes, inputs[0].ndim, inputs)
        return keep_layout(inputs[0], inputs[0].lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.flip(args[0], self.axes).copy()


class Concat(Operation, name="concat"):
    """The inputs one after another along `axis` (ONNX Concat, aten::cat)."""

    data_movement = True
    axis: int = 0

    def infer(self, *inputs: Shape) -> Shape:
        self.require(len(inputs) > 0, inputs, "needs an input")
        self.same_type(inputs)
        first = inputs[0]
        axis = axis_of(self, self.axis, first.ndim, inputs)
        rest = [s.lens[:axis] + s.lens[axis + 1 :] for s in inputs]
        self.require(all(lens == rest[0] for lens in rest), inputs, f"inputs differ in lens outside axis {axis}")
        lens = list(first.lens)
        lens[axis] = sum(s.lens[axis] for s in inputs)
        return shared_layout(inputs, lens)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        return np.concatenate(args, self.axis)


class Pad(Operation, name="pad"):
    """pads[d] elements before and pads[rank + d] behind dimension d (ONNX Pad, aten::pad).

    mode: `constant` (filled with `value`), `edge` (the outermost element) or `reflect` (mirrored, the
    outermost element not repeated; as many as the dimension has less one, at most).
    """

    MODES: ClassVar[tuple[str, ...]] = ("constant", "edge", "reflect")
    arity = 1
    pads: tuple[int, ...] = ()
    value: float = 0.0
    mode: str = "constant"

    def widths(self) -> list[tuple[int, int]]:
        """(before, behind) of each dimension."""
        half = len(self.pads) // 2
        return list(zip(self.pads[:half], self.pads[half:], strict=True))

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(self.mode in self.MODES, inputs, f"mode must be one of {', '.join(self.MODES)}")
        right = len(self.pads) == 2 * x.ndim and all(p >= 0 for p in self.pads)
        self.require(right, inputs, f"needs {2 * x.ndim} pads, none negative")
        for n, widths in zip(x.lens, self.widths(), strict=True):
            most = {"constant": math.inf, "edge": math.inf if n else 0, "reflect": max(n - 1, 0)}[self.mode]
            self.require(max(widths) <= most, inputs, f"cannot {self.mode}-pad a length of {n}")
        return keep_layout(x, [n + sum(w) for n, w in zip(x.lens, self.widths(), strict=True)])

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        if not x.ndim:
            return x  # np.pad takes no empty list of widths
        if self.mode == "constant":
            return np.pad(x, self.widths(), constant_values=np.array(self.value).astype(x.dtype))
        return np.pad(x, self.widths(), mode=self.mode)  # type: ignore[call-overload]
