"""What ATen operators do with complex numbers, as arithmetic of their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from torch_migraphx.fx.eigen import EIG
from torch_migraphx.fx.fourier import DFT

aten = torch.ops.aten
RULES: dict[Any, Callable[..., Any]] = {}
"""By overload: a function of its arguments, in which complex tensors are pairs."""


class Pair(NamedTuple):
    """A complex tensor: its real and its imaginary part, of one shape and type; or both parts of a Python number."""

    re: Any
    im: Any


def rule(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(overloads, function))
        return function

    return register


def pair(x: Any) -> Pair:
    """A pair of anything that is added to or multiplied by complex numbers."""
    if isinstance(x, Pair):
        return x
    if isinstance(x, torch.Tensor):
        return Pair(x, torch.zeros_like(x))
    return Pair(complex(x).real, complex(x).imag)


def real_type(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _number(x: Any) -> Any:
    """A Python number with no imaginary part as a real one."""
    return x.real if isinstance(x, complex) and x.imag == 0 else x


# ---- what is done to both parts alike ----


def _alike(overload: Any, values: Sequence[int] = (0,)) -> None:
    """An operator that treats each part by itself; `values` are the places of what it takes parts of."""

    def both(*args: Any, **kwargs: Any) -> Any:
        if "dtype" in kwargs and kwargs["dtype"] is not None:
            kwargs = kwargs | {"dtype": real_type(kwargs["dtype"])}

        def parts(k: int) -> Any:
            def part(x: Any) -> Any:
                return [part(v) for v in x] if isinstance(x, list) else pair(x)[k]

            return overload(*(part(a) if n in values else a for n, a in enumerate(args)), **kwargs)

        made = parts(0), parts(1)
        return Pair(*made) if isinstance(made[0], torch.Tensor) else [Pair(*p) for p in zip(*made, strict=True)]

    RULES[overload] = both


for _overload in (
    aten.alias.default, aten.as_strided.default, aten.cat.default, aten.clone.default,
    aten.contiguous.default, aten.cumsum.default, aten.detach.default, aten.diagonal.default, aten.expand.default,
    aten.flip.default, aten.gather.default, aten.index.Tensor, aten.index_select.default, aten.lift_fresh.default,
    aten.lift_fresh_copy.default, aten.mean.default, aten.mean.dim, aten.neg.default, aten.permute.default,
    aten.repeat.default, aten.reshape.default, aten.roll.default, aten.select.int, aten.slice.Tensor,
    aten.split.Tensor, aten.split_with_sizes.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.stack.default, aten.sum.default, aten.sum.dim_IntList, aten.t.default, aten.transpose.int,
    aten.tril.default, aten.triu.default, aten.unbind.int, aten.unfold.default, aten.unsqueeze.default,
    aten.view.default, aten._unsafe_view.default, aten.zeros_like.default, aten.empty_like.default,
    aten._neg_view.default,
):  # fmt: skip
    _alike(_overload)
for _overload, _values in {
    aten.where.self: (1, 2),
    aten.index_put.default: (0, 2),
    aten.select_scatter.default: (0, 1),
    aten.slice_scatter.default: (0, 1),
    aten.scatter.src: (0, 3),
    aten.copy.default: (0, 1),
}.items():
    _alike(_overload, _values)


@rule(aten.masked_fill.Scalar)
def masked_fill(x: Pair, mask: torch.Tensor, value: complex) -> Pair:
    z = complex(value)
    return Pair(x.re.masked_fill(mask, z.real), x.im.masked_fill(mask, z.imag))


@rule(aten.constant_pad_nd.default)
def constant_pad_nd(x: Pair, pad: Sequence[int], value: complex = 0) -> Pair:
    z = complex(value)
    return Pair(*(aten.constant_pad_nd(part, pad, v) for part, v in ((x.re, z.real), (x.im, z.imag))))


# ---- between real and complex ----


@rule(aten.view_as_complex.default)
def view_as_complex(x: torch.Tensor) -> Pair:
    return Pair(x[..., 0], x[..., 1])


@rule(aten.view_as_real.default)
def view_as_real(x: Pair) -> torch.Tensor:
    return torch.stack([x.re, x.im], -1)


@rule(aten.complex.default)
def of_parts(real: torch.Tensor, imag: torch.Tensor) -> Pair:
    return Pair(*torch.broadcast_tensors(real, imag))


@rule(aten.polar.default)
def polar(abs: torch.Tensor, angle: torch.Tensor) -> Pair:
    return Pair(abs * torch.cos(angle), abs * torch.sin(angle))


@rule(aten._to_copy.default)
def to_copy(x: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    if dtype is None:
        return x
    if not dtype.is_complex:  # of a complex number, the real part
        return pair(x).re.to(dtype)
    return Pair(*(part.to(real_type(dtype)) for part in pair(x)))


@rule(aten.full.default)
def full(size: Sequence[int], fill_value: complex, *, dtype: torch.dtype | None = None, **_: Any) -> Pair:
    kind = real_type(dtype or torch.get_default_dtype())
    z = complex(fill_value)
    return Pair(torch.full(size, z.real, dtype=kind), torch.full(size, z.imag, dtype=kind))


@rule(aten.zeros.default, aten.empty.memory_format, aten.new_zeros.default, aten.new_empty.default)
def zeros(*args: Any, dtype: torch.dtype | None = None, **_: Any) -> Pair:
    """Of a tensor and a size, or of a size alone."""
    kind = real_type(dtype or pair(args[0]).re.dtype)
    return Pair(*(torch.zeros(args[-1], dtype=kind) for _ in range(2)))


@rule(aten.ones.default)
def ones(size: Sequence[int], *, dtype: torch.dtype, **_: Any) -> Pair:
    return full(size, 1, dtype=dtype)


@rule(aten.full_like.default, aten.ones_like.default)
def full_like(x: Any, fill_value: complex = 1, *, dtype: torch.dtype | None = None, **_: Any) -> Pair:
    first = pair(x).re
    return full(first.shape, fill_value, dtype=dtype or first.dtype)


@rule(aten.real.default)
def real(x: Pair) -> torch.Tensor:
    return x.re


@rule(aten.imag.default)
def imag(x: Pair) -> torch.Tensor:
    return x.im


@rule(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default, aten._conj_copy.default)
def conj(x: Pair) -> Pair:
    return Pair(x.re, -x.im)


@rule(aten.resolve_conj.default, aten.resolve_neg.default)
def resolved(x: Pair) -> Pair:
    return x


@rule(aten.abs.default)
def abs_(x: Pair) -> torch.Tensor:
    return torch.hypot(x.re, x.im)


@rule(aten.angle.default)
def angle(x: Pair) -> torch.Tensor:
    return torch.atan2(x.im, x.re)


# ---- arithmetic ----


@rule(aten.add.Tensor, aten.add.Scalar)
def add(x: Any, y: Any, alpha: Any = 1) -> Pair:
    first, second = pair(x), pair(y if alpha == 1 else mul(pair(y), alpha))
    return Pair(first.re + second.re, first.im + second.im)


@rule(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, y: Any, alpha: Any = 1) -> Pair:
    first, second = pair(x), pair(y if alpha == 1 else mul(pair(y), alpha))
    return Pair(first.re - second.re, first.im - second.im)


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Any, y: Any, alpha: Any = 1) -> Pair:
    return sub(y, x, alpha)


def _bilinear(product: Callable[[Any, Any], torch.Tensor], x: Any, y: Any) -> Pair:
    """A product that is linear in both operands, of which one may be real."""
    x, y = _number(x), _number(y)
    if not isinstance(x, Pair | complex):
        other = pair(y)
        return Pair(product(x, other.re), product(x, other.im))
    first = pair(x)
    if not isinstance(y, Pair | complex):
        return Pair(product(first.re, y), product(first.im, y))
    second = pair(y)
    return Pair(
        product(first.re, second.re) - product(first.im, second.im),
        product(first.re, second.im) + product(first.im, second.re),
    )


@rule(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Any, y: Any) -> Pair:
    return _bilinear(lambda a, b: a * b, x, y)


@rule(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default)
def matmul(x: Any, y: Any) -> Pair:
    return _bilinear(torch.matmul, x, y)


@rule(aten.addmm.default, aten.baddbmm.default)
def addmm(term: Any, x: Any, y: Any, *, beta: complex = 1, alpha: complex = 1) -> Pair:
    return add(mul(pair(term), beta), mul(matmul(x, y), alpha))


@rule(aten.convolution.default)
def convolution(x: Any, weight: Any, bias: Any, *how: Any) -> Pair:
    made = _bilinear(lambda a, w: aten.convolution(a, w, None, *how), x, weight)
    if bias is None:
        return made
    shape = [-1, *[1] * (made.re.dim() - 2)]
    return add(made, Pair(*(part.reshape(shape) for part in pair(bias))))


@rule(aten.div.Tensor, aten.div.Scalar)
def div(x: Any, y: Any) -> Pair:
    y = _number(y)
    if not isinstance(y, Pair | complex):
        return Pair(*(part / y for part in pair(x)))
    if isinstance(y, complex):
        return mul(x, 1 / y)
    first, second = pair(x), pair(y)
    scale = torch.maximum(second.re.abs(), second.im.abs())  # so that no square overflows
    c, d = second.re / scale, second.im / scale
    length = second.re * c + second.im * d
    return Pair((first.re * c + first.im * d) / length, (first.im * c - first.re * d) / length)


@rule(aten.reciprocal.default)
def reciprocal(x: Pair) -> Pair:
    return div(torch.ones_like(x.re), x)


@rule(aten.eq.Tensor, aten.eq.Scalar)
def eq(x: Any, y: Any) -> torch.Tensor:
    first, second = pair(x), pair(y)
    return (first.re == second.re) & (first.im == second.im)


@rule(aten.ne.Tensor, aten.ne.Scalar)
def ne(x: Any, y: Any) -> torch.Tensor:
    return ~eq(x, y)


@rule(aten.isnan.default)
def isnan(x: Pair) -> torch.Tensor:
    return x.re.isnan() | x.im.isnan()


@rule(aten.isinf.default)
def isinf(x: Pair) -> torch.Tensor:
    return x.re.isinf() | x.im.isinf()


@rule(aten.linalg_vector_norm.default)
def vector_norm(x: Pair, *args: Any, **kwargs: Any) -> torch.Tensor:
    return aten.linalg_vector_norm(abs_(x), *args, **kwargs)


# ---- functions ----


@rule(aten.exp.default)
def exp(x: Pair) -> Pair:
    return polar(torch.exp(x.re), x.im)


@rule(aten.log.default)
def log(x: Pair) -> Pair:
    return Pair(torch.log(abs_(x)), angle(x))


@rule(aten.sqrt.default)
def sqrt(x: Pair) -> Pair:
    """The root with a positive real part; of the two, the larger part is computed without a difference."""
    large = torch.sqrt((abs_(x) + x.re.abs()) / 2)
    small = torch.where(large == 0, 0, x.im.abs() / (2 * large))
    right = x.re >= 0
    return Pair(torch.where(right, large, small), torch.copysign(torch.where(right, small, large), x.im))


@rule(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def power(x: Any, y: Any) -> Pair:
    y = _number(y)
    if isinstance(y, int | float) and y == int(y) and 1 <= y <= 4:
        made = pair(x)
        for _ in range(int(y) - 1):
            made = mul(made, x)
        return made
    base, zero = pair(x), eq(x, 0)
    made = exp(mul(y, log(base)))
    return Pair(*(torch.where(zero, 0, part) for part in made))


@rule(aten.sgn.default)
def sgn(x: Pair) -> Pair:
    size = abs_(x)
    return Pair(*(torch.where(size == 0, 0, part / size) for part in x))


@rule(aten.cosh.default)
def cosh(x: Pair) -> Pair:
    return Pair(torch.cosh(x.re) * torch.cos(x.im), torch.sinh(x.re) * torch.sin(x.im))


@rule(aten.sinh.default)
def sinh(x: Pair) -> Pair:
    return Pair(torch.sinh(x.re) * torch.cos(x.im), torch.cosh(x.re) * torch.sin(x.im))


@rule(aten.cos.default)
def cos(x: Pair) -> Pair:
    return cosh(Pair(-x.im, x.re))


@rule(aten.sin.default)
def sin(x: Pair) -> Pair:
    turned = sinh(Pair(-x.im, x.re))
    return Pair(turned.im, -turned.re)


@rule(aten.tanh.default)
def tanh(x: Pair) -> Pair:
    """(t (1 + n^2) + i n (1 - t^2)) / (1 + t^2 n^2) of t = tanh re, n = tan im."""
    t, n = torch.tanh(x.re), torch.tan(x.im)
    below = 1 + t * t * n * n
    return Pair(t * (1 + n * n) / below, n * (1 - t * t) / below)


# ---- Fourier transforms ----


def _scale(x: Pair | torch.Tensor, count: int, normalization: int, divided: bool) -> Any:
    """torch's normalization: 0 none, 1 by the root, 2 by the count; `divided` says that an inverse has it already."""
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if divided else 1)
    if abs(factor - 1) < 1e-12:
        return x
    return Pair(x.re * factor, x.im * factor) if isinstance(x, Pair) else x * factor


def _transformed(x: Pair | torch.Tensor, dims: Sequence[int], inverse: bool) -> Pair:
    """The transform along dimensions one after another."""
    n = (x.re if isinstance(x, Pair) else x).dim()
    packed = torch.stack(list(x), -1) if isinstance(x, Pair) else x[..., None]
    for d in dims:
        packed = DFT(packed, d % n, None, inverse, False)
    return Pair(packed[..., 0], packed[..., 1])


def _count(x: torch.Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dims)


@rule(aten._fft_c2c.default)
def fft_c2c(x: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    made = _transformed(x, dim, not forward)
    return _scale(made, _count(x.re, dim), normalization, not forward) if dim else x


@rule(aten._fft_r2c.default)
def fft_r2c(x: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    last = dim[-1] % x.dim()
    packed = DFT(x[..., None], last, None, False, onesided)
    made = _transformed(Pair(packed[..., 0], packed[..., 1]), dim[:-1], False) if dim[:-1] else None
    return _scale(made or Pair(packed[..., 0], packed[..., 1]), _count(x, dim), normalization, False)


@rule(aten._fft_c2r.default)
def fft_c2r(x: Pair, dim: Sequence[int], normalization: int, last_dim_size: int) -> torch.Tensor:
    n, last = x.re.dim(), dim[-1] % x.re.dim()
    inner = _transformed(x, dim[:-1], True) if dim[:-1] else x
    packed = torch.stack(list(inner), -1)
    made = DFT(packed, last, last_dim_size, True, True)[..., 0]
    others = [d % n for d in dim[:-1]]
    return _scale(made, _count(x.re, others) * last_dim_size, normalization, True)


# ---- eigenvalues ----


def _eigen(x: Any) -> tuple[Pair, Pair]:
    if isinstance(x, Pair):
        raise NotImplementedError("eigenvalues of complex matrices")
    values_re, values_im, vectors_re, vectors_im = EIG(x)
    return Pair(values_re, values_im), Pair(vectors_re, vectors_im)


@rule(aten.linalg_eig.default)
def linalg_eig(x: torch.Tensor) -> list[Pair]:
    return list(_eigen(x))


@rule(aten.linalg_eigvals.default, aten._linalg_eigvals.default)
def linalg_eigvals(x: torch.Tensor) -> Pair:
    return _eigen(x)[0]
