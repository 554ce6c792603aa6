"""Programs that are compiled once for many lengths: a table whose entries are sizes, evaluated for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from migraphx.ir.shape import Shape
from migraphx.ir.size import OPEN, Sizes
from migraphx.runtime.cores import available
from migraphx.runtime.options import CompileOptions
from migraphx.targets.common.cache import lookup, obtain
from migraphx.targets.common.call import Call
from migraphx.targets.common.form_table import FormTable
from migraphx.targets.cpu.emit.kernel import Kernel
from migraphx.targets.cpu.executable import CpuExecutable, Idle, Shared, library_of, machine, table_key
from migraphx.targets.cpu.table import HEAD, sizes_in

ARENA_ENTRY = HEAD  # of a table: the first of the buffers' sizes


class CpuForm:
    """A compiled program for all lengths that its table is for; `memory` serves the runs of all of them."""

    def __init__(
        self, library: Path, table: FormTable, weights: Sequence[np.ndarray], threads: int, isa: str, memory: Idle
    ) -> None:
        self.library, self.table, self.weights = library, table, weights
        self.threads, self.isa = threads, isa
        self.memory, self.parameters = memory, table.outline.parameters
        self._shared = Shared(available(), memory)
        self._worth: dict[tuple[int, ...], int] = {}  # threads at lengths between powers of two, by the first of them

    def executable(self, lengths: Sequence[int], wishes: bool = True) -> CpuExecutable | None:
        """The program for these lengths of its symbols; None where a guard does not hold, or a wish, if those count."""
        found = self.table.at(lengths, wishes)
        if found is None:
            return None
        table, outline = found
        table[ARENA_ENTRY] = outline.arena_bytes
        alike = tuple([n.bit_length() for n in lengths])
        worth = self._worth.get(alike)
        made = CpuExecutable(self.library, table, outline, self.weights, self.threads, self.isa, self._shared, worth)
        self._worth[alike] = made.threads
        return made

    def sections(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As CpuExecutable's: the table of a form is as powerful as code, too."""
        text = self.table.text().encode()
        key = table_key(self.library.stem, text)
        obtain(key, ".form", lambda path: path.write_bytes(text))
        data = {"object": self.library.stem, "form": key, "machine": machine(self.isa), "weights": len(self.weights)}
        tensors = {f"weight.{k}": w for k, w in enumerate(self.weights)}
        codes = {"code": np.fromfile(self.library, np.uint8), "form.code": np.frombuffer(text, np.uint8)}
        return data, tensors | codes


def restore_form(
    data: dict[str, Any], tensors: dict[str, np.ndarray], trust_code: bool, options: CompileOptions, memory: Idle
) -> CpuForm | None:
    """What `CpuForm.sections` described, or None where its code is neither in the local cache nor trusted.

    ValueError where the weights are smaller than its table says: a file may have brought them.
    """
    if data["machine"] != machine(options.isa):
        return None
    library, text = library_of(data, tensors, trust_code), _kept_text(data["form"], data["object"])
    if trust_code and text is None:
        text = tensors["form.code"].tobytes()
    if library is None or text is None:
        return None
    table, weights = FormTable.read(text.decode()), [tensors[f"weight.{k}"] for k in range(data["weights"])]
    need = sizes_in(table.entries)[2 + len(table.outline.parameters) + len(table.outline.outputs) :]
    have = [Shape.of(w).bytes for w in weights]
    if len(have) != len(need) or any(h < n for h, n in zip(have, need, strict=True)):
        raise ValueError(f"{library.name} was compiled for weights of other sizes than this program's")
    return CpuForm(library, table, weights, options.num_threads, options.isa, memory)


def _kept_text(key: str, object: str) -> bytes | None:
    """The text of a form from the cache, where it is one for this object."""
    path = lookup(key, ".form")
    text = None if path is None else path.read_bytes()
    return text if text is not None and table_key(object, text) == key else None


def with_plain_kernels(calls: Sequence[Call[Kernel]], sizes: Sizes) -> list[Call[Kernel]]:
    """The calls, no kernel's text made of sizes: where one is, the program is for lengths of those same sizes."""
    made: dict[Kernel, Kernel] = {}
    for call in calls:
        kernel = call.kernel
        if kernel is not None and kernel not in made:
            made[kernel] = kernel if OPEN not in kernel.text else replace(kernel, text=sizes.pinned(kernel.text))
    return [c if c.kernel is None else replace(c, kernel=made[c.kernel]) for c in calls]
