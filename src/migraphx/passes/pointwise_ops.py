"""Which operators are pointwise."""

from __future__ import annotations

from migraphx.ir.operation import OPERATIONS
from migraphx.ops.pointwise import Pointwise

POINTWISE = frozenset(name for name, op in OPERATIONS.items() if issubclass(op, Pointwise))
