"""Remove what nothing uses."""

from __future__ import annotations

from migraphx.ir.module import Module
from migraphx.passes.rewrite import remove_unused


def dead_code(module: Module) -> None:
    """Remove instructions without users. Parameters stay, and so does what acts beyond its result.

    before:
        x = @param:x -> float_type, {4}, {1}
        @1 = exp(x) -> float_type, {4}, {1}
        @2 = relu(@1) -> float_type, {4}, {1}
        @3 = relu(x) -> float_type, {4}, {1}
        @4 = @return(@3)

    after:
        x = @param:x -> float_type, {4}, {1}
        @1 = relu(x) -> float_type, {4}, {1}
        @2 = @return(@1)
    """
    remove_unused(module, list(module))
