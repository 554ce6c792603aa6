"""Programs that are compiled once for many lengths: a table whose entries are sizes, evaluated for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from migraphx.ir.size import OPEN, Sizes
from migraphx.targets.common.call import Call
from migraphx.targets.common.form_table import FormTable
from migraphx.targets.cpu.codegen import HEAD
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.executable import CpuExecutable, Shared
from migraphx.targets.cpu.threads import available

ARENA_ENTRY = HEAD  # of a table: the first of the buffers' sizes


class CpuForm:
    """A compiled program for all lengths that its table is for; one memory serves the runs of all of them."""

    def __init__(self, library: Path, table: FormTable, weights: Sequence[np.ndarray], threads: int, isa: str) -> None:
        self.library, self.table, self.weights = library, table, weights
        self.threads, self.isa = threads, isa
        self._shared = Shared(available())

    def executable(self, lengths: Sequence[int], wishes: bool = True) -> CpuExecutable | None:
        """The program for these lengths of its symbols; None where a guard does not hold, or a wish, if those count."""
        found = self.table.at(lengths, wishes)
        if found is None:
            return None
        table, outline = found
        table[ARENA_ENTRY] = outline.arena_bytes
        return CpuExecutable(self.library, table, outline, self.weights, self.threads, self.isa, self._shared)

    def release(self) -> None:
        """Give back the memory that waits for runs."""
        self._shared.idle.clear()


def with_plain_kernels(calls: Sequence[Call[Kernel]], sizes: Sizes) -> list[Call[Kernel]]:
    """The calls, no kernel's text made of sizes: where one is, the program is for lengths of those same sizes."""
    made: dict[Kernel, Kernel] = {}
    for call in calls:
        kernel = call.kernel
        if kernel is not None and kernel not in made:
            made[kernel] = kernel if OPEN not in kernel.text else replace(kernel, text=sizes.pinned(kernel.text))
    return [c if c.kernel is None else replace(c, kernel=made[c.kernel]) for c in calls]
