"""Special functions, which are composites of the engine."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torch_migraphx.fx.builder import Builder, Operand, Value, axis, common_dtype, dtype_of, float_dtype, lens, rank
from torch_migraphx.fx.converter import converter, named
from torch_migraphx.fx.converters.pointwise import logaddexp
from torch_migraphx.fx.errors import UnsupportedError

aten = torch.ops.aten
COMPOSITES = {
    "bessel_i0": (aten.i0.default, aten.special_modified_bessel_i0.default),
    "bessel_i0e": (aten.special_i0e.default,),
    "bessel_i1": (aten.special_i1.default, aten.special_modified_bessel_i1.default),
    "bessel_i1e": (aten.special_i1e.default,),
    "bessel_k0": (aten.special_modified_bessel_k0.default,),
    "bessel_k0e": (aten.special_scaled_modified_bessel_k0.default,),
    "bessel_k1": (aten.special_modified_bessel_k1.default,),
    "bessel_k1e": (aten.special_scaled_modified_bessel_k1.default,),
    "bessel_j0": (aten.special_bessel_j0.default,),
    "bessel_j1": (aten.special_bessel_j1.default,),
    "bessel_y0": (aten.special_bessel_y0.default,),
    "bessel_y1": (aten.special_bessel_y1.default,),
    "spherical_bessel_j0": (aten.special_spherical_bessel_j0.default,),
    "erfcx": (aten.special_erfcx.default,),
    "log_ndtr": (aten.special_log_ndtr.default,),
    "ndtri": (aten.special_ndtri.default,),
}


def _composite(name: str) -> Callable[..., Value]:
    def special(b: Builder, input: Value) -> Value:
        return b.unary(name, input)

    special.__name__ = name
    return special


for _name, _targets in COMPOSITES.items():
    converter(*(named(t, self="input", x="input") for t in _targets))(_composite(_name))

MOST = 50  # derivatives of digamma: their factorials leave double precision behind 170


def _of_two(name: str) -> Callable[..., Value]:
    def special(b: Builder, input: Operand, other: Operand) -> Value:
        dtype = common_dtype(input, other) if name in ("gcd", "lcm") else float_dtype(input, other)
        narrow = dtype in (torch.float16, torch.bfloat16)
        return b.cast(b.pointwise(name, input, other, dtype=torch.float32 if narrow else dtype), dtype)

    special.__name__ = name
    return special


for _name, _targets in {
    "gcd": (aten.gcd.default,),
    "lcm": (aten.lcm.default,),
    "igamma": (aten.igamma.default, aten.special_gammainc.default),
    "igammac": (aten.igammac.default, aten.special_gammaincc.default),
    "zeta": (
        aten.special_zeta.default,
        aten.special_zeta.other_scalar,
        aten.special_zeta.self_scalar,
    ),
}.items():
    converter(*(named(t, self="input") for t in _targets))(_of_two(_name))


@converter(aten.polygamma.default)
def polygamma(b: Builder, n: int, input: Value) -> Value:
    if not 0 <= n <= MOST:
        raise UnsupportedError(f"polygamma of the order {n}: at most {MOST}")
    return b.unary("digamma", input) if n == 0 else b.unary("polygamma", input, n=n)


@converter(aten.logcumsumexp.default)
def logcumsumexp(b: Builder, input: Value, dim: int) -> Value:
    """Sums of twice as many elements in each step."""
    x = b.cast(input, float_dtype(input))
    if rank(x) == 0:
        return x
    d, step = axis(dim, rank(x)), 1
    while step < lens(x)[d]:
        sizes = [step if k == d else n for k, n in enumerate(lens(x))]
        nothing = b.full(float("-inf"), dtype_of(x), sizes)
        before = b.concat(nothing, b.cut(x, d, 0, lens(x)[d] - step), axis=d)
        x = logaddexp(b, x, before)
        step *= 2
    return x
