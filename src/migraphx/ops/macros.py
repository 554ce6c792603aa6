"""Macros that share their name with an operator: what MIGraphX's builders make of inputs that need broadcasts first.

`macro(name)` of the API looks here, then among the composites, then takes an operator as it is; an elementwise one
gets its inputs broadcast and converted to what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from migraphx.ir.builder import COMPOSITES, Builder, common_type
from migraphx.ir.module import Instruction
from migraphx.ir.operation import OPERATIONS
from migraphx.ops.convolution import same_padding
from migraphx.ops.pointwise import Pointwise

Value = Instruction
MACROS: dict[str, Callable[..., Any]] = {}


def macro(fn: Callable[..., Any]) -> Callable[..., Any]:
    MACROS[fn.__name__] = fn
    return fn


def find_macro(name: str) -> Callable[..., Any] | None:
    """The function (builder, *inputs, **attributes) of a macro, or None."""
    found = MACROS.get(name) or COMPOSITES.get(name)
    if found is not None or name not in OPERATIONS or name.startswith("@"):
        return found
    elementwise = issubclass(OPERATIONS[name], Pointwise)

    def plain(b: Builder, *inputs: Value, **attributes: Any) -> Value:
        return b.instruction(name, b.common(*inputs) if elementwise else inputs, **attributes)

    return plain


@macro
def dot(b: Builder, x: Value, y: Value) -> Value:
    """Matrix product, batch dimensions broadcast."""
    return b.matmul(x, y)


@macro
def gemm(
    b: Builder, x: Value, y: Value, c: Value | None = None, *,
    alpha: float = 1.0, beta: float = 1.0, transA: bool = False, transB: bool = False,
) -> Value:  # fmt: skip
    """alpha x y + beta c on matrices, x and y transposed where asked for (ONNX Gemm)."""
    x = b.transpose(x, permutation=(1, 0)) if transA else x
    y = b.transpose(y, permutation=(1, 0)) if transB else y
    product = b.dot(x, y)
    if alpha != 1:
        product = b.mul(product, b.full(alpha, product))
    if c is None or beta == 0:
        return product
    c = b.broadcast_to(c, product.shape.lens)
    return b.add(product, c if beta == 1 else b.mul(c, b.full(beta, c)))


@macro
def gelu_erf(b: Builder, x: Value) -> Value:
    """The exact gelu."""
    return b.gelu(x)


@macro
def gelu_quick(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    """x * sigmoid(alpha * x); `quick_gelu` has the usual alpha, 1.702."""
    return b.quick_gelu(x, alpha=alpha)


@macro
def clip(b: Builder, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """min(max(x, low), high), where they are given (ONNX Clip)."""
    if low is not None and high is not None:
        return b.clip(*b.common(x, low, high))
    if low is not None:
        return b.max(*b.common(x, low))
    return b.identity(x) if high is None else b.min(*b.common(x, high))


@macro
def convolution(
    b: Builder, x: Value, weights: Value, bias: Value | None = None, *, paddings: Sequence[int] = (),
    strides: Sequence[int] = (), dilations: Sequence[int] = (), group: int = 1, auto_pad: str = "NOTSET",
) -> Value:  # fmt: skip
    """A convolution and its bias {C}; `auto_pad` SAME_UPPER and SAME_LOWER as in ONNX's Conv."""
    kernel = weights.shape.lens[2:]
    strides, dilations = tuple(strides) or (1,) * len(kernel), tuple(dilations) or (1,) * len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        paddings = same_padding(x.shape.lens[2:], kernel, strides, dilations, auto_pad == "SAME_LOWER")
    elif auto_pad not in ("NOTSET", "VALID"):
        raise ValueError(f"convolution: auto_pad {auto_pad!r} is not known")
    padding = tuple(paddings) or (0,) * len(kernel)
    y = b.instruction("convolution", [x, weights], padding=padding, stride=strides, dilation=dilations, group=group)
    return y if bias is None else b.add(y, b.broadcast(bias, axis=1, out_lens=y.shape.lens))


@macro
def quantizelinear(
    b: Builder, x: Value, scale: Value, zero_point: Value | None = None, *,
    axis: int = 1, block_size: int = 0, output_type: str | None = None,
) -> Value:  # fmt: skip
    """saturate(nearbyint(x / scale) + zero_point): one scale, one a slice along `axis`, or one a block of it."""
    x, scale = (b.cast(v, common_type(x.shape.type, scale.shape.type)) for v in (x, scale))
    inputs = [
        x,
        broadcast_per_axis(b, x, scale, axis, block_size),
        broadcast_per_axis(b, x, zero_point, axis, block_size),
    ]
    attributes: dict[str, Any] = {} if output_type is None else {"out_type": output_type}
    return b.instruction("quantizelinear", [i for i in inputs if i is not None], **attributes)


@macro
def dequantizelinear(
    b: Builder, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1, block_size: int = 0
) -> Value:
    """(x - zero_point) * scale: one scale, one a slice along `axis`, or one a block of it."""
    inputs = [
        x,
        broadcast_per_axis(b, x, scale, axis, block_size),
        broadcast_per_axis(b, x, zero_point, axis, block_size),
    ]
    return b.instruction("dequantizelinear", [i for i in inputs if i is not None])


def broadcast_per_axis(b: Builder, x: Value, parameter: Value | None, axis: int, block_size: int) -> Value | None:
    """A scale or zero point with x's lens: of one number, of one a slice along `axis`, or of one a block."""
    if parameter is None:
        return None
    if not block_size and parameter.shape.elements == 1:
        return b.broadcast_to(b.reshape(parameter, dims=(1,) * x.shape.ndim), x.shape.lens)
    if not -x.shape.ndim <= axis < x.shape.ndim:
        raise ValueError(f"axis {axis} is out of range for rank {x.shape.ndim}")
    axis %= x.shape.ndim
    if block_size:
        wide = b.repeat_interleave(parameter, repeats=block_size, axis=axis)
        return b.slice(wide, axes=(axis,), starts=(0,), ends=(x.shape.lens[axis],))
    return b.broadcast(parameter, axis=axis, out_lens=x.shape.lens)
