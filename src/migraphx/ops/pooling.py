"""Pooling over any number of spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from migraphx.ir import dtype as dtypes
from migraphx.ir.operation import ModuleArgument, Operation
from migraphx.ir.shape import Shape
from migraphx.ops.convolution import both_sides, check_padding, check_windows, windows
from migraphx.ops.movement import keep_layout


class Pooling(Operation, name="pooling"):
    """Maximum, average or p-norm of each window of {N, C, spatial...} (ONNX MaxPool, AveragePool, LpPool).

    mode: `max`, `average`, `lpnorm` (of order lp_order).
    ceil_mode: a last window may reach beyond the padded input, if it starts before the padding behind.
    count_include_pad: an average counts padding as zeros; what lies beyond the padding never counts.
    dyn_global: one window, all of the input; lengths, stride, padding and dilations have no say.
    The output keeps the input's order of dimensions in memory. NaN in a window gives NaN.
    """

    MODES: ClassVar[tuple[str, ...]] = ("max", "average", "lpnorm")
    arity = 1
    spatial = True
    mode: str = "average"
    padding: tuple[int, ...] = (0, 0)
    padding_mode: int = 0
    stride: tuple[int, ...] = (1, 1)
    lengths: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    ceil_mode: bool = False
    lp_order: int = 2
    count_include_pad: bool = False
    dyn_global: bool = False

    def infer(self, *inputs: Shape) -> Shape:
        (x,) = inputs
        self.require(self.mode in self.MODES, inputs, f"mode must be one of {', '.join(self.MODES)}")
        self.require(x.ndim >= 3, inputs, "needs an input {N, C, spatial...}")
        self.require(all(n >= 1 for n in x.lens[2:]), inputs, "a spatial dimension is empty")
        self.require(self.lp_order >= 1, inputs, "lp_order must be at least 1")
        if self.mode != "max":
            self.require(x.type in dtypes.FLOATS, inputs, f"{self.mode} takes floats")
        if not self.dyn_global:
            check_windows(self, inputs, stride=self.stride, lengths=self.lengths, dilations=self.dilations)
            check_padding(self, inputs, self.padding, self.padding_mode)
        lens = self.out_lens(x.lens[2:])
        self.require(all(n >= 1 for n in lens), inputs, "the window exceeds the padded input")
        return keep_layout(x, (*x.lens[:2], *lens))

    def window(self, lens: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Lengths, strides and dilations on an input of spatial `lens`."""
        if self.dyn_global:
            return tuple(lens), (1,) * len(lens), (1,) * len(lens)
        return self.lengths, self.stride, self.dilations

    def pads(self, lens: Sequence[int]) -> list[tuple[int, int]]:
        """(before, behind) of each spatial dimension."""
        return [(0, 0)] * len(lens) if self.dyn_global else both_sides(self.padding, len(lens))

    def out_lens(self, lens: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            self._out_len(n, k, s, d, *p)
            for n, k, s, d, p in zip(lens, *self.window(lens), self.pads(lens), strict=True)
        )

    def _out_len(self, n: int, k: int, s: int, d: int, before: int, behind: int) -> int:
        room = n + before + behind - d * (k - 1) - 1
        if room < 0 or not self.ceil_mode:
            return room // s + 1
        out = -(-room // s) + 1
        return out - 1 if (out - 1) * s >= n + before else out

    def flops(self, inputs: Sequence[Shape], output: Shape, modules: Sequence[ModuleArgument]) -> int:
        lengths, *_ = self.window(inputs[0].lens[2:])
        return output.elements * math.prod(lengths)

    def compute(self, *args: np.ndarray) -> np.ndarray:
        (x,) = args
        if self.mode == "max":
            comparable = x.astype(dtypes.accumulator(dtypes.from_numpy(x.dtype)), copy=False)
            view = self._windows(comparable, lowest(comparable.dtype))
            return view.max(tuple(range(x.ndim, view.ndim))).astype(x.dtype)
        view = self._windows(dtypes.wide(x), 0)
        taps = tuple(range(x.ndim, view.ndim))
        if self.mode == "lpnorm":
            return ((np.abs(view) ** self.lp_order).sum(taps) ** (1 / self.lp_order)).astype(x.dtype)
        return (view.sum(taps) / self._counts(x.shape[2:])).astype(x.dtype)

    def _windows(self, x: np.ndarray, fill: float, behind: float | None = None) -> np.ndarray:
        """All windows of {N, C, spatial...}; `fill` is the padding, `behind` what lies beyond it."""
        spatial = x.shape[2:]
        padded = np.pad(x, [(0, 0), (0, 0), *self.pads(spatial)], constant_values=fill)
        kernel, stride, dilation = self.window(spatial)
        dims = zip(self.out_lens(spatial), kernel, stride, dilation, padded.shape[2:], strict=True)
        missing = [max((out - 1) * s + d * (k - 1) + 1 - n, 0) for out, k, s, d, n in dims]
        rest = [(0, 0), (0, 0), *((0, m) for m in missing)]
        padded = np.pad(padded, rest, constant_values=fill if behind is None else behind)
        return windows(padded, kernel, stride, dilation)

    def _counts(self, spatial: Sequence[int]) -> np.ndarray:
        """How many elements each window averages; {1, 1, out...}."""
        view = self._windows(np.ones((1, 1, *spatial)), float(self.count_include_pad), 0.0)
        return np.maximum(view.sum(tuple(range(2 + len(spatial), view.ndim))), 1)


def lowest(dtype: np.dtype) -> float:
    """The identity of max."""
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else int(np.iinfo(dtype).min)
