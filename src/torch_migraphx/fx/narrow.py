"""Rounding to fp8 as an operator of torch: graphs in the engine have no tensors of that type, but its numbers."""

from __future__ import annotations

import torch

MOST = torch.finfo(torch.float8_e4m3fn).max
SATURATES = bool(torch.tensor(2 * MOST).to(torch.float8_e4m3fn).float() == MOST)
"""Whether this torch gives the largest number for what is larger; torch 2.13 does."""
LIBRARY = torch.library.Library("migraphx", "FRAGMENT")
LIBRARY.define("as_fp8(Tensor x) -> Tensor")


@torch.library.impl(LIBRARY, "as_fp8", "CompositeExplicitAutograd")
def as_fp8(x: torch.Tensor) -> torch.Tensor:
    """`x` {...}, floats, each the nearest number of fp8e4m3fn; beyond MOST that, or NaN, as this torch has it."""
    return x.to(torch.float8_e4m3fn).to(x.dtype)


@torch.library.register_fake("migraphx::as_fp8", lib=LIBRARY)
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


AS_FP8: torch._ops.OpOverload = torch.ops.migraphx.as_fp8.default
