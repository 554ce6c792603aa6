"""Convolutions over any number of spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape
from migraphx.ops.matmul import QUANTIZED, product, product_type
from migraphx.ops.movement import keep_layout


def both_sides(padding: Sequence[int], n: int) -> list[tuple[int, int]]:
    """(before, behind) of each of `n` spatial dimensions; `padding` has n values or 2n."""
    before, behind = padding[:n], padding[-n:]
    return list(zip(before, behind, strict=True))


def window_lens(
    lens: Sequence[int],
    kernel: Sequence[int],
    padding: Sequence[tuple[int, int]],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """How many windows fit along each spatial dimension; below 1 where none does."""
    dims = zip(lens, kernel, padding, stride, dilation, strict=True)
    return tuple((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, k, p, s, d in dims)


def same_padding(
    lens: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], lower: bool = False
) -> tuple[int, ...]:
    """Elements before every spatial dimension, then behind every one, for as many windows as lens / stride, rounded up.

    The odd one is behind, or before where `lower` (ONNX's SAME_UPPER and SAME_LOWER).
    """
    dims = zip(lens, kernel, stride, dilation, strict=True)
    total = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in dims]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return tuple(more + less if lower else less + more)


def windows(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """A view {N, C, out..., kernel...} of {N, C, spatial...}."""
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    view = sliding_window_view(x, reach, tuple(range(2, x.ndim)))
    some = (slice(None, None, s) for s in stride)
    return view[(slice(None), slice(None), *some, *(slice(None, None, d) for d in dilation))]


def check_windows(op: Operation, inputs: Sequence[Shape], **attributes: Sequence[int]) -> None:
    """ShapeError unless every attribute has a positive value for each spatial dimension."""
    n = inputs[0].ndim - 2
    op.require(n >= 1, inputs, "needs an input {N, C, spatial...}")
    for name, values in attributes.items():
        right = len(values) == n and all(v > 0 for v in values)
        op.require(right, inputs, f"{name} needs {n} positive values")


def check_padding(op: Operation, inputs: Sequence[Shape], padding: Sequence[int], mode: int) -> None:
    """ShapeError unless the padding is explicit and fits the rank."""
    n = inputs[0].ndim - 2
    right = len(padding) in (n, 2 * n) and all(p >= 0 for p in padding)
    op.require(right, inputs, f"padding needs {n} or {2 * n} values, none negative")
    op.require(mode == 0, inputs, "padding_mode must be 0: padding is explicit")


def channels_exchanged(w: np.ndarray, group: int) -> np.ndarray:
    """{O, C / group, kernel...} of transposed convolutions' weights {C, O / group, kernel...}, and these of those."""
    rows, columns, *kernel = w.shape
    turned = w.reshape(group, rows // group, columns, *kernel).swapaxes(1, 2)
    return turned.reshape(group * columns, rows // group, *kernel)


class ConvolutionBase(Operation):
    """Attributes, shape rule and answer that the forward convolutions share."""

    arity = 2
    contraction = True
    takes_epilogue = True
    spatial = True
    padding: tuple[int, ...] = (0, 0)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    group: int = 1
    padding_mode: int = 0

    def out_type(self, inputs: Sequence[Shape]) -> str:
        raise NotImplementedError

    def infer(self, *inputs: Shape) -> Shape:
        x, w = inputs
        check_windows(self, inputs, stride=self.stride, dilation=self.dilation)
        check_padding(self, inputs, self.padding, self.padding_mode)
        self.require(w.ndim == x.ndim, inputs, "input and weights differ in rank")
        self.require(self.group >= 1 and w.lens[0] % self.group == 0, inputs, "group must divide the outputs")
        channels = f"weights of {w.lens[1]} channels in {self.group} groups on {x.lens[1]} channels"
        self.require(w.lens[1] * self.group == x.lens[1], inputs, channels)
        padding = both_sides(self.padding, x.ndim - 2)
        lens = window_lens(x.lens[2:], w.lens[2:], padding, self.stride, self.dilation)
        self.require(all(n >= 1 for n in (*lens, *w.lens[2:])), inputs, "the kernel exceeds the padded input")
        return keep_layout(x, (x.lens[0], w.lens[0], *lens), self.out_type(inputs))

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return 2 * output.elements * math.prod(inputs[1].lens[1:])

    def by_output(self, w: np.ndarray) -> np.ndarray:
        """The weights as {O, C / group, kernel...}, which they are; and these as they were."""
        return w

    def correlate(self, x: np.ndarray, w: np.ndarray, type: np.typing.DTypeLike) -> np.ndarray:
        """The answer, summed in the wide type of `w`: im2col, then one matrix product a group."""
        spatial, g = x.ndim - 2, self.group
        padded = np.pad(x, [(0, 0), (0, 0), *both_sides(self.padding, spatial)])
        view = windows(padded, w.shape[2:], self.stride, self.dilation)
        n, out = view.shape[0], view.shape[2 : 2 + spatial]
        view = view.reshape(n, g, w.shape[1], *view.shape[2:])
        # {n, g, c, out..., kernel...} -> {g, c, kernel..., n, out...}
        order = (1, 2, *range(3 + spatial, view.ndim), 0, *range(3, 3 + spatial))
        taps = math.prod(w.shape[1:])
        columns = view.transpose(order).reshape(g, taps, n * math.prod(out))
        sums = product(w.reshape(g, w.shape[0] // g, taps), columns, type)
        return np.moveaxis(sums.reshape(w.shape[0], n, *out), 1, 0)


class Convolution(ConvolutionBase, name="convolution"):
    """Cross-correlation of {N, C, spatial...} with weights {O, C / group, kernel...} (ONNX Conv).

    The output keeps the input's order of dimensions in memory.
    """

    def out_type(self, inputs: Sequence[Shape]) -> str:
        return product_type(self, inputs)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, w = args
        return self.correlate(x, w, x.dtype)


class QuantConvolution(ConvolutionBase, name="quant_convolution"):
    """Convolution of 8-bit integers, summed in int32 (ONNX ConvInteger without zero points)."""

    def out_type(self, inputs: Sequence[Shape]) -> str:
        self.require(all(s.type in QUANTIZED for s in inputs), inputs, "takes int8 or uint8")
        return "int32"

    def compute(self, *args: np.ndarray) -> np.ndarray:
        x, w = args
        return self.correlate(x, w.astype(np.float64), np.int64).astype(np.int32)  # exact: sums are below 2^53


class ConvolutionBackwards(Operation, name="convolution_backwards"):
    """Transposed convolution with weights {C, O / group, kernel...} (ONNX ConvTranspose, aten::convolution).

    `padding` is what it removes from either side of the full output.
    """

    arity = 2
    contraction = True
    takes_epilogue = True
    spatial = True
    padding: tuple[int, ...] = (0, 0)
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding_mode: int = 0
    group: int = 1

    def infer(self, *inputs: Shape) -> Shape:
        x, w = inputs
        check_windows(self, inputs, stride=self.stride, dilation=self.dilation)
        check_padding(self, inputs, self.padding, self.padding_mode)
        type = product_type(self, inputs)
        right = w.ndim == x.ndim and w.lens[0] == x.lens[1]
        self.require(right, inputs, "weights must be {C, O / group, kernel...} of the input's C")
        self.require(self.group >= 1 and w.lens[0] % self.group == 0, inputs, "group must divide C")
        lens = self.out_lens(x.lens[2:], w.lens[2:])
        self.require(all(n >= 1 for n in (*lens, *x.lens[2:], *w.lens[2:])), inputs, "the output is empty")
        return keep_layout(x, (x.lens[0], w.lens[1] * self.group, *lens), type)

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        return 2 * inputs[0].elements * math.prod(inputs[1].lens[1:])

    def out_lens(self, lens: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        padding = both_sides(self.padding, len(lens))
        dims = zip(lens, kernel, padding, self.stride, self.dilation, strict=True)
        return tuple((n - 1) * s + d * (k - 1) + 1 - sum(p) for n, k, p, s, d in dims)

    def by_output(self, w: np.ndarray) -> np.ndarray:
        """{O, C / group, kernel...} of the weights, and these of those."""
        return channels_exchanged(w, self.group)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        type, (x, w) = args[0].dtype, map(dtypes.wide, args)
        spatial, g = x.ndim - 2, self.group
        # what each input element adds: {g, O / g, kernel..., n, spatial...}
        weights = w.reshape(g, w.shape[0] // g, math.prod(w.shape[1:])).swapaxes(1, 2)
        pixels = np.moveaxis(x, 0, 1).reshape(g, w.shape[0] // g, x.size // max(x.shape[1], 1))
        parts = np.matmul(weights, pixels).reshape(g * w.shape[1], *w.shape[2:], x.shape[0], *x.shape[2:])
        dims = zip(x.shape[2:], w.shape[2:], self.stride, self.dilation, strict=True)
        reach = ((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in dims)
        full = np.zeros((g * w.shape[1], x.shape[0], *reach), x.dtype)
        for tap in np.ndindex(*w.shape[2:]):
            firsts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            spans = zip(firsts, x.shape[2:], self.stride, strict=True)
            full[(slice(None), slice(None), *(slice(f, f + (n - 1) * s + 1, s) for f, n, s in spans))] += parts[
                (slice(None), *tap)
            ]
        kept = zip(both_sides(self.padding, spatial), full.shape[2:], strict=True)
        cut = full[(slice(None), slice(None), *(slice(before, n - behind) for (before, behind), n in kept))]
        return np.moveaxis(cut, 0, 1).astype(type)


CONVOLUTIONS = ("convolution", "convolution_backwards")
"""Those whose weights have `by_output`, and the type of the input."""
