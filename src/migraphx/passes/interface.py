"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from migraphx.ir.module import Instruction, Module
from migraphx.ir.refusal import Refusal

Refusals = Sequence[Refusal[Instruction]]
"""What a pass returns: why it left instructions as they are."""
Pass = Callable[[Module], Refusals | None]
"""Changes a module, and says what it did not do, where it knows: `explain` asks."""
