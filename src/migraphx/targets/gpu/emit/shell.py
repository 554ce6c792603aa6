"""The text of a kernel: a short shell round functions of kernels/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from migraphx.ir.size import divides
from migraphx.targets.common.views import View
from migraphx.targets.gpu.emit.body import aligned, pointer_type
from migraphx.targets.gpu.emit.kernel import Constant
from migraphx.targets.gpu.emit.source import complete
from migraphx.targets.gpu.emit.tiles import WIDE, span
from migraphx.targets.gpu.kernel import GpuCall, Grid, Kernel, Launch

WAITS = "# now what others wrote"
"""A line of a kernel's text: only weights are read before it (compile.py)."""


@dataclass
class Shell:
    """Arguments in order: a pointer a view, then numbers, then constants; the lines of the body; what it calls."""

    views: list[View] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    loose: set[int] = field(default_factory=set)  # numbers of which it does not matter what divides them
    functions: list[str] = field(default_factory=list)  # texts that are not in kernels/

    def pointer(self, view: View) -> str:
        self.views.append(view)
        return f"p{len(self.views) - 1}"

    def size(self, value: int, wide: bool = False, loose: bool = False, fine: bool = False) -> str:
        """The name of a number that differs among calls. `loose`: no load gets wider where 16 divides it.

        `fine`: it is one of the model's, not of its inputs' lengths: that 8 or 4 divides it is worth a kernel of its
        own, whose loads of halves or floats are whole vectors then.
        """
        unit = next((u for u in (16, 8, 4) if divides(u, value)), 1) if fine and not loose else 1
        if unit in (8, 4):
            return f"({self.size(value // unit, wide, loose=True)} * {unit})"
        if loose:
            self.loose.add(len(self.numbers))
        self.numbers.append(value)
        self.types.append("i64" if wide or abs(value) > WIDE else "i32")
        return f"n{len(self.numbers) - 1}"

    def stride(self, value: int, view: View) -> str:
        """The name of a stride of `view`; 0 and 1 are the compiler's to know. Wide where offsets exceed 32 bits."""
        return str(value) if value in (0, 1) else self.size(value, span(view) > WIDE, fine=True)

    def at(self, index: Sequence[str], strides: Sequence[int], view: View) -> str:
        """The offset in `view` of an index, a text a dimension."""
        terms = [f"{i} * {self.stride(s, view)}" for i, s in zip(index, strides, strict=True) if s]
        return " + ".join(terms) or "0"

    def split(self, name: str, lens: Sequence[int]) -> list[str]:
        """Lines that take a row-major number apart; the names of its digits, the first of them not reduced."""
        digits = [f"{name}{d}" for d in range(len(lens))]
        rest = name
        for d in reversed(range(1, len(lens))):
            n = self.size(lens[d], loose=True)
            self.lines += [f"{digits[d]} = {rest} % {n}", f"{name}_{d} = {rest} // {n}"]
            rest = f"{name}_{d}"
        self.lines.append(f"{digits[0]} = {rest}")
        return digits

    def call(
        self,
        name: str,
        grid: Grid,
        constants: Mapping[str, Constant],
        warps: int,
        stages: int,
        label: str,
        origin: str,
        writes: int | Sequence[int] = 1,
    ) -> GpuCall:
        """The call of this shell, whose last `writes` views are written, or those with these numbers."""
        count = len(self.views)
        written = range(count - writes, count) if isinstance(writes, int) else writes
        order = [*(k for k in range(count) if k not in written), *written]
        views = [self.views[k] for k in order]
        arguments = (*(pointer_type(v.type) for v in views), *self.types)
        names = [*(f"p{k}" for k in order), *(f"n{k}" for k in range(len(self.numbers)))]
        head = ", ".join([*names, *(f"{c}: tl.constexpr" for c in constants)])
        body = "\n    ".join(self.lines)
        text = complete("\n\n\n".join([*self.functions, f"@triton.jit\ndef {name}({head}):\n    {body}\n"]))
        divisible = [k for k, v in enumerate(views) if aligned(v)]
        divisible += [count + k for k, n in enumerate(self.numbers) if divides(16, n) and k not in self.loose]
        kernel = Kernel(name, text, arguments, tuple(constants.items()), tuple(divisible), warps, stages)
        first = count - len(written)
        reads, made = tuple(views[:first]), tuple(views[first:])
        return GpuCall(Launch(kernel, grid), reads, made, tuple(self.numbers), label, origin)
