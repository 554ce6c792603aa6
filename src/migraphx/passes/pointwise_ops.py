"""Which operators are pointwise, and which can take pointwise ones as their epilogue."""

from __future__ import annotations

from migraphx.ir.operation import OPERATIONS
from migraphx.ops.pointwise import Pointwise

POINTWISE = frozenset(name for name, op in OPERATIONS.items() if issubclass(op, Pointwise))
WITH_EPILOGUE = frozenset({"dot", "quant_dot", "dot_int4", "convolution", "quant_convolution", "attention"})
