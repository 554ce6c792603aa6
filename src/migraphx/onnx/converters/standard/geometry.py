"""Windows on spatial dimensions: what a node says of them, and what that is for one input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from migraphx.onnx.builder import OnnxBuilder
from migraphx.onnx.graph import OnnxError
from migraphx.onnx.registry import Convert, grouped
from migraphx.ops.convolution import same_padding

Lens = Sequence[int]


@dataclass(frozen=True)
class Geometry:
    """Windows of lens `kernel`; `padding` is before every spatial dimension, then behind every one."""

    kernel: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def before(self) -> tuple[int, ...]:
        return self.padding[: len(self.kernel)]

    @property
    def behind(self) -> tuple[int, ...]:
        return self.padding[len(self.kernel) :]


@dataclass(frozen=True)
class Window:
    """The attributes of a node that has windows."""

    auto_pad: str = "NOTSET"
    kernel_shape: Lens | None = None
    pads: Lens | None = None
    strides: Lens | None = None
    dilations: Lens | None = None

    def steps(self, kernel: Lens) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(strides, dilations); `kernel` has the lens of the weights, which the node may repeat. Raises OnnxError."""
        n, given = len(kernel), tuple(self.kernel_shape or kernel)
        if given != tuple(kernel):
            raise OnnxError(f"kernel_shape {given} is not that of the weights, {tuple(kernel)}")
        strides, dilations = tuple(self.strides or (1,) * n), tuple(self.dilations or (1,) * n)
        if not len(strides) == len(dilations) == n:
            raise OnnxError(f"kernel {given}, strides {strides}, dilations {dilations}: not {n} spatial dimensions")
        return strides, dilations

    def checked(self, b: OnnxBuilder) -> Window:
        """TensorFlow's SAME, which some files hold, is SAME_UPPER; pads of 0 say nothing beside an auto_pad."""
        if self.auto_pad in ("NOTSET", ""):
            return self
        if any(self.pads or ()):
            raise OnnxError(f"auto_pad {self.auto_pad!r} and pads {tuple(self.pads or ())} exclude each other")
        if self.pads:
            b.deviates(f"has pads of 0 beside auto_pad {self.auto_pad!r}")
        if self.auto_pad != "SAME":
            return self
        b.deviates("auto_pad 'SAME' is not the standard's: read as SAME_UPPER")
        return replace(self, auto_pad="SAME_UPPER")

    def on(self, lens: Lens, kernel: Lens | None = None) -> Geometry:
        """For an input of spatial `lens`; the `kernel` of pooling is the node's own. Raises OnnxError."""
        n, kernel = len(lens), self.kernel_shape if kernel is None else kernel
        if kernel is None:
            raise OnnxError("attribute 'kernel_shape' is missing")
        strides, dilations = self.steps(kernel)
        if len(kernel) != n:
            raise OnnxError(f"kernel {tuple(kernel)}: not {n} spatial dimensions")
        padding = (0,) * 2 * n
        if self.auto_pad in ("NOTSET", ""):
            padding = tuple(self.pads or padding)
            if len(padding) != 2 * n:
                raise OnnxError(f"pads {padding} must be two for each of {n} spatial dimensions")
        elif self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            padding = same_padding(lens, kernel, strides, dilations, self.auto_pad == "SAME_LOWER")
        elif self.auto_pad != "VALID":
            raise OnnxError(f"auto_pad {self.auto_pad!r} is not known")
        return Geometry(tuple(kernel), padding, strides, dilations)


ATTRIBUTES = tuple(f.name for f in fields(Window))


def windowed(*names: str) -> Callable[[Convert], Convert]:
    """The decorated converter gets one Window as `window`, in place of these attributes of the node.

    All of Window's where none is named.
    """
    return grouped("window", lambda b, **given: Window(**given).checked(b), names or ATTRIBUTES)
