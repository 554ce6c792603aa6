"""torch's quantized tensors in a trace: real numbers that lie on a grid.

No fake tensor stands for a quantized one. So a trace holds what the codes mean: each operation on quantized tensors is
done on dequantized values and its result quantized and dequantized again, as torch defines its quantized kernels. The
engine makes products of integers of that. A node whose value stands for a quantized tensor has its grid as
`meta["grid"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

# It declares torch.ops.quantized_decomposed.
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch import fx

from .proxies import AccProxy, AccTraceError

decomposed = torch.ops.quantized_decomposed
quantized = torch.ops.quantized
CODES = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}


@dataclass(frozen=True)
class Grid:
    """The real numbers (code - zero) * scale, for the codes of an integer type."""

    scale: float
    zero: int
    dtype: torch.dtype

    @classmethod
    def of(cls, scale: Any, zero: Any, dtype: torch.dtype) -> Grid:
        """From what a quantized operator is given: numbers, or buffers of the model."""
        return cls(number(scale), int(number(zero)), dtype)

    @property
    def arguments(self) -> tuple[float, int, int, int, torch.dtype]:
        """What quantized_decomposed's operators take behind the input."""
        info = torch.iinfo(self.dtype)
        return self.scale, self.zero, info.min, info.max, self.dtype


def grid_of(x: Any) -> Grid | None:
    """The grid of a quantized tensor's stand-in; None of other values."""
    return x.node.meta.get("grid") if isinstance(x, AccProxy) else None


def own_grid(x: Any) -> Grid:
    grid = grid_of(x)
    if grid is None:
        raise AccTraceError("a quantized operator is given a tensor that is not quantized")
    return grid


def number(x: Any) -> float:
    """A scale or a zero point, which may be a buffer of the model; AccTraceError where it depends on data."""
    return x.item() if isinstance(x, torch.Tensor) else float(x)


def attribute(root: torch.nn.Module, path: str) -> Any:
    """A module's tensor, where getattr would give its proxy."""
    *modules, name = path.split(".")
    for module in modules:
        root = root._modules[module]  # type: ignore[assignment]
    return next(table[name] for table in (root._buffers, root._parameters, root.__dict__) if name in table)


def on_grid(x: Any, grid: Grid) -> Any:
    """The stand-in for `x`, real numbers, quantized."""
    codes = decomposed.quantize_per_tensor.default(x, *grid.arguments)
    return of_codes(codes, grid)


def of_codes(codes: Any, grid: Grid) -> Any:
    """The stand-in for a quantized tensor of these codes."""
    y = decomposed.dequantize_per_tensor.default(codes, *grid.arguments)
    y.node.meta["grid"] = grid
    return y


def real(x: Any) -> Any:
    """A quantized tensor's values as real numbers, and as nothing more; others as they are."""
    if grid_of(x) is None:
        return x
    return decomposed.dequantize_per_tensor.default(codes_of(x), *own_grid(x).arguments)


def codes_of(x: Any) -> Any:
    """The codes of a quantized tensor, which is always what dequantizes them."""
    own_grid(x)
    return AccProxy(x.node.args[0], x.tracer)


# ---- between real numbers and quantized ones ----


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> Any:
    """torch.quantize_per_tensor"""
    if dtype not in CODES:
        raise AccTraceError(f"quantization to {dtype}")
    return on_grid(input, Grid.of(scale, zero_point, CODES[dtype]))


def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: torch.dtype) -> Any:
    """torch.quantize_per_channel: weights, which only products read, so that no operation keeps their grid."""
    if dtype not in CODES:
        raise AccTraceError(f"quantization to {dtype}")
    info = torch.iinfo(CODES[dtype])
    bounds = (axis, info.min, info.max, CODES[dtype])
    codes = decomposed.quantize_per_channel.default(input, scales, zero_points, *bounds)
    return decomposed.dequantize_per_channel.default(codes, scales, zero_points, *bounds)


def quantize_per_tensor_dynamic(input: Any, dtype: torch.dtype, reduce_range: bool) -> Any:
    """torch.quantize_per_tensor_dynamic, whose grid depends on data."""
    return dynamic(input, reduce_range, CODES[dtype])


def dynamic(input: Any, reduce_range: bool, dtype: torch.dtype = torch.uint8) -> Any:
    """Real numbers through codes whose grid covers their range, of which `reduce_range` leaves one bit unused."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    chosen = (low // 2, high // 2) if reduce_range else (low, high)
    scale, zero = decomposed.choose_qparams.tensor(input, *chosen, torch.finfo(torch.float32).eps, dtype)
    codes = decomposed.quantize_per_tensor.tensor(input, scale, zero, low, high, dtype)
    return decomposed.dequantize_per_tensor.tensor(codes, scale, zero, low, high, dtype)


def dequantize(input: Any) -> Any:
    """torch.dequantize, of one tensor or several."""
    return [real(x) for x in input] if isinstance(input, tuple | list) else real(input)


def as_tensor(x: Any) -> Any:
    """A quantized tensor that the model returns: torch's own, made of the codes."""
    grid = grid_of(x)
    if grid is None:
        return x
    wrap: Any = vars(torch)["_make_per_tensor_quantized_tensor"]
    return x.tracer.create_proxy("call_function", wrap, (codes_of(x), grid.scale, grid.zero), {})


# ---- products ----


def weight(packed: torch.Tensor, like: Any) -> Any:
    """Quantized weights as what dequantizes their codes, so that the engine sees these.

    Where what they multiply is a constant (a first state), so is the product.
    """
    if not isinstance(like, AccProxy):
        return packed.dequantize()
    codes, dtype = packed.int_repr(), CODES[packed.dtype]
    info = torch.iinfo(dtype)
    if packed.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        arguments = (codes, packed.q_scale(), packed.q_zero_point(), info.min, info.max, dtype)
        return like.tracer.create_proxy("call_function", decomposed.dequantize_per_tensor.default, arguments, {})
    scales, zeros = packed.q_per_channel_scales().float(), packed.q_per_channel_zero_points()
    arguments = (codes, scales, zeros, packed.q_per_channel_axis(), info.min, info.max, dtype)
    return like.tracer.create_proxy("call_function", decomposed.dequantize_per_channel.default, arguments, {})


def linear(x: Any, packed: Any) -> Any:
    """The product of real numbers with packed weights."""
    w, bias = quantized.linear_unpack(packed)
    return F.linear(x, weight(w, x), plain(bias))


def half_linear(x: Any, packed: Any) -> Any:
    """The product with weights that were rounded to half precision."""
    w, bias = quantized.linear_unpack_fp16(packed)
    return F.linear(x, w.detach(), plain(bias))


def plain(bias: Any) -> Any:
    """A bias that torch keeps with packed weights: fx knows parameters of the model's only."""
    return None if bias is None else bias.detach()


def convolution(rank: int, transposed: bool) -> Callable[[Any, Any], Any]:
    """The convolution of real numbers with packed weights."""
    function: Any = getattr(F, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")

    def conv(x: Any, packed: Any) -> Any:
        w, bias = packed.unpack()
        w = w.squeeze(-2) if rank == 1 and w.dim() == 4 else w  # of one dimension torch keeps a second
        geometry = [packed.stride(), packed.padding(), packed.output_padding(), packed.dilation()]
        stride, padding, extra, dilation = (v[-rank:] for v in geometry)
        shared = {"stride": stride, "padding": padding, "dilation": dilation, "groups": packed.groups()}
        return function(x, weight(w, x), plain(bias), **shared, **({"output_padding": extra} if transposed else {}))

    return conv


CONVOLUTIONS = {
    f"conv{'_transpose' if transposed else ''}{rank}d": convolution(rank, transposed)
    for rank in (1, 2, 3)
    for transposed in (False, True)
}
Product = Callable[[Any, Any], Any]
Activation = Callable[[Any], Any]


def static(product: Product, activation: Activation | None = None) -> Callable[..., Any]:
    """A product of a quantized tensor, quantized: `(x, packed, scale, zero_point)`."""

    def run(x: Any, packed: Any, scale: Any, zero_point: Any) -> Any:
        y = product(real(x), packed)
        grid = Grid.of(scale, zero_point, own_grid(x).dtype)
        return on_grid(y if activation is None else activation(y), grid)

    return run


def on_the_fly(product: Product, activation: Activation | None = None) -> Callable[..., Any]:
    """A product of real numbers that are quantized as they come: `(x, packed, reduce_range)`."""

    def run(x: Any, packed: Any, reduce_range: bool = False) -> Any:
        y = product(dynamic(x, reduce_range), packed)
        return y if activation is None else activation(y)

    return run


def half(activation: Activation | None = None) -> Callable[..., Any]:
    """A product with weights in half precision: `(x, packed)`."""

    def run(x: Any, packed: Any) -> Any:
        y = half_linear(x, packed)
        return y if activation is None else activation(y)

    return run


def linear_leaky_relu(x: Any, packed: Any, scale: Any, zero_point: Any, negative_slope: float) -> Any:
    return static(linear, lambda y: F.leaky_relu(y, negative_slope))(x, packed, scale, zero_point)


def added(activation: Activation | None = None) -> Callable[..., Any]:
    """conv2d plus another quantized tensor, quantized."""

    def run(x: Any, other: Any, packed: Any, scale: Any, zero_point: Any) -> Any:
        product = CONVOLUTIONS["conv2d"]
        return static(lambda a, w: product(a, w) + real(other), activation)(x, packed, scale, zero_point)

    return run


# ---- what reads and gives quantized tensors ----


def with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator whose result has a scale and a zero point of its own, by whatever name or at the end."""

    def run(*args: Any, **kwargs: Any) -> Any:
        names = [("output_scale", "output_zero_point"), ("scale", "zero_point")]
        place = next((n for n in names if n[0] in kwargs), None)
        scale, zero = (kwargs.pop(place[0]), kwargs.pop(place[1])) if place else args[-2:]
        own = args if place else args[:-2]
        grids = [g for a in own for x in (a if isinstance(a, tuple | list) else [a]) if (g := grid_of(x)) is not None]
        if not grids:
            raise AccTraceError("a quantized operator is given no quantized tensor")
        y = function(*map(dequantize_any, own), **kwargs)
        return on_grid(y, Grid.of(scale, zero, grids[0].dtype))

    return run


def dequantize_any(x: Any) -> Any:
    return [real(i) for i in x] if isinstance(x, tuple | list) and any(map(grid_of, x)) else real(x)


def keeping(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator whose result has the grid of its first input."""

    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        return on_grid(function(real(x), *args, **kwargs), own_grid(x))

    return run


def batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


def elu(x: Any, scale: Any, zero_point: Any, alpha: float = 1, s: float = 1, input_scale: float = 1) -> Any:
    """quantized.elu has its grid before alpha."""
    return on_grid(F.elu(real(x), alpha), Grid.of(scale, zero_point, own_grid(x).dtype))


def celu(x: Any, scale: Any, zero_point: Any, alpha: float = 1) -> Any:
    return on_grid(F.celu(real(x), alpha), Grid.of(scale, zero_point, own_grid(x).dtype))


def dropout(x: Any, scale: Any, zero_point: Any, p: float = 0.5, training: bool = False) -> Any:
    return on_grid(real(x), Grid.of(scale, zero_point, own_grid(x).dtype))


def binary(function: Callable[[Any, Any], Any], scaled: Callable[[Any, float], Any]) -> Callable[..., Any]:
    """add or mul of two quantized tensors, or of one and a number."""

    def run(a: Any, b: Any, *grid: Any, **named: Any) -> Any:
        if not grid and not named:
            x, c = (a, b) if grid_of(a) is not None else (b, a)
            return scaled(x, number(c))
        return with_output(function)(a, b, *grid, **named)

    return run


def add_scalar(x: Any, c: float) -> Any:
    """x + c by another zero point, whose codes are the same, or where that is out of range by another scale."""
    grid = own_grid(x)
    low, high = torch.iinfo(grid.dtype).min, torch.iinfo(grid.dtype).max
    steps = round(c / grid.scale)
    zero, scale = grid.zero - steps, grid.scale
    if zero < low:
        scale, zero = (high - zero) / (high - low) * grid.scale, low
    elif zero > high:
        scale, zero = (zero - low) / (high - low) * grid.scale, high
    return on_grid(real(x) + steps * grid.scale, Grid(scale, zero, grid.dtype))


def mul_scalar(x: Any, c: float) -> Any:
    """x * c by another scale; a negative number mirrors the zero point."""
    grid = own_grid(x)
    low, high = torch.iinfo(grid.dtype).min, torch.iinfo(grid.dtype).max
    zero = grid.zero if c > 0 else high - (grid.zero - low)
    return on_grid(real(x) * c, Grid(grid.scale * abs(c), zero, grid.dtype) if c else Grid(1.0, 0, grid.dtype))


def cat(tensors: Any, dim: int, scale: Any = None, zero_point: Any = None, activation: Activation | None = None) -> Any:
    grid = own_grid(tensors[0])
    if scale is not None:
        grid = Grid.of(scale, zero_point, grid.dtype)
    y = torch.cat([real(x) for x in tensors], dim)
    return on_grid(y if activation is None else activation(y), grid)


def embedding(packed: Any, indices: Any, pruned_weights: bool = False) -> Any:
    """Rows of a table of 8- or 4-bit codes, with a scale and a zero point (no whole number) for each row."""
    table = quantized.embedding_bag_unpack(packed)
    if table.dtype == torch.quint4x2:
        rows = quantized.embedding_4bit(packed, torch.arange(table.shape[0]))
        return F.embedding(indices, rows)
    scales, zeros = (
        t.float().reshape(-1, 1) for t in (table.q_per_channel_scales(), table.q_per_channel_zero_points())
    )
    rows = F.embedding(indices, table.int_repr()).to(torch.float32)
    return (rows - F.embedding(indices, zeros)) * F.embedding(indices, scales)


def embedding_bag(
    packed: Any, indices: Any, offsets: Any = None, scale_grad_by_freq: bool = False, mode: int = 0,
    pruned_weights: bool = False, per_sample_weights: Any = None, compressed_indices_mapping: Any = None,
    include_last_offset: bool = False,
) -> Any:  # fmt: skip
    """Sums of rows of a table that was quantized."""
    if mode != 0 or compressed_indices_mapping is not None:
        raise AccTraceError("a quantized embedding bag with means or pruned weights")
    table = quantized.embedding_bag_unpack(packed).dequantize()
    given = {"per_sample_weights": per_sample_weights, "include_last_offset": include_last_offset, "mode": "sum"}
    return F.embedding_bag(indices, table, offsets, **given)


def reference_weight(m: Any) -> Any:
    """The weights of one of torch's reference modules, through their codes."""
    w, scheme = m.weight, m.weight_qscheme
    if scheme is None or m.weight_dtype not in CODES:
        return w.to(m.weight_dtype).to(torch.float32) if m.weight_dtype == torch.float16 else w
    scale, zero = (attribute(m, name) for name in ("weight_scale", "weight_zero_point"))
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return real(quantize_per_tensor(w, scale, zero, m.weight_dtype))
    return quantize_per_channel(w, scale, zero, m.weight_axis_int, m.weight_dtype)


def is_reference(m: torch.nn.Module) -> bool:
    """Whether a module quantizes and dequantizes its weights at each call."""
    return hasattr(m, "get_weight") and hasattr(m, "weight_qscheme")


def fake_quantized(m: Any, x: Any) -> Any:
    """What a fake quantizer that no longer observes gives."""
    if not m._buffers["fake_quant_enabled"][0]:
        return x
    bounds = (m.activation_post_process.quant_min, m.activation_post_process.quant_max)
    scale, zero = m._buffers["scale"].clone(), m._buffers["zero_point"].clone().to(torch.int32)
    aten = torch.ops.aten
    if m.is_per_channel:
        return aten.fake_quantize_per_channel_affine.default(x, scale, zero, m.ch_axis, *bounds)
    return aten.fake_quantize_per_tensor_affine.default(x, float(scale), int(zero), *bounds)


def is_frozen(m: torch.nn.Module) -> bool:
    """Whether a fake quantizer no longer observes, so that it computes the same of the same at each call."""
    observing = m._buffers.get("observer_enabled")
    return observing is not None and not observing[0] and "activation_post_process" in m._modules


def _families() -> Iterable[tuple[str, Callable[..., Any]]]:
    products = {"linear": linear, **CONVOLUTIONS}
    for name, product in products.items():
        yield name, static(product)
        yield f"{name}_relu", static(product, F.relu)
        yield f"{name}_dynamic", on_the_fly(product)
        yield f"{name}_relu_dynamic", on_the_fly(product, F.relu)
    for rank in ("", "1d", "2d", "3d"):
        yield f"batch_norm{rank}", with_output(batch_norm)
        yield f"batch_norm{rank}_relu", with_output(lambda *args, **named: F.relu(batch_norm(*args, **named)))
    for name, function, scaled in (("add", torch.add, add_scalar), ("mul", torch.mul, mul_scalar)):
        yield name, binary(function, scaled)
        yield f"{name}_scalar", lambda x, c, scaled=scaled: scaled(x, number(c))
        relu = binary(lambda a, b, function=function: F.relu(function(a, b)), lambda x, c, f=scaled: F.relu(f(x, c)))
        yield f"{name}_relu", relu
        yield f"{name}_scalar_relu", lambda x, c, scaled=scaled: F.relu(scaled(x, number(c)))


QUANTIZED: dict[Any, Callable[..., Any]] = {
    **{getattr(quantized, name): function for name, function in _families() if hasattr(quantized, name)},
    quantized.linear_tanh: static(linear, torch.tanh),
    quantized.linear_leaky_relu: linear_leaky_relu,
    quantized.linear_dynamic_fp16: half(),
    quantized.linear_relu_dynamic_fp16: half(F.relu),
    quantized.conv2d_add: added(),
    quantized.conv2d_add_relu: added(F.relu),
    quantized.cat: cat,
    quantized.cat_relu: lambda *args, **named: cat(*args, **named, activation=F.relu),
    quantized.matmul: with_output(torch.matmul),
    quantized.layer_norm: with_output(F.layer_norm),
    quantized.group_norm: with_output(F.group_norm),
    quantized.instance_norm: with_output(
        lambda x, weight=None, bias=None, eps=1e-5: F.instance_norm(x, weight=weight, bias=bias, eps=eps)
    ),
    quantized.hardswish: with_output(F.hardswish),
    quantized.sigmoid: with_output(torch.sigmoid),
    quantized.softmax: with_output(torch.softmax),
    quantized.prelu: with_output(F.prelu),
    quantized.leaky_relu: with_output(lambda x, slope, inplace: F.leaky_relu(x, slope)),
    quantized.elu: elu,
    quantized.celu: celu,
    quantized.dropout: dropout,
    quantized.relu6: keeping(lambda x, inplace=False: F.relu6(x)),
    quantized.clamp: keeping(torch.clamp),
    quantized.threshold: keeping(F.threshold),
    quantized.max_pool1d: keeping(F.max_pool1d),
    quantized.max_pool2d: keeping(F.max_pool2d),
    quantized.embedding_byte: embedding,
    quantized.embedding_4bit: embedding,
    quantized.embedding_bag_byte: embedding_bag,
    quantized.embedding_bag_4bit: embedding_bag,
    torch.quantize_per_tensor: quantize_per_tensor,
    torch.quantize_per_channel: quantize_per_channel,
    torch.quantize_per_tensor_dynamic: quantize_per_tensor_dynamic,
    torch.dequantize: dequantize,
    torch.fake_quantize_per_tensor_affine: torch.ops.aten.fake_quantize_per_tensor_affine,
    torch.fake_quantize_per_channel_affine: torch.ops.aten.fake_quantize_per_channel_affine,
    "dequantize": real,
    "int_repr": codes_of,
    "q_scale": lambda x: own_grid(x).scale,
    "q_zero_point": lambda x: own_grid(x).zero,
    "qscheme": lambda x: torch.per_tensor_affine if grid_of(x) else None,
}
"""What torch's functions, quantized operators and methods are traced as."""

KEEP_GRID = frozenset(
    {
        "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp", "clamp_", "threshold", "leaky_relu", "max_pool1d",
        "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
        "adaptive_avg_pool2d", "adaptive_avg_pool3d", "mean", "interpolate", "upsample", "upsample_nearest",
        "upsample_bilinear", "hardsigmoid", "cat", "stack", "flatten", "reshape", "view", "permute", "transpose", "t",
        "squeeze", "unsqueeze", "contiguous", "clone", "detach", "expand", "expand_as", "repeat", "repeat_interleave",
        "chunk", "split", "unbind", "select", "narrow", "index_select", "getitem", "pixel_shuffle", "pixel_unshuffle",
        "channel_shuffle", "pad", "max", "min", "amax", "amin", "sort", "topk", "flip", "roll", "unflatten", "movedim",
        "dropout", "to", "cpu", "masked_fill", "tile", "swapaxes", "flatten_", "squeeze_", "unsqueeze_",
    }
)  # fmt: skip
"""Functions and methods that torch has for quantized tensors and whose result lies on the grid of the first."""
FIXED_GRIDS = {
    ("sigmoid", torch.uint8): (1 / 256, 0), ("sigmoid", torch.int8): (1 / 256, -128),
    ("tanh", torch.uint8): (2 / 256, 128), ("tanh", torch.int8): (2 / 256, 0),
    ("hardsigmoid", torch.uint8): (1 / 256, 0), ("hardsigmoid", torch.int8): (1 / 256, -128),
}  # fmt: skip
"""Functions whose results torch always gives on one grid."""


def result_on_grid(proxy: AccProxy, inputs: Iterable[fx.Node]) -> AccProxy:
    """What a function of quantized tensors gives, on the grid that torch gives it.

    Whatever several values it gives is taken apart by getitem, which comes here again with the grid of the whole.
    """
    grid = next((n.meta["grid"] for n in inputs if "grid" in n.meta), None)
    value, name = proxy.value, _name(proxy.node.target)
    if grid is None or name.startswith(("quantize", "dequantize")):
        return proxy
    if name in ("getattr", "size", "_make_per_tensor_quantized_tensor") or _is_whole(value):
        return proxy
    if (name, grid.dtype) in FIXED_GRIDS:
        grid = Grid(*FIXED_GRIDS[name, grid.dtype], grid.dtype)
    elif name not in KEEP_GRID:
        raise AccTraceError(f"torch has no {name} of quantized tensors")
    if not isinstance(value, torch.Tensor):
        proxy.node.meta["grid"] = grid
        return proxy
    return on_grid(proxy, grid)


def _name(target: Any) -> str:
    return (
        target if isinstance(target, str) else getattr(target, "__name__", str(target)).removeprefix("boolean_dispatch")
    )


def _is_whole(value: Any) -> bool:
    """Whether a result is no real number: indices, masks, sizes."""
    return not isinstance(value, tuple | list) and not (
        isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    )
