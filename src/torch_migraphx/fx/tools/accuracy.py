"""How far a compiled answer may be from eager's."""

from __future__ import annotations

import math
from typing import Any

import torch

LIMITS = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}
LOWERED = {"fp16": 3e-2, "bf16": 1e-1, "int8": 1e-1, "int4": 0.5}


class AccuracyError(RuntimeError):
    """The compiled module's answer is not eager's; names the outputs and their errors."""


def limit(dtype: torch.dtype, precision: str) -> float:
    """The largest error allowed, relative to the largest finite element; 0 for integers and bool."""
    dtype = dtype.to_real() if dtype.is_complex else dtype
    if not dtype.is_floating_point:
        return 0.0
    return max(LIMITS.get(dtype, 0.2), LOWERED.get(precision, 0.0))


def difference(got: Any, want: torch.Tensor) -> float:
    """The largest error over the largest finite |want|; inf where shapes, types, NaN or infinities differ."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return math.inf
    if not want.numel():
        return 0.0
    if want.is_complex():
        got, want = (torch.view_as_real(x.detach().resolve_conj()) for x in (got, want))
    if not want.dtype.is_floating_point:
        return 0.0 if torch.equal(got, want) else math.inf
    got, want = got.detach().double(), want.detach().double()
    finite = want.isfinite()
    if not torch.equal(got.isfinite(), finite):
        return math.inf
    if not torch.equal(got[~finite].nan_to_num(2.0), want[~finite].nan_to_num(2.0)):
        return math.inf
    if not finite.any():
        return 0.0
    error, largest = float((got - want)[finite].abs().max()), float(want[finite].abs().max())
    return error / largest if largest else error
