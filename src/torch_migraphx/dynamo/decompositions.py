"""What AOTAutograd takes apart before conversion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

from torch_migraphx.fx.converter_registry import CONVERTERS
from torch_migraphx.fx.converters import __all__ as CONVERTER_FAMILIES

aten = torch.ops.aten

KEPT = (aten.native_dropout.default,)
"""Has no converter, and stays whole all the same: it draws its numbers as eager does."""


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's core ATen table without what has a converter, which stays whole."""
    assert CONVERTER_FAMILIES  # imported for their effect: they fill CONVERTERS
    return {op: fn for op, fn in core_aten_decompositions().items() if op not in CONVERTERS and op not in KEPT}
